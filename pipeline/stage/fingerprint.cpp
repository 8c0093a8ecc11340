#include "pipeline/stage/fingerprint.h"

#include <algorithm>

#include <penstock/internal/contents.h>
#include <penstock/internal/crc32c.h>

namespace penstock {
namespace {

std::uint32_t hash(std::string_view text, std::uint32_t previous = 0) {
  return crc32c({reinterpret_cast<const std::byte*>(text.data()), text.size()}, previous);
}

[[noreturn]] void differs(const std::string& what) {
  throw Error(ErrorCode::invalid_argument,
              "the state was saved from another dataset: " + what + " differs");
}

}  // namespace

Fingerprint::Fingerprint(const Node& root, bool contents, std::size_t most_files)
    : with_contents_(contents), most_files_(most_files) {
  add(root);
}

void Fingerprint::add(const Node& node) {
  for (const NodePtr& input : node.inputs()) add(*input);
  Description description(with_contents_, most_files_);
  node.describe(description);
  Mark mark;
  mark.stage = node.name() + "[" + std::to_string(marks_.size()) + "]";
  mark.options = hash(node.spec().to_string(), hash(node.name()));
  const std::optional<WhichShard> shard = node.shard();
  if (shard) {
    mark.shard_count = shard->count;
    mark.shard_index = shard->index;
  }
  std::vector<std::uint32_t> shards;
  for (const auto& [key, value] : description.entries()) {
    if (shard && (key == "count" || key == "index")) continue;
    if (key == "shard") {
      shards.push_back(hash(value));
      mark.names.push_back(value);
    } else {
      mark.options = hash(key + "=" + value + "\n", mark.options);
    }
  }
  mark.shards = shards.size();
  mark.runs.resize(std::min(kRuns, shards.size()));
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::uint32_t& run = mark.runs[i * mark.runs.size() / shards.size()];
    run = hash({reinterpret_cast<const char*>(&shards[i]), sizeof(shards[i])}, run);
  }
  mark.contents = description.contents();
  marks_.push_back(std::move(mark));
}

void Fingerprint::save(StateWriter& state) const {
  state.put(marks_.size());
  for (const Mark& mark : marks_) {
    state.put(mark.options);
    if (mark.shard_count > 0) {
      state.put(mark.shard_count);
      state.put(mark.shard_index);
    }
    state.put(mark.shards);
    for (const std::uint32_t run : mark.runs) state.put(run);
    state.put(mark.contents.size());
    for (const Description::Contents& range : mark.contents) state.put(range.hash & UINT32_MAX);
  }
}

std::vector<Fingerprint::OtherShard> Fingerprint::check(StateReader& state) const {
  std::vector<OtherShard> others;
  const std::uint64_t stages = state.get();
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    const Mark& mark = marks_[i];
    if (i >= stages) differs("the number of stages, which was " + std::to_string(stages));
    if (state.get() != mark.options) differs("stage " + mark.stage);
    if (mark.shard_count > 0) {
      const std::uint64_t count = state.get();
      const std::uint64_t index = state.get();
      if (count != mark.shard_count || index != mark.shard_index) {
        others.push_back({mark.stage, mark.shard_count, mark.shard_index, count, index});
      }
    }
    const std::uint64_t shards = state.get();
    if (shards != mark.shards) {
      differs("the number of shards of " + mark.stage + ", which was " + std::to_string(shards));
    }
    for (std::size_t r = 0; r < mark.runs.size(); ++r) {
      if (state.get() == mark.runs[r]) continue;
      const std::size_t first = (r * mark.shards + mark.runs.size() - 1) / mark.runs.size();
      const std::size_t end = ((r + 1) * mark.shards + mark.runs.size() - 1) / mark.runs.size();
      const auto name = [&](std::size_t shard) {
        return mark.names[shard].substr(mark.names[shard].find(' ') + 1);
      };
      differs("shard " + name(first) + (end - first > 1 ? " to " + name(end - 1) : "") + " of " +
              mark.stage);
    }
    const std::string other = compare_contents(mark, state);
    if (!other.empty()) {
      throw Error(ErrorCode::invalid_argument, "the state was saved from other data: " + other +
                                                   " (trust_data skips this check)");
    }
  }
  if (stages != marks_.size()) {
    differs("the number of stages, which was " + std::to_string(stages));
  }
  return others;
}

std::string Fingerprint::compare_contents(const Mark& mark, StateReader& state) {
  std::string other;
  const std::uint64_t ranges = state.get();
  for (std::uint64_t r = 0; r < ranges; ++r) {
    const std::uint64_t saved = state.get();
    if (!other.empty() || ranges != mark.contents.size()) continue;  // or unknown here
    const Description::Contents& range = mark.contents[r];
    if (saved == (range.hash & UINT32_MAX)) continue;
    other = range.first == range.last
                ? range.first + " of " + mark.stage + " has other contents"
                : range.first + " to " + range.last + " of " + mark.stage + " have other contents";
  }
  return other;
}

std::string Fingerprint::other_contents(StateReader& state) const {
  std::string other;
  (void)state.get();  // stages
  for (const Mark& mark : marks_) {
    (void)state.get();  // options
    if (mark.shard_count > 0) {
      (void)state.get();
      (void)state.get();
    }
    (void)state.get();  // shards
    for (std::size_t r = 0; r < mark.runs.size(); ++r) (void)state.get();
    if (other = compare_contents(mark, state); !other.empty()) return other;
  }
  return other;
}

std::uint64_t Fingerprint::digest() const noexcept {
  std::uint64_t result = marks_.size();
  for (const Mark& mark : marks_) {
    result = mix_path(result, mark.options);
    result = mix_path(result, mix_path(mark.shard_count, mark.shard_index));
    for (const std::uint32_t run : mark.runs) result = mix_path(result, run);
  }
  return result;
}

std::uint64_t Fingerprint::contents_digest() const noexcept {
  if (!with_contents_) return 0;
  std::uint64_t result = 1;
  for (const Mark& mark : marks_) {
    for (const Description::Contents& range : mark.contents) result = mix_path(result, range.hash);
  }
  return result;
}

std::uint64_t contents_digest(const Dataset& dataset, std::size_t most_files) {
  return Fingerprint(*dataset.node(), true, most_files).contents_digest();
}

}  // namespace penstock
