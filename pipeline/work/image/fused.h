// A chain of image ops as one work op.
#pragma once

#include <memory>
#include <string_view>

#include <penstock/image.h>

#include "pipeline/work/image/finish.h"

namespace penstock::image {

/// Makes an op that decodes, crops, resizes, augments and lays out each item in one pass. It writes
/// straight into the item's row if it has one. Working memory is kept for each thread.
WorkOpPtr make_fused_op(std::shared_ptr<const ImageOps::Chain> chain);

/// Returns how such an op turns pixels into the values of `component`, or null if `op` does not
/// make that component.
const OutputFormat* output_of(const WorkOp& op, std::string_view component) noexcept;

}  // namespace penstock::image
