// Threads whose failure to start says which resource is missing.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <penstock/error.h>

namespace penstock::towers {

/// Returns a thread that runs `body`, which must not throw. `what` names its purpose in errors,
/// such as "tower 1". Throws Error{resource_exhausted}, which names `what` and the limits that may
/// be the cause.
template <typename F>
std::jthread start_thread(const std::string& what, F body) {
  try {
    return std::jthread(std::move(body));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::resource_exhausted,
                "no thread for " + what +
                    " can be started: RLIMIT_NPROC, RLIMIT_AS or the container's pids.max (" +
                    error.code().message() + ")");
  }
}

}  // namespace penstock::towers
