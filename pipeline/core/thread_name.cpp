#include "pipeline/core/thread_name.h"

#include <pthread.h>

namespace penstock {

void name_this_thread(const char* name) noexcept {
  // Fails only if the name is too long or /proc is missing. The thread then has no name.
  static_cast<void>(::pthread_setname_np(::pthread_self(), name));
}

}  // namespace penstock
