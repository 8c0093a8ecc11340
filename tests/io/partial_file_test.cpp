// Files that are made beside others: whatever stands at their names, nothing is followed or waited
// for, and only what a killed writer left is removed.
#include "pipeline/io/partial_file.h"

#include <functional>

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/strangers.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::read_file;
using test::TempFolder;

struct Use {
  const char* name;
  PartialOptions options;
};
const std::vector<Use> kUses{{"beside", {}},
                             {"exclusive", {.exclusive = true}},
                             {"resumable", {.exclusive = true, .resumable = true}}};

void write(const PartialFile& file, std::string_view text) {
  ASSERT_EQ(write_all(file.fd.get(), text), 0);
}

TEST(PartialFile, OtherFilesAtItsName) {
  const test::TimeLimit limit(100);
  for (const test::Stranger& stranger : test::strangers()) {
    for (const Use& use : kUses) {
      const TempFolder folder;
      const std::string victim = folder.write("victim", "precious");
      stranger.put(folder / "a.partial", victim);
      const PartialFile file = make_partial(folder / "a", 0644, use.options);
      write(file, "contents");
      EXPECT_EQ(file.name, folder / "a.partial-1") << stranger.name << " " << use.name;
      EXPECT_EQ(read_file(file.name), "contents") << stranger.name << " " << use.name;
      EXPECT_TRUE(stranger.stands(folder / "a.partial", victim)) << stranger.name;
      EXPECT_EQ(read_file(victim), "precious") << stranger.name << " " << use.name;
    }
  }
}

TEST(PartialFile, ManyStrangers) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "a.partial");
  for (int i = 1; i < 100; ++i)
    std::filesystem::create_directory(folder / ("a.partial-" + std::to_string(i)));
  test::expect_error(ErrorCode::unavailable, "a.partial-99",
                     [&] { make_partial(folder / "a", 0644); });
}

TEST(PartialFile, FileOfAKilledWriter) {
  for (const Use& use : kUses) {
    const TempFolder folder;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      write(make_partial(folder / "a", 0644, use.options), "left behind");
      ::kill(::getpid(), SIGKILL);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    ASSERT_EQ(read_file(folder / "a.partial"), "left behind");
    const PartialFile file = make_partial(folder / "a", 0644, use.options);
    EXPECT_EQ(file.name, folder / "a.partial") << use.name;
    EXPECT_EQ(read_file(file.name), use.options.resumable ? "left behind" : "") << use.name;
  }
}

TEST(PartialFile, FileOfALivingWriter) {
  for (const Use& first : kUses) {
    for (const Use& second : kUses) {
      const TempFolder folder;
      const PartialFile one = make_partial(folder / "a", 0644, first.options);
      write(one, "one");
      if (second.options.exclusive) {
        test::expect_error(ErrorCode::unavailable,
                           "process " + std::to_string(::getpid()) + " is writing the file",
                           [&] { make_partial(folder / "a", 0644, second.options); });
      } else {
        EXPECT_EQ(make_partial(folder / "a", 0644, second.options).name, folder / "a.partial-1");
      }
      EXPECT_EQ(read_file(one.name), "one") << first.name << " " << second.name;
      EXPECT_TRUE(is_named(one.fd.get(), one.name));
    }
  }
}

}  // namespace
}  // namespace penstock
