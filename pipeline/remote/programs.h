// Programs of a run as numbers that another process understands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/state.h>

#include "pipeline/engine/run/stage_services.h"
#include "pipeline/remote/element_cache.h"
#include "pipeline/remote/pixels.h"

namespace penstock::remote {

/// Numbers for the programs of a run, in the order in which they are requested, parents first, and
/// definitions that say how each is made. Thread-safe.
class ProgramNumbers {
 public:
  explicit ProgramNumbers(StageServices& stages) : stages_(stages) {}

  /// Returns the program's number, or nothing if only this run can have the program.
  std::optional<std::uint64_t> number(const Program& program) EXCLUDES(mutex_);
  /// Returns how many programs have a number.
  std::size_t count() const EXCLUDES(mutex_);
  /// Writes the message that defines a program. It follows the definitions of all lower numbers.
  void define(std::uint64_t number, StateWriter& to) const EXCLUDES(mutex_);
  /// Takes the number from a program that no worker could make, and from the programs that begin
  /// with it.
  void forbid(std::uint64_t number) EXCLUDES(mutex_);

 private:
  struct Definition {
    StageServices::Recipe recipe;
    std::uint64_t parent = 0;  // its number plus one; 0: none
    bool forbidden = false;
  };
  std::optional<std::uint64_t> find(const Program& program, int depth) REQUIRES(mutex_);

  StageServices& stages_;
  mutable Mutex mutex_;
  std::vector<Definition> definitions_ GUARDED_BY(mutex_);
  std::map<const Program*, std::optional<std::uint64_t>> numbers_ GUARDED_BY(mutex_);
};

/// True if elements of the spec `given` can go where elements of `wanted` are expected.
bool fits(const Spec& given, const Spec& wanted);

/// The same programs in the other process. Used by one thread.
class ProgramsByNumber {
 public:
  /// A program, with its inputs and outputs.
  struct Known {
    const Program* program = nullptr;  ///< null: the plan has no such program
    const Node* gathers = nullptr;     ///< the node whose inputs its children belong to, or null
    const Spec* value = nullptr;  ///< spec of the value that it begins with; null: it needs none
    const Spec* gives = nullptr;
    /// Equal for each run of the plan, whatever the program's number is there.
    ElementKey identity{};
  };

  /// The program's memory is charged to `memory`. The arguments must outlive this object.
  ProgramsByNumber(const Plan& plan, StageServices& stages, Memory& memory)
      : plan_(plan), stages_(stages), memory_(memory) {}

  /// Reads what `ProgramNumbers::define` wrote. Throws Error{data_loss}, and
  /// Error{resource_exhausted} if the run's memory has no room for the program.
  void add(StateReader& definition);
  /// Returns a program. Throws Error{data_loss} for an unknown number.
  const Known& at(std::uint64_t number) const;
  /// Returns a program that makes planes for the rows of a stage, where these have pixels. Throws
  /// Error{resource_exhausted} if the run's memory has no room for it.
  const Program& unfinished(const Program& program, std::size_t stage, const PixelsOfRows& pixels);

 private:
  static constexpr std::size_t kMost = 100'000;

  void charge(std::size_t steps);

  const Plan& plan_;
  StageServices& stages_;
  Memory& memory_;
  std::vector<Known> known_;
  std::map<std::pair<const Program*, std::size_t>, std::unique_ptr<const Program>> unfinished_;
};

}  // namespace penstock::remote
