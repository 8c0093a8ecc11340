// The live view of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/stats.h>

#include "tools/penstock/report/meter.h"

namespace penstock::tool {

/// The parts of the view that stay the same during a run.
struct Scene {
  std::string title;  ///< the source and the command
  std::uint64_t epochs = 1;
  double expected = -1;  ///< deliveries of the whole run; negative: unknown
  bool colour = false;
};

/// The point that the run has reached.
struct Moment {
  std::uint64_t epoch = 0;
  std::uint64_t delivered = 0;  ///< batches, or elements if the pipeline has no batches
  double elapsed_s = 0;
};

/// Returns one picture of the run as lines: a head line, the progress, bars, and the throughput
/// over time. Each line fits `width`, and there are at most `height` lines. Bars show, for each
/// stage, the share of the threads that work in it. For each input worker they show the share of
/// its threads' time that is busy, and for each tower the share of its time that it works.
std::vector<std::string> render(const Scene& scene, const Meter& meter, const Stats& stats,
                                const Moment& moment, int width, int height);

/// Returns the same in one line, for output that is not a terminal.
std::string status_line(const Scene& scene, const Meter& meter, const Stats& stats,
                        const Moment& moment);

}  // namespace penstock::tool
