// Work that is done once, when a source is made: in parallel, and with retries of failed reads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string_view>

namespace penstock {

/// Calls `work` for 0 … count - 1 from several threads, among them the caller's, and returns when
/// all calls are done. Then throws the error of the lowest number, if any. A call that throws
/// Error{unavailable} is repeated as `try_again` says. `threads` 0 means twice the processors, at
/// most 16, because such work mostly waits. Uses fewer threads if the system gives no more.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t threads = 0);

/// The first wait of `try_again`. Tests that make many reads fail set it to 0.
extern std::atomic<std::chrono::milliseconds> first_retry_wait;

/// Waits before another try of a read of `path` that has failed `tries` times, longer each time,
/// and returns true; after four tries returns false at once. For reads that build a dataset: they
/// come before a run can say how many retries it wants. Returns false for a path on a server: its
/// requests have been tried for RemoteOptions::deadline.
bool try_again(std::string_view path, int tries);
/// Calls `work` again as long as it throws Error{unavailable} and `try_again` allows.
void patiently(const std::function<void()>& work);
/// Returns the result of `make`, which is called again in the same way.
template <typename F>
auto made_patiently(const F& make) {
  decltype(make()) made;
  patiently([&] { made = make(); });
  return made;
}

}  // namespace penstock
