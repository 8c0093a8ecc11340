// The place in a run where a stage is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <penstock/rng.h>

namespace penstock {

class ClosedCounts;
class RunServices;
struct NestedCaches;

/// A stage's place in the graph, where it is opened.
struct StagePlace {
  std::uint64_t path = 0;  ///< branches and parents up to here, mixed; 0 at the top
  // The numbers of repeating and of branching stages up to here. The first pass and the first input
  // keep the path. If two such stages follow each other, the numbers keep their second passes, or
  // second inputs, apart.
  std::uint32_t repeats = 0;
  std::uint32_t branches = 0;
};

/// A stage's place in the run, where it is opened.
struct OpenContext {
  RunServices& run;
  std::uint64_t epoch = 0;
  std::uint64_t path = 0;  ///< the path of the place, including repetitions
  StagePlace place{};
  /// True inside interleave or flat_map, where a stage gets no threads of its own.
  bool nested = false;
  /// False if work is redone to return to a run's position. That run has already counted the
  /// failures.
  bool counted = true;
  /// The same for elements that caches at the top draw as in the first epoch.
  bool first_counted = true;
  /// The stores of a nested dataset's caches. Null at the top, where the run keeps them.
  std::shared_ptr<NestedCaches> caches{};
  /// Gets the counts of the stages when they are closed. Null if the epoch ends with them.
  std::shared_ptr<ClosedCounts> closed{};

  OpenContext with_path(std::uint64_t index) const {
    OpenContext result = *this;
    result.path = mix_path(path, index);
    result.place.path = mix_path(place.path, index);
    return result;
  }
  OpenContext repetition(std::uint64_t pass) const {
    OpenContext result = *this;
    if (pass > 0) result.path = mix_path(path, kPass + (std::uint64_t{place.repeats} << 32) + pass);
    ++result.place.repeats;
    return result;
  }
  /// Returns the context of a place's first epoch and first repetition. A cache keeps the elements
  /// drawn there.
  OpenContext first(const StagePlace& as) const {
    OpenContext result = *this;
    result.epoch = 0;
    result.path = as.path;
    result.place.repeats = as.repeats;
    result.place.branches = as.branches;
    result.counted = counted && (first_counted || caches);
    return result;
  }
  OpenContext closed_by(std::shared_ptr<ClosedCounts> counts) const {
    OpenContext result = *this;
    result.closed = std::move(counts);
    return result;
  }
  OpenContext redone() const {
    OpenContext result = *this;
    result.counted = false;
    return result;
  }
  /// Returns the context of the i-th of several inputs. The first one keeps the path.
  OpenContext branch(std::size_t i) const {
    OpenContext result =
        i == 0 ? *this : with_path(kBranch + (std::uint64_t{place.branches} << 32) + i);
    ++result.place.branches;
    return result;
  }

 private:
  // Keep passes and branches apart from each other and from the index of a parent.
  static constexpr std::uint64_t kPass = 0x7061737300000000ULL;
  static constexpr std::uint64_t kBranch = 0x6272616e63680000ULL;
};

}  // namespace penstock
