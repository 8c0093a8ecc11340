// Folders of which the file system names files more than once, as some do while they change.
#include <dirent.h>
#include <dlfcn.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/file_system.h>

#include "tests/support/files.h"

namespace {

struct Repeated {
  dirent entry{};
  int left = 0;
};
std::map<DIR*, Repeated> repeated;

}  // namespace

// Instead of the C library's, for this program: each entry comes three times.
extern "C" dirent* readdir(DIR* folder) {
  static const auto next = reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
  Repeated& last = repeated[folder];
  if (last.left > 0) {
    --last.left;
    return &last.entry;
  }
  const dirent* const entry = next(folder);
  if (entry == nullptr) {
    repeated.erase(folder);
    return nullptr;
  }
  last.entry = *entry;
  last.left = 2;
  return &last.entry;
}

namespace penstock {
namespace {

TEST(RepeatedNames, AreOneFileEach) {
  const test::TempFolder folder;
  const std::vector<std::string> files{folder.write("a.txt", "1"), folder.write("b.txt", "2"),
                                       folder.write("below/c.txt", "3"),
                                       folder.write("below/deep/d.txt", "4")};
  const auto system = default_file_system();
  EXPECT_EQ(system->list(folder.path()), files);
  EXPECT_EQ(system->glob(folder / "*.txt", false), (std::vector<std::string>{files[0], files[1]}));
  EXPECT_EQ(system->glob(folder / "**/*.txt", false), files);
}

}  // namespace
}  // namespace penstock
