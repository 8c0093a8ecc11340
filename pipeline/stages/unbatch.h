// A stage that takes batches apart.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that gives the rows of every component along the outermost dimension. They are
/// views, so nothing is copied. Rows past the valid ones of a padded batch are dropped. Throws
/// Error{invalid_argument} for a scalar component, or if outermost dimensions are known to differ.
/// If they differ at run time, that is an error of the batch.
NodePtr make_unbatch(NodePtr input);

}  // namespace penstock
