// Facts about the batches that come out of a stage.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns what is known of the batches of a stage that makes one batch from each batch of `input`.
/// If the outermost dimension is unchanged, it still counts the rows.
std::optional<BatchRows> rows_through(const Node& input, const Spec& output);
/// Returns what is known if batches of the first `count` inputs come in any order.
std::optional<BatchRows> rows_of_any(const std::vector<NodePtr>& inputs, std::size_t count);
/// Returns what is known if the batches of `input` come in any order, so that a short one need not
/// be the last.
std::optional<BatchRows> rows_in_any_order(const Node& input);

}  // namespace penstock
