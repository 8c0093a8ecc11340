#include "pipeline/core/callable_status.h"

#include <cstdio>
#include <cstdlib>

#include <cxxabi.h>

namespace penstock {

Status status_of_callable(const std::string& stage) noexcept {
  try {
    throw;
  } catch (const abi::__forced_unwind&) {
    // The C library would end the process, too, but say nothing about the cause.
    std::fprintf(stderr,
                 "penstock: the callable of stage %s ended its thread (pthread_exit or a cancelled "
                 "thread), so the process ends; a callable that can't continue throws\n",
                 stage.c_str());
    std::abort();
  } catch (...) {
    return status_from_current_exception();
  }
}

}  // namespace penstock
