// Preloaded: pthread_create fails from call PENSTOCK_FAIL_FROM to call PENSTOCK_FAIL_TO, as where
// RLIMIT_NPROC or a container's pids.max is reached. Writes the number of calls to the file
// PENSTOCK_CALLS when the process exits.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <pthread.h>

namespace {

constexpr int kNever = 1 << 30;
std::atomic<int> calls{0};

int number_in(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : kNever;
}

[[gnu::destructor]] void tell() {
  const char* path = std::getenv("PENSTOCK_CALLS");
  std::FILE* file = path != nullptr ? std::fopen(path, "w") : nullptr;
  if (file == nullptr) return;
  std::fprintf(file, "%d\n", calls.load());
  std::fclose(file);
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  const int call = calls.fetch_add(1) + 1;
  if (call >= number_in("PENSTOCK_FAIL_FROM") && call <= number_in("PENSTOCK_FAIL_TO"))
    return EAGAIN;
  const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, run, argument);
}
