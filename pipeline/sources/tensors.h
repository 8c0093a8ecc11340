// Sources of what is in memory already.
#pragma once

#include <penstock/source.h>

namespace penstock {

/// The rows (outermost dimension) of the components; each record is views of them. Throws
/// Error{invalid_argument} naming the component that is a scalar or has another number of rows.
SourcePtr make_tensors_source(Element columns);
/// The element, once. Throws Error{invalid_argument} if it has no components.
SourcePtr make_element_source(Element element);

}  // namespace penstock
