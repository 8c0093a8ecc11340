// A program whose standard streams are closed.
#include <penstock/internal/posix.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/durable_file.h>
#include <penstock/file_system.h>

#include "pipeline/io/file_lock.h"
#include "pipeline/io/partial_file.h"
#include "tests/support/files.h"

namespace penstock {
namespace {

/// Runs `body` in a process whose descriptors of `closed` are closed. Returns its exit code: 0 if
/// `body` returned and they are still closed.
int run_without(const std::vector<int>& closed, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int fd : closed) ::close(fd);
    try {
      body();
    } catch (...) {
      ::_exit(2);
    }
    for (const int fd : closed)
      if (::fcntl(fd, F_GETFD) >= 0) ::_exit(1);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A program that embeds the library may have closed its standard streams, and print nevertheless.
TEST(StandardStreams, AreNeverFilesOfTheLibrary) {
  for (const std::vector<int>& closed : {std::vector{0}, {1}, {2}, {1, 2}, {0, 1, 2}}) {
    const auto print = [&closed] {
      for (const int fd : closed) static_cast<void>(!::write(fd, "message", 7));
    };
    const test::TempFolder folder;
    folder.write("in", "input");
    folder.write("old", "message of before");
    const int code = run_without(closed, [&] {
      std::vector<std::shared_ptr<File>> open;
      for (const char* name : {"pread", "mmap", "io_uring"})
        open.push_back(make_file_system(name)->open(folder / "in"));
      const auto created = default_file_system()->create(folder / "created");
      const PartialFile partial = make_partial(folder / "partial", 0600);
      const FileLock lock(folder / "locked");
      print();
      created->append(test::as_bytes("contents"));
      print();
      created->commit();
      write_durably(folder / "old", "new");
      print();
      for (const int fd : closed)
        if (::fcntl(fd, F_GETFD) >= 0) throw std::logic_error("in use");
      for (const auto& file : open)
        if (test::as_text(file->read_all(10)) != "input") throw std::logic_error("other bytes");
    });
    EXPECT_EQ(code, 0) << closed.size() << " from " << closed.front();
    EXPECT_EQ(test::read_file(folder / "created"), "contents");
    EXPECT_EQ(test::read_file(folder / "partial.partial"), "");
    EXPECT_EQ(test::read_file(folder / "old"), "new");
  }
}

}  // namespace
}  // namespace penstock
