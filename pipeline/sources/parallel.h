// What is done once, when a source is made: over several threads, and again where reads fail.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>

namespace penstock {

/// Calls `work` for 0 … count - 1 from several threads, this one among them, and returns when all
/// are done. Then throws what the lowest number threw. What throws Error{unavailable} is done again
/// as `try_again` says. Fewer threads if the system gives no more.
/// `threads` 0: twice the processors, at most 16, because such work mostly waits.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t threads = 0);

/// The first wait of `try_again`. Tests that make many reads fail set it to 0.
extern std::atomic<std::chrono::milliseconds> first_retry_wait;

/// What a dataset needs to be built is read before a run can say how patient to be. For a read that
/// has failed `tries` times: waits a moment, longer each time, and returns true; false after four.
bool try_again(int tries);
/// Does `work` again as long as it throws Error{unavailable} and `try_again` says so.
void patiently(const std::function<void()>& work);
/// What `make` returns, done again in the same way.
template <typename F>
auto made_patiently(const F& make) {
  decltype(make()) made;
  patiently([&] { made = make(); });
  return made;
}

}  // namespace penstock
