// A process that runs a row again and again, each time with allocations failing somewhere else.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/storm/rows.h"
#include "tests/storm/storm.h"

namespace penstock::storm {

/// Where a thread stood when its process died, or did not come back.
struct Stack {
  std::array<void*, 48> frames{};
  int size = 0;

  /// A line for each frame.
  std::string text() const;
  /// The library that gave up, and why; empty if it was code of ours. Only what was seen and
  /// understood is known.
  std::string library_at_fault() const;
};

/// What a victim tells, in memory that it shares with its parent.
struct Report {
  std::array<std::uint64_t, 1U << 14> clean{};  ///< what a clean run delivers
  std::size_t clean_size = 0;
  long calls = 0;  ///< of a clean run

  long errors = 0;   ///< that were delivered in place of something
  long batches = 0;  ///< that were delivered and are right
  std::array<long, kCallNames.size()> failed{};
  std::array<char, 200> complaint{};  ///< of the last place; empty: none

  std::atomic<int> stack_count{0};
  std::array<Stack, 24> stacks{};
};

/// A row, and the report of its victims.
class Victims {
 public:
  Victims(const Row& row, std::string folder);
  Victims(const Victims&) = delete;
  Victims& operator=(const Victims&) = delete;
  ~Victims();

  /// Runs it without failures, to know what is right. `warm`: the second time in its process.
  /// Throws std::runtime_error if that fails.
  void learn(bool warm);
  const Report& report() const noexcept { return *report_; }

  struct Ended {
    std::size_t places = 0;  ///< that were run to their end
    int signal = 0;          ///< it died by, at the next place
    int code = 0;            ///< it exited with
    bool hung = false;       ///< and was killed
    std::string complaint;   ///< what was wrong with the last of these places
  };
  /// One process goes through the places, each followed by a clean run if `check_each`; ends at the
  /// first that is wrong.
  Ended run(std::span<const long> places, long burst, bool check_each);

 private:
  template <typename Work>
  Ended fork_and_watch(Work work);
  bool run_place(long place, long burst, bool check, Delivered& out);
  void complain(const char* what, const char* when);

  Row row_;
  std::string folder_;
  Report* report_;
};

}  // namespace penstock::storm
