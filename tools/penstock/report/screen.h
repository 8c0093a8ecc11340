// The live view's picture of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/stats.h>

#include "tools/penstock/report/meter.h"

namespace penstock::tool {

/// What stays the same in all pictures of a run.
struct Scene {
  std::string title;  ///< the source and what runs
  std::uint64_t epochs = 1;
  double expected = -1;  ///< deliveries of the whole run; negative: unknown
  bool colour = false;
};

/// Where the run is.
struct Moment {
  std::uint64_t epoch = 0;
  std::uint64_t delivered = 0;  ///< batches, or elements of a pipeline without batches
  double elapsed_s = 0;
};

/// One picture: a head line, progress, a bar for each stage (the share of the threads that work in
/// it) and for each tower (the share of the time that it works), and the throughput over time. Each
/// line fits `width`; at most `height` lines.
std::vector<std::string> render(const Scene& scene, const Meter& meter, const Stats& stats,
                                const Moment& moment, int width, int height);

/// The same in one line, for output that is not a terminal.
std::string status_line(const Scene& scene, const Meter& meter, const Stats& stats,
                        const Moment& moment);

}  // namespace penstock::tool
