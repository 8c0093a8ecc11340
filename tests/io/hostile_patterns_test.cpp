// Patterns that anybody may send to an input worker: each ends soon, in bounded memory.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/file_system.h>
#include <penstock/internal/find_files.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace penstock::test {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(HostilePatterns, ManyAnyFolders) {
  const TempFolder folder;
  std::string deep = "x";
  for (int i = 0; i < 24; ++i) deep = "d/" + deep;
  const std::string path = folder.write(deep, "x");
  const auto files = default_file_system();
  EXPECT_THAT(files->glob(folder.path() + "/" + repeated("**/", 1000) + "x"), ElementsAre(path));
  // Without a memory of what was walked, each of these takes more than a million million walks.
  EXPECT_THAT(files->glob(folder.path() + "/" + repeated("**/*/", 12) + "x"), ElementsAre(path));
  EXPECT_THAT(files->glob(folder.path() + "/" + repeated("**/*/", 12) + "y"), SizeIs(0));
  EXPECT_THAT(files->glob(folder.path() + "/" + repeated("**/d/", 12) + "**"), ElementsAre(path));
  expect_error(ErrorCode::out_of_range, "a path has fewer than 4096",
               [&] { files->glob(folder.path() + "/" + repeated("**/", 20'000) + "x"); });
  EXPECT_THAT(files->glob(folder.path() + "/" + repeated("./", 1000) + "*/*"), SizeIs(0));
}

TEST(HostilePatterns, Braces) {
  const auto refused = [](const std::string& pattern, const std::string& why) {
    try {
      expand_braces(pattern);
      ADD_FAILURE() << "no error for " << pattern.substr(0, 40);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_range);
      EXPECT_THAT(std::string(error.what()), testing::HasSubstr(why));
      EXPECT_LT(std::string(error.what()).size(), 1000U);
    }
  };
  refused("{1..30000}" + repeated("{x}", 8'000), "its braces take too long");
  refused(repeated("{", 99) + "{1..1000000}" + repeated("}", 99) + repeated("{y}", 10'000),
          "too many names");
  refused(repeated("{", 200) + repeated("}", 200), "nested too deeply");
  refused("{a,b}" + std::string(1 << 20, 'x'), "more than the 1048576");
  EXPECT_THAT(expand_braces(repeated("{a,b}", 10)), SizeIs(1024));
}

TEST(HostilePatterns, PatternsOfBraces) {
  auto files = make_memory_file_system({{"a", "x"}});
  expect_error(ErrorCode::out_of_range, "more than 10000 patterns",
               [&] { find_files(*files, "{1..20000}/**/*"); });
  try {
    find_files(*files, "{1..5000}*.tar");
    FAIL() << "they are not there";
  } catch (const Error& error) {
    const std::string why = error.what();
    EXPECT_THAT(why, testing::HasSubstr("no file matches 1*.tar, 2*.tar"));
    EXPECT_THAT(why, testing::HasSubstr("and 4980 more"));
    EXPECT_LT(why.size(), 1000U);
  }
}

}  // namespace
}  // namespace penstock::test
