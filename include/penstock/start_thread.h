// Threads whose start fails with a clear error.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <penstock/error.h>

namespace penstock {

/// Returns a thread that runs `body`, which must not throw. `what` is its purpose: "computing".
/// Throws Error{resource_exhausted} that names the purpose and the limits that may be the reason.
template <typename F>
std::jthread start_thread(const char* what, F body) {
  try {
    return std::jthread(std::move(body));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::resource_exhausted,
                std::string("no thread for ") + what +
                    " can be started: RLIMIT_NPROC, RLIMIT_AS or the container's pids.max (" +
                    error.code().message() + ")");
  }
}

}  // namespace penstock
