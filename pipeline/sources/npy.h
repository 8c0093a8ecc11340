// NumPy arrays as a source.
#pragma once

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// {value: <dtype> [...]}: the rows of the arrays, one array after the other. Throws what
/// read_npy_header throws, Error{not_found} that lists what is missing, and Error{invalid_argument}
/// for an array without rows, in Fortran order, or with other rows than the first array's.
SourcePtr make_npy_source(const Paths& paths, const FileOptions& options);

}  // namespace penstock
