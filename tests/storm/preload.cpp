// A library that stands in front of the C library's allocations. Linked to a test, which calls
// `begin` and `end`, or preloaded into any program:
//
//     STORM_FIRST=100 STORM_COUNT=20 STORM_REPORT=FILE LD_PRELOAD=libstorm_preload.so PROGRAM...
//
// STORM_REPORT is appended a line when the program exits: how many calls there were, and how many
// of each kind failed.
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/storm/storm.h"

using penstock::storm::Call;
using penstock::storm::must_fail;

extern "C" {

// glibc's own, under names that nobody else defines.
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  if (!must_fail(Call::malloc)) return __libc_malloc(size);
  errno = ENOMEM;
  return nullptr;
}

void* calloc(std::size_t count, std::size_t size) {
  if (!must_fail(Call::calloc)) return __libc_calloc(count, size);
  errno = ENOMEM;
  return nullptr;
}

void* realloc(void* memory, std::size_t size) {
  if (!must_fail(Call::realloc)) return __libc_realloc(memory, size);
  errno = ENOMEM;
  return nullptr;
}

void* memalign(std::size_t alignment, std::size_t size) {
  if (!must_fail(Call::aligned)) return __libc_memalign(alignment, size);
  errno = ENOMEM;
  return nullptr;
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  const int before = errno;
  void* const got = memalign(alignment, size);
  errno = before;
  if (got == nullptr) return ENOMEM;
  *memory = got;
  return 0;
}

void* mmap(void* address, std::size_t size, int protection, int flags, int fd, off_t offset) {
  if (must_fail(Call::mmap)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, size, protection, flags, fd, offset));
}

void* mmap64(void* address, std::size_t size, int protection, int flags, int fd, off_t offset) {
  return mmap(address, size, protection, flags, fd, offset);
}

}  // extern "C"

namespace {

long number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? -1 : std::atol(text);
}

[[gnu::constructor]] void begin_if_asked() {
  if (number_of("STORM_FIRST") >= 0)
    penstock::storm::begin(number_of("STORM_FIRST"), number_of("STORM_COUNT"));
}

[[gnu::destructor]] void report_if_asked() {
  const char* path = std::getenv("STORM_REPORT");
  if (path == nullptr) return;
  const penstock::storm::Tally tally = penstock::storm::end();
  char line[256];
  int size =
      std::snprintf(line, sizeof(line), "%ld calls, %ld failed:", tally.calls, tally.all_failed());
  for (std::size_t i = 0; i < tally.failed.size(); ++i)
    size += std::snprintf(line + size, sizeof(line) - static_cast<std::size_t>(size), " %s %ld",
                          penstock::storm::kCallNames[i], tally.failed[i]);
  line[size++] = '\n';
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  if (::write(fd, line, static_cast<std::size_t>(size)) < 0) std::perror("STORM_REPORT");
  ::close(fd);
}

}  // namespace
