// What a run has done so far, stage by stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/error.h>

namespace penstock {

/// One stage of the plan. Times are sums over threads.
struct StageStats {
  std::string name;         ///< "map[2] decode_jpeg"
  std::uint64_t items = 0;  ///< elements that left the stage
  std::uint64_t bytes = 0;  ///< bytes that left the stage
  double busy_s = 0;        ///< seconds of work
  double wait_s = 0;        ///< seconds its threads waited
  std::string waits_on;     ///< what it mostly waited for: "input", "output", "memory", or empty
};

struct MemoryStats {
  std::uint64_t budget_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t peak_bytes = 0;  ///< never above the budget
};

struct ErrorStats {
  std::uint64_t count = 0;
  std::uint64_t retried = 0;  ///< reads that were done again
  std::vector<Error> first;   ///< the first few, in the order they were met
};

/// How images were decoded.
struct DecoderStats {
  std::uint64_t jpeg = 0;    ///< images decoded by libjpeg-turbo, failures included
  std::uint64_t png = 0;     ///< by libpng
  std::uint64_t warned = 0;  ///< that a lenient decoder took in spite of a warning
};

/// What an epoch delivered to its end.
struct EpochStats {
  std::uint64_t epoch = 0;
  std::uint64_t elements = 0;
  std::uint64_t batches = 0;
  std::uint64_t skipped = 0;      ///< bad elements passed over
  std::uint64_t padded_rows = 0;  ///< of the batches
  /// Elements that the graph has in an epoch, and by how many those delivered and skipped are too
  /// few or too many; -1 where the graph does not tell how many it has. Counts, not identities: one
  /// missing and one repeated would cancel out.
  std::int64_t expected = -1;
  std::int64_t missing = -1;
  std::int64_t repeated = -1;
};

/// Something that the engine changed about a run while it went; none changes what is delivered.
struct Decision {
  double at_s = 0;   ///< since the run began
  std::string knob;  ///< "threads", "reading threads", "groups read ahead", "slots"
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::string reason;  ///< with its figures
};

struct Stats {
  std::vector<StageStats> stages;  ///< in the order data flows
  MemoryStats memory;
  ErrorStats errors;
  std::uint64_t elements = 0;       ///< delivered
  std::uint64_t batches = 0;        ///< delivered
  std::vector<EpochStats> epochs;   ///< those that ended, the last 1,000 of them
  int threads = 0;                  ///< that may compute
  int readers = 0;                  ///< that may wait for reads; 0: those that compute read too
  std::vector<Decision> decisions;  ///< the first 1,000
};

}  // namespace penstock
