// Sequences put into rows of one length.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// First fit: each sequence goes to the first open row that has room for all of it. If none has, a
/// new row is opened, and the oldest comes out if that would make more than `open`; a row that is
/// full comes out at once, and what is left at the end in the order in which it was opened. Adds
/// the components segment, i32 from 1 on and 0 for padding, and position, i32 within the sequence.
/// A sequence longer than a row is an error of its own. Throws Error{invalid_argument} unless
/// length and open are positive, or for a component that is a scalar.
NodePtr make_pack(NodePtr input, PackOptions options);

}  // namespace penstock
