// A chain of image ops as one work op.
#pragma once

#include <memory>
#include <string_view>

#include <penstock/image.h>

#include "pipeline/image/finish.h"

namespace penstock::image {

/// Makes an op that decodes, crops, resizes, augments and lays out each item in one pass. It writes
/// straight into the item's row if it has one. Working memory is kept for each thread.
WorkOpPtr make_fused_op(std::shared_ptr<const ImageOps::Chain> chain);

/// Returns how such an op turns pixels into values, and sets `component` to the name of what it
/// makes. Null for other ops.
const OutputFormat* output_of(const WorkOp& op, std::string_view& component) noexcept;
/// Returns an op that makes the u8 that such an op computes its values from, as planes. REQUIRES:
/// `output_of` is not null.
WorkOpPtr without_finish(const WorkOp& op);

}  // namespace penstock::image
