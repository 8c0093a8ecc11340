// A short description of a graph, which prevents restoring a state into another graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/description.h>
#include <penstock/state.h>

#include "pipeline/stage/node.h"

namespace penstock {

/// A list with a mark for each stage, in the order in which data flows. A mark covers the stage's
/// kind, options and output spec, and the shards that it reads. Up to 64 ranges of neighbouring
/// shards have marks of their own. So an error can name the shard that differs, or at least its
/// range. The names given to callables count. Their code cannot count.
///
/// With `contents` a mark also covers what the files hold, again in up to 64 ranges. That may read
/// files, at the first time.
class Fingerprint {
 public:
  /// `contents`: of how many files of each source at most the contents are looked at.
  explicit Fingerprint(const Node& root, bool contents = false, std::size_t most_files = SIZE_MAX);

  /// A shard stage that differs only in its count and index.
  struct OtherShard {
    std::string stage;
    std::uint64_t count = 0, index = 0;          ///< of this graph
    std::uint64_t old_count = 0, old_index = 0;  ///< of the saved state
  };

  void save(StateWriter& state) const;
  /// Throws Error{invalid_argument} that names the first stage or files that differ from the graph
  /// that `state` was saved from. Returns the differing shard stages, which the caller has to
  /// judge. Contents are compared where both know them.
  std::vector<OtherShard> check(StateReader& state) const;
  /// Returns the first files of which the contents differ from those in `state`, which was saved
  /// from the same graph, as "a.tar of tar[0] has other contents". Empty: none.
  std::string other_contents(StateReader& state) const;
  /// Returns one number for the whole fingerprint, without contents.
  std::uint64_t digest() const noexcept;
  /// Returns one number for the contents of all files; 0 without contents.
  std::uint64_t contents_digest() const noexcept;

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
    std::vector<Description::Contents> contents;
  };
  void add(const Node& node);
  /// Reads the contents of a stage from `state`, and compares them as `other_contents` does.
  static std::string compare_contents(const Mark& mark, StateReader& state);

  bool with_contents_;
  std::size_t most_files_;
  std::vector<Mark> marks_;
};

}  // namespace penstock
