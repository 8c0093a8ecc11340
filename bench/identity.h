// A callable whose body the compiler can't see.
#pragma once

#include <penstock/element.h>

namespace penstock::bench {

/// Returns its argument. Defined in its own translation unit, so that no compiler can elide it.
Element identity(Element element);
/// Copies many elements.
void identities(const Element& in, Element& out);

}  // namespace penstock::bench
