// A callable that the compiler can't inline.
#pragma once

#include <penstock/element.h>

namespace penstock::tool {

/// Returns its argument. It is defined in a file of its own, so that the compiler cannot remove the
/// call. A pipeline with it measures the cost of calling a user's code.
Element identity(Element element);

}  // namespace penstock::tool
