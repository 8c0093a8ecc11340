// Batches taken apart.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// The rows of every component along the outermost dimension, as views: nothing is copied. Rows
/// past the valid ones of a padded batch are dropped. Throws Error{invalid_argument} for a scalar
/// component or outermost dimensions that are known to differ; ones that differ at run time are the
/// batch's error.
NodePtr make_unbatch(NodePtr input);

}  // namespace penstock
