// A chain of image ops as one work op.
#pragma once

#include <memory>

#include <penstock/image.h>

namespace penstock::image {

/// Decodes, crops, resizes, augments and lays out each item in one go, straight into its row where
/// it has one. Working memory is kept per thread.
WorkOpPtr make_fused_op(std::shared_ptr<const ImageOps::Chain> chain);

}  // namespace penstock::image
