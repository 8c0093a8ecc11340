// An opaque callable.
#pragma once

#include <penstock/element.h>

namespace penstock::bench {

/// Returns its argument. In a translation unit of its own, so that nobody can elide it.
Element identity(Element element);
/// Copies many.
void identities(const Element& in, Element& out);

}  // namespace penstock::bench
