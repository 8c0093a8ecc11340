// The source of a user's own callback.
#pragma once

#include <penstock/sources.h>

namespace penstock {

/// A stream of what fresh generators yield. An exception or an element that does not fit `spec` is
/// that record's error; the generator is called again for the next. Throws Error{invalid_argument}
/// for an empty callable.
SourcePtr make_generate_source(std::function<Generator()> make, Spec spec, std::string name);

}  // namespace penstock
