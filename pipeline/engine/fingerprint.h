// What a graph is, in few bytes, so that a state is never restored into another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/state.h>

#include "pipeline/order/node.h"

namespace penstock {

/// A mark for each stage in the order data flows: of its kind, options and output spec, and of the
/// shards it reads. Shards are marked in up to 64 runs of neighbours, so that one which differs can
/// be named, at least by its run. Names given to callables count, their code can't.
class Fingerprint {
 public:
  explicit Fingerprint(const Node& root);

  /// A shard stage that is the same but for which of how many it is.
  struct OtherShard {
    std::string stage;
    std::uint64_t count = 0, index = 0;          ///< here
    std::uint64_t old_count = 0, old_index = 0;  ///< where the state was saved
  };

  void save(StateWriter& state) const;
  /// Throws Error{invalid_argument} naming the first stage or files that differ from what `state`
  /// was saved from. What is left to the caller to judge is returned.
  std::vector<OtherShard> check(StateReader& state) const;
  /// All of it in one number.
  std::uint64_t digest() const noexcept;

 private:
  static constexpr std::size_t kRuns = 64;
  struct Mark {
    std::string stage;
    std::uint32_t options = 0;
    std::uint64_t shard_count = 0;  // of a shard stage; else 0
    std::uint64_t shard_index = 0;
    std::uint64_t shards = 0;
    std::vector<std::uint32_t> runs;
    std::vector<std::string> names;  // of shards
  };
  void add(const Node& node);

  std::vector<Mark> marks_;
};

}  // namespace penstock
