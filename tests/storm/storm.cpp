#include "tests/storm/storm.h"

#include <atomic>

namespace penstock::storm {
namespace {

std::atomic<bool> on{false};
std::atomic<long> calls{0};
std::atomic<long> first_call{0};
std::atomic<long> last_call{0};
std::array<std::atomic<long>, kCallNames.size()> failed{};

}  // namespace

void begin(long first, long count) noexcept {
  on = false;
  calls = 0;
  first_call = first;
  last_call = first + count;
  for (std::atomic<long>& of_kind : failed) of_kind = 0;
  on = true;
}

Tally end() noexcept {
  on = false;
  Tally tally;
  tally.calls = calls;
  for (std::size_t i = 0; i < failed.size(); ++i) tally.failed[i] = failed[i];
  return tally;
}

bool must_fail(Call call) noexcept {
  if (!on.load(std::memory_order_relaxed)) return false;
  const long number = calls.fetch_add(1);
  if (number < first_call || number >= last_call) return false;
  failed[static_cast<std::size_t>(call)].fetch_add(1);
  return true;
}

}  // namespace penstock::storm
