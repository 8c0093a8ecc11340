#include "tools/penstock/run/trace_exchange.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "report/trace.h"

namespace penstock::tool {

// At the end, the spans of all ranks are joined. So each rank keeps fewer if there are many ranks.
void trace_exchange(towers::StrategyOptions& strategy, int ranks) {
  constexpr std::size_t kOfAll = 1 << 18;
  begin_trace(std::clamp<std::size_t>(kOfAll / static_cast<std::size_t>(ranks), 1 << 10, 1 << 16));
  const auto ns = [](std::chrono::steady_clock::time_point at) {
    return std::chrono::nanoseconds(at.time_since_epoch()).count();
  };
  strategy.exchanged = [ns](std::uint64_t step, auto begin, auto end) {
    note_on_track("exchange of gradients", "exchange", step, ns(begin), ns(end));
  };
}

}  // namespace penstock::tool
