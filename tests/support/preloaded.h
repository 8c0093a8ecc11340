// For libraries that are loaded before the C library and take the place of its calls.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

namespace penstock::test {

/// Returns the C library's function of that name, which has the type of `mine`.
template <typename F>
F* real(F* /*mine*/, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

/// Returns what `of` says of the path of an open file; false if it has none.
template <typename Of>
bool of_path(int fd, Of of) {
  char name[64];
  char path[4096];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const ssize_t size = ::readlink(name, path, sizeof path - 1);
  if (size <= 0) return false;
  path[size] = '\0';
  return of(static_cast<const char*>(path));
}

/// Adds a byte to the file that a variable of the environment names, if it is set.
inline void note_in(const char* variable) {
  const char* const path = std::getenv(variable);
  if (path == nullptr || *path == '\0') return;
  const int log = real(&::open, "open")(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return;
  (void)!real(&::write, "write")(log, "x", 1);
  real(&::close, "close")(log);
}

}  // namespace penstock::test
