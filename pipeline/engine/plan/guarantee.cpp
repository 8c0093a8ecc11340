#include "pipeline/engine/plan/guarantee.h"

#include <algorithm>
#include <optional>

namespace penstock {
namespace {

template <typename F>
bool any_of(const Node& node, F what) {
  if (what(node)) return true;
  return std::any_of(node.inputs().begin(), node.inputs().end(),
                     [&](const NodePtr& input) { return any_of(*input, what); });
}

/// Returns the node under prefetches and one batch that is written in place.
const Node& under_batch(const Node& root) {
  const Node* node = &root;
  bool batched = false;
  for (;;) {
    const std::optional<BatchInfo> batches = node->batches();
    const bool batch = !batched && batches && batches->in_place;
    if (!batch && node->relation() != Relation::same) return *node;
    batched = batched || batch;
    node = node->inputs()[0].get();
  }
}

}  // namespace

Guarantee guarantee_of(const Node& root) {
  const bool vouched = !any_of(root, [](const Node& node) { return !node.deterministic(); });
  return vouched ? Guarantee::exact : Guarantee::exact_if_deterministic;
}

bool ordered(const Node& root) {
  return !any_of(root, [](const Node& node) { return !node.ordered(); });
}

bool again_the_same(const Node& root) {
  return !any_of(root, [](const Node& node) {
    return node.inputs().empty() && !node.deterministic() && node.resume() != Resume::position;
  });
}

std::string unsavable(const Node& root) {
  if (ordered(root)) return {};
  const Node* node = &under_batch(root);
  // The elements that such stages give do not depend on the order in which they come.
  while (node->ordered() && node->relation() != Relation::other) {
    node = node->inputs()[0].get();
  }
  if (!node->ordered() && ordered(*node->inputs()[0])) return {};
  return node->name() +
         " follows an unordered map, whose order differs in each run: its position can't be "
         "saved";
}

std::string inelastic(const Node& root) {
  const Node* node = &under_batch(root);
  while (node->relation() == Relation::each && node->ordered()) node = node->inputs()[0].get();
  const auto is_shard = [](const Node& any) { return any.shard().has_value(); };
  const std::optional<WhichShard> shard = node->shard();
  if (!shard) {
    if (!any_of(root, is_shard)) {
      return "it has no shard";
    }
    return node->name() +
           " follows shard, after which only maps, one batch that is written in place and "
           "prefetches may come: it sees the elements of one consumer only";
  }
  if (shard->contiguous) return "its shards are contiguous: another count moves every boundary";
  const Node& input = *node->inputs()[0];
  if (any_of(input, is_shard)) return "it has several shards";
  if (!ordered(input)) return "an unordered map precedes shard";
  return {};
}

std::string line_of(const EpochStats& epoch, Guarantee guarantee) {
  std::string line = "epoch " + std::to_string(epoch.epoch) + ": " +
                     std::to_string(epoch.elements) + " elements in " +
                     std::to_string(epoch.batches) + " batches, " + std::to_string(epoch.skipped) +
                     " skipped";
  line += epoch.expected < 0 ? ", how many there are is not known"
                             : ", " + std::to_string(epoch.missing) + " missing, " +
                                   std::to_string(epoch.repeated) + " repeated";
  if (epoch.padded_rows > 0) line += ", " + std::to_string(epoch.padded_rows) + " rows of padding";
  return line + "; " + std::string(name_of(guarantee));
}

std::int64_t expected_elements(const Node& root) {
  const Node* node = &root;
  while (node->relation() == Relation::same || node->relation() == Relation::each || node->pads()) {
    node = node->inputs()[0].get();
  }
  const std::optional<BatchInfo> made = node->batches();
  const Node& elements = made ? *node->inputs()[0] : *node;
  if (any_of(elements, [](const Node& any) { return any.batches().has_value(); })) return -1;
  const std::int64_t count = elements.cardinality();
  if (count < 0 || !made) return std::max<std::int64_t>(count, -1);
  // If all batches are full, the rest is left out.
  const std::int64_t batches = node->cardinality();
  if (batches < 0) return -1;
  return batches > count / made->rows ? count : batches * made->rows;
}

Guarantee Dataset::guarantee() const {
  return guarantee_of(*node());
}

}  // namespace penstock
