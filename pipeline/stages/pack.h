// The stage that puts sequences into rows of one length.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Makes a stage that packs sequences by first fit: each sequence goes to the first open row that
/// has room for all of it. If no row has room, a new row is opened. If that would make more than
/// `open` rows, the oldest comes out first. A full row comes out at once. At the end, the rest
/// comes out in the order in which the rows were opened.
///
/// Adds two i32 components: `segment`, which counts from 1 and is 0 for padding, and `position`,
/// which counts within the sequence. A sequence longer than a row is an error of its own. Throws
/// Error{invalid_argument} unless length and open are positive, and for a scalar component.
NodePtr make_pack(NodePtr input, PackOptions options);

}  // namespace penstock
