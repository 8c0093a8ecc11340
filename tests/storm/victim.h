// A process that runs a row repeatedly, each time with failing allocations in a different place.
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

/// The stack of a thread at the time when its process died or hung.
struct Stack {
  std::array<void*, 48> frames{};
  int size = 0;

  /// Returns a line for each frame.
  std::string text() const;
  /// Returns the library that failed, and why; empty if our code failed. Knows only failures that
  /// were observed and understood.
  std::string library_at_fault() const;
};

/// The report of a victim, in memory that it shares with its parent.
struct Report {
  std::array<std::uint64_t, 1U << 14> clean{};  ///< the deliveries of a clean run
  std::size_t clean_size = 0;
  long calls = 0;  ///< of a clean run

  long errors = 0;   ///< delivered in place of something else
  long batches = 0;  ///< delivered correctly
  std::array<long, kCallNames.size()> failed{};
  std::array<char, 200> complaint{};  ///< about the last place; empty: none

  std::atomic<int> stack_count{0};
  std::array<Stack, 24> stacks{};
};

/// The victims of a row, and their report.
class Victims {
 public:
  Victims(const Row& row, std::string folder);
  Victims(const Victims&) = delete;
  Victims& operator=(const Victims&) = delete;
  ~Victims();

  /// Runs the row without failures, to learn the correct deliveries. `warm`: as the second run of
  /// its process. Throws std::runtime_error if that fails.
  void learn(bool warm);
  const Report& report() const noexcept { return *report_; }

  struct Ended {
    std::size_t places = 0;  ///< places that were run to their end
    int signal = 0;          ///< the signal that ended it at the next place
    int code = 0;            ///< its exit code
    bool hung = false;       ///< it did not end, and was killed
    std::string complaint;   ///< the mistake at the last of these places
  };
  /// One process runs the places one after the other, each followed by a clean run if `check_each`.
  /// It ends at the first mistake.
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
