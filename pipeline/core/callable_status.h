// Exceptions that leave a user's callable.
#pragma once

#include <string>

#include <penstock/error.h>

namespace penstock {

/// Returns the status of the exception that a callable threw, as `status_from_current_exception`
/// does. If the callable ends its thread (pthread_exit), this ends the process with a message that
/// names `stage`: the thread is the run's, and others wait for it. REQUIRES: called in a handler.
Status status_of_callable(const std::string& stage) noexcept;

}  // namespace penstock
