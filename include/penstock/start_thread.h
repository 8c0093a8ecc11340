// Threads whose start says what it lacks.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <penstock/error.h>

namespace penstock {

/// A thread that runs `body`, which must not throw. `what` for: "computing". Throws
/// Error{resource_exhausted} that names it, and the limits that can be in the way.
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
