#include "pipeline/engine/run/saved_run.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include <penstock/error.h>
#include <penstock/internal/crc32c.h>
#include <penstock/state.h>

#include "pipeline/core/begin_run.h"
#include "pipeline/stages/shard.h"

namespace penstock {
namespace {

constexpr std::string_view kFormat = "penstock state ";
constexpr std::string_view kMagic = "penstock state 6\n";

std::uint32_t checksum(std::string_view bytes) {
  return crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

/// Returns the shard that saved a state.
Fingerprint::OtherShard saved_by(const SavedRun& saved, const Node& root) {
  if (!saved.other_shards.empty()) return saved.other_shards.front();
  const Node* node = &root;
  std::optional<WhichShard> shard = node->shard();
  for (; !shard; shard = node->shard()) node = node->inputs()[0].get();
  return {node->name(), shard->count, shard->index, shard->count, shard->index};
}

/// Visits inputs first.
void for_each_node(const Node& node, const std::function<void(const Node&)>& use) {
  for (const NodePtr& input : node.inputs()) for_each_node(*input, use);
  use(node);
}

}  // namespace

SavedRun SavedRun::parse(std::string_view bytes, const Fingerprint& graph) {
  const Error damaged(ErrorCode::data_loss, "the state is damaged");
  const std::size_t line = bytes.find('\n') + 1;
  if (bytes.starts_with(kFormat) && line > kFormat.size() && line < kMagic.size() + 4 &&
      !bytes.starts_with(kMagic)) {
    throw Error(ErrorCode::invalid_argument,
                "another version of Penstock saved the state: it is a " +
                    std::string(bytes.substr(0, line - 1)) + ", and this version reads " +
                    std::string(kMagic.substr(0, kMagic.size() - 1)));
  }
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + 4) throw damaged;
  std::uint32_t sum = 0;
  std::memcpy(&sum, bytes.data() + bytes.size() - 4, 4);
  bytes.remove_suffix(4);
  if (sum != checksum(bytes)) throw damaged;
  StateReader state(bytes.substr(kMagic.size()));
  SavedRun saved;
  saved.other_shards = graph.check(state);
  saved.seed = state.get();
  saved.epoch = state.get();
  saved.ended = state.get() != 0;
  saved.errors = state.get();
  saved.elements = state.get();
  saved.batches = state.get();
  saved.in_epoch.elements = state.get();
  saved.in_epoch.batches = state.get();
  saved.in_epoch.padded_rows = state.get();
  saved.passed = state.get_bytes();
  saved.tree = state.get_bytes();
  saved.records = state.get_bytes();
  saved.reached = state.get_bytes();
  return saved;
}

std::string SavedRun::bytes(const Fingerprint& graph) const {
  StateWriter state;
  graph.save(state);
  for (const std::uint64_t number :
       {seed, epoch, std::uint64_t{ended ? 1U : 0U}, errors, elements, batches, in_epoch.elements,
        in_epoch.batches, in_epoch.padded_rows}) {
    state.put(number);
  }
  state.put_bytes(passed);
  state.put_bytes(tree);
  state.put_bytes(records);
  state.put_bytes(reached);
  std::string bytes(kMagic);
  bytes += state.bytes();
  const std::uint32_t sum = checksum(bytes);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  return bytes;
}

void SavedRun::save_records(const Node& root, bool exact) {
  StateWriter record;
  StateWriter far;
  for_each_node(root, [&](const Node& node) { node.save_record(epoch, exact, record, far); });
  records = record.take();
  reached = far.take();
}

void SavedRun::restore_records(const Node& root) const {
  StateReader record(records);
  StateReader far(reached);
  for_each_node(root, [&](const Node& node) { node.restore_record(record, far); });
}

std::uint64_t SavedRun::consumed() const {
  return tree.empty() ? 0 : StateReader(tree).get();
}

SavedRun SavedRun::merge(const std::vector<std::string>& states, const Plan& plan,
                         bool trust_data) {
  const Node& root = *plan.root();
  const Fingerprint graph(root, !trust_data);
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_argument,
                "the run can't resume with another number of consumers: " + why);
  };
  if (!plan.inelastic().empty()) refuse(plan.inelastic());
  if (states.empty()) refuse("there are no states");
  SavedRun merged;
  std::uint64_t elements = 0;
  std::set<std::uint64_t> seen;
  std::uint64_t count = 0;
  std::uint64_t here = 0;
  for (std::size_t i = 0; i < states.size(); ++i) {
    SavedRun saved = parse(states[i], graph);
    const Fingerprint::OtherShard shard = saved_by(saved, root);
    if (i == 0) {
      merged = saved;
      count = shard.old_count;
      here = shard.count;
    }
    const auto name = [](std::size_t consumer) { return "state " + std::to_string(consumer); };
    if (shard.old_count != count || !seen.insert(shard.old_index).second) {
      refuse(name(i) + " is of shard " + std::to_string(shard.old_index) + " of " +
             std::to_string(shard.old_count) + ", which does not match the states before it");
    }
    if (saved.seed != merged.seed || saved.epoch != merged.epoch || saved.ended != merged.ended ||
        saved.consumed() != merged.consumed() ||
        saved.in_epoch.batches != merged.in_epoch.batches) {
      refuse(name(0) + " was saved after " + std::to_string(merged.consumed()) +
             " elements of epoch " + std::to_string(merged.epoch) + ", but " + name(i) + " after " +
             std::to_string(saved.consumed()) + " of epoch " + std::to_string(saved.epoch));
    }
    if (saved.records != merged.records) {
      refuse("the weights of " + name(0) + "'s mixtures are not those of " + name(i) + "'s");
    }
    elements += saved.elements;
  }
  if (seen.size() != count) {
    refuse("there are " + std::to_string(seen.size()) + " states of " + std::to_string(count) +
           " consumers");
  }
  // The state of a segment: what it consumed and skipped, and its input's state.
  StateWriter tree;
  const std::uint64_t consumed = merged.consumed();
  for (const std::uint64_t number :
       {consumed, std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0}}) {
    tree.put(number);
  }
  tree.put_bytes(resharded_state(consumed * count));
  tree.put(merged.in_epoch.batches);
  merged.tree = tree.take();
  merged.elements = elements / here;
  merged.in_epoch.elements = merged.in_epoch.elements * count / here;
  return merged;
}

bool lacks_elements(std::string_view state, const Plan& plan) {
  const SavedRun saved = SavedRun::parse(state, Fingerprint(*plan.root()));
  if (saved.tree.empty()) return false;
  StateReader tree(saved.tree);  // as ParallelSegment::save writes it
  const std::uint64_t consumed = tree.get();
  (void)tree.get();  // skipped
  if (tree.get() != 0) {
    (void)tree.get();
    (void)tree.get_bytes();
  }
  const std::uint64_t delivered = tree.get();
  const std::int64_t all = plan.elements().cardinality();
  const std::uint64_t full = delivered * static_cast<std::uint64_t>(plan.batches()->rows);
  return consumed != (all < 0 ? full : std::min(full, static_cast<std::uint64_t>(all)));
}

}  // namespace penstock
