#include "tools/penstock/support/large_stack.h"

#include <cstddef>
#include <system_error>
#include <thread>

#include <pthread.h>
#include <sys/resource.h>

namespace penstock::tool {

int run_on_large_stack(const std::function<int()>& body) {
  constexpr std::size_t kStack = 8 << 20;  // what Linux gives by default
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStack) return body();
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return body();
  ::pthread_attr_setstacksize(&attributes, kStack);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
  int code = 0;
  try {
    std::thread([&] { code = body(); }).join();
  } catch (const std::system_error&) {
    return body();
  }
  return code;
}

}  // namespace penstock::tool
