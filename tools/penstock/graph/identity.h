// A callable that the compiler can't see through.
#pragma once

#include <penstock/element.h>

namespace penstock::tool {

/// Returns what it is given. Defined in a file of its own, so that no caller can leave it out: what
/// a pipeline with it costs is the price of calling a user's code.
Element identity(Element element);

}  // namespace penstock::tool
