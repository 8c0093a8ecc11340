// Statistics of a run so far, stage by stage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/error.h>
#include <penstock/process.h>
#include <penstock/workers.h>

namespace penstock {

/// The work of one stage of the plan. Times are sums over threads.
struct StageStats {
  std::string name;         ///< "map[2] decode_jpeg"
  std::uint64_t items = 0;  ///< elements that left the stage
  std::uint64_t bytes = 0;  ///< bytes that left the stage
  double busy_s = 0;        ///< seconds of work
  double wait_s = 0;        ///< seconds in which its threads waited
  /// The main cause of its waits: "input", "output", "memory", or empty.
  std::string waits_on;
  /// Seconds of `busy_s` on threads that may wait, and not on those that compute.
  double apart_s = 0;
  /// The part of `bytes` with which the stage filled up its rows. Byte strings have none.
  std::uint64_t padding_bytes = 0;
};

/// The host memory of a run.
struct MemoryStats {
  std::uint64_t budget_bytes = 0;  ///< that the run may hold at once
  std::uint64_t used_bytes = 0;    ///< held now
  std::uint64_t peak_bytes = 0;    ///< the most so far; never above the budget
};

/// The elements that failed in a run.
struct ErrorStats {
  std::uint64_t count = 0;    ///< elements that failed
  std::uint64_t retried = 0;  ///< reads that were repeated
  std::vector<Error> first;   ///< the first few, in the order in which they were met
  /// The error that an epoch would end with if it ended here, see OnError::skip. It judges runs
  /// that stop earlier.
  std::optional<Error> mostly_bad{};
};

/// Counts of decoded images.
struct DecoderStats {
  std::uint64_t jpeg = 0;    ///< JPEGs, failures included
  std::uint64_t png = 0;     ///< PNGs, failures included
  std::uint64_t warned = 0;  ///< decoded in spite of a warning
};

/// The delivery of an epoch that was delivered to its end.
struct EpochStats {
  std::uint64_t epoch = 0;        ///< counted from 0
  std::uint64_t elements = 0;     ///< delivered, as samples
  std::uint64_t batches = 0;      ///< delivered
  std::uint64_t skipped = 0;      ///< bad elements that were left out
  std::uint64_t padded_rows = 0;  ///< in the batches
  /// Elements that the graph has in an epoch. -1 where the graph does not tell, here and below.
  std::int64_t expected = -1;
  /// By how many the delivered and skipped elements are too few. This is a count, not an identity:
  /// one missing and one repeated element would cancel out.
  std::int64_t missing = -1;
  /// By how many they are too many.
  std::int64_t repeated = -1;
};

/// A change that the engine made to a run while it ran. None changes the elements that are
/// delivered.
struct Decision {
  double at_s = 0;         ///< since the run began
  std::string knob;        ///< "threads", "reading threads", "groups read ahead", "slots"
  std::uint64_t from = 0;  ///< before the change
  std::uint64_t to = 0;    ///< after it
  std::string reason;      ///< with its figures
};

/// The statistics of a run.
struct Stats {
  std::vector<StageStats> stages;  ///< in the order in which data flows
  MemoryStats memory;              ///< of the budget
  ErrorStats errors;               ///< elements that failed
  std::uint64_t elements = 0;      ///< delivered
  std::uint64_t batches = 0;       ///< delivered
  std::vector<EpochStats> epochs;  ///< the last 1,000 that ended
  int threads = 0;                 ///< that may compute
  int readers = 0;  ///< that may wait, for reads and in maps with `blocking`; 0: none
  std::vector<Decision> decisions;     ///< the first 1,000
  std::vector<WorkerStats> workers{};  ///< in the order in which they were named
  /// Groups of elements that workers made; 0 without workers.
  std::uint64_t groups_of_workers = 0;
  /// Groups that this process made; 0 without workers.
  std::uint64_t groups_made_here = 0;

  std::uint64_t seed = 0;        ///< of the run
  std::uint64_t slot_bytes = 0;  ///< of a batch; 0: batches differ, or there are none
  std::string guarantee{};       ///< "EXACT", as Dataset::guarantee
  std::uint64_t epoch = 0;       ///< that is delivered now, counted from 0
  /// Seconds since the run was made, until now or until the end of the last epoch that ended.
  double wall_s = 0;
  /// Seconds of these until `next` first returned an element; 0: it has not yet.
  double first_s = 0;
  /// Seconds of these in which a caller waited in `next`.
  double wait_s = 0;
  /// CPU seconds of all threads of the process during `wall_s`.
  double cpu_s = 0;
  /// CPU times of the process a tenth of a second after the run began; nothing before that.
  std::optional<CpuTimes> cpu_before{};
};

}  // namespace penstock
