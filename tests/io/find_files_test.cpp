// How braces, patterns and commas become files, over files on disk and in memory.
#include <penstock/internal/find_files.h>

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include "pipeline/io/memory.h"
#include "pipeline/io/pattern.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace penstock {
namespace {

using test::expect_error;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(Braces, StandForWhatTheyStandForInBash) {
  const std::pair<const char*, const char*> table[] = {
      {"a-{08..11}.tar", "a-08.tar a-09.tar a-10.tar a-11.tar"},
      {"train-{000..002}", "train-000 train-001 train-002"},
      {"{x,y}{1..2}", "x1 x2 y1 y2"},
      {"{b,a,b}", "b a b"},
      {"a{,.gz}", "a a.gz"},
      {"{a,b{1,2},c}d", "ad b1d b2d cd"},
      {"{{a,b},{c,d}}", "a b c d"},
      {"{3..1}", "3 2 1"},
      {"{1..10..4}", "1 5 9"},
      {"{10..1..4}", "10 6 2"},
      {"{1..9..-4}", "1 5 9"},
      {"{1..3..0}", "1 2 3"},
      {"{-1..1}", "-1 0 1"},
      {"{-01..1}", "-01 000 001"},
      {"{9..010}", "009 010"},
      {"{1..100..50}", "1 51"},
      {"{a..e..2}", "a c e"},
      {"{c..a}", "c b a"},
      {"{X..Z}", "X Y Z"},
      {"{1..3,x}", "1..3 x"},
      // None of these are expansions.
      {"a{b}c", "a{b}c"},
      {"a{}b", "a{}b"},
      {"a{b{c,d}}e", "a{bc}e a{bd}e"},
      {"a{1..2", "a{1..2"},
      {"a}b{c,d", "a}b{c,d"},
      {"{a,b{c,d}", "{a,bc {a,bd"},
      {"{a,b}}", "a} b}"},
      {"{a..1}", "{a..1}"},
      {"{1..b}", "{1..b}"},
      {"{1..}", "{1..}"},
      {"{1..2..x}", "{1..2..x}"},
      {"{aa..bb}", "{aa..bb}"},
      {"{99999999999999999999..1}", "{99999999999999999999..1}"},
  };
  for (const auto& [pattern, words] : table) EXPECT_EQ(joined(expand_braces(pattern)), words);
  EXPECT_THAT(expand_braces("{,}"), ElementsAre("", ""));
  EXPECT_THAT(expand_braces(""), ElementsAre(""));
}

TEST(Braces, OfAUrlAreInFrontOfItsQuery) {
  EXPECT_EQ(joined(expand_braces("http://h/{1..2}.tar?x={1,2}")),
            "http://h/1.tar?x={1,2} http://h/2.tar?x={1,2}");
  EXPECT_EQ(joined(expand_braces("s3://b/{a,b}-?.tar")), "s3://b/a-?.tar s3://b/b-?.tar");
  EXPECT_EQ(joined(expand_braces("a?{1,2}")), "a?1 a?2");
}

TEST(Braces, StandForAMillionNamesAtMost) {
  EXPECT_EQ(expand_braces("{1..1000}{1..1000}").size(), 1'000'000U);
  for (const std::string& pattern : {std::string("{1..9999999}"), std::string("{1..9999}{1..9999}"),
                                     std::string("{-9223372036854775808..9223372036854775807}"),
                                     "{{1..900000},{1..900000}}" + std::string(4000, 'x'),
                                     std::string(101, '{') + "a,b" + std::string(101, '}')}) {
    expect_error(ErrorCode::out_of_range, "", [&] { expand_braces(pattern); });
  }
  EXPECT_EQ(expand_braces(std::string(100'000, '{')).size(), 1U);
}

/// Files in memory or on disk, in the current folder.
class FindFiles : public ::testing::TestWithParam<const char*> {
 protected:
  FindFiles() {
    auto memory = std::make_shared<MemoryFileSystem>();
    for (const char* name :
         {"x.tar", "a/x.tar", "a/b/x.tar", "a/b/y.tar", "a/b/c/x.tar", "a/.h/x.tar", "a/b/.x.tar",
          "c{1,2}.tar", "c1.tar", "c,2.tar", "c", "2.tar", "d,e/x.tar", "t-1.tar", "t-2.tar"}) {
      folder_.write(name, "x");
      memory->add(name, "x");
    }
    if (::chdir(folder_.path().c_str()) != 0) throw std::runtime_error("chdir");
    files_ = GetParam() == std::string("memory") ? memory : make_file_system(GetParam());
  }
  ~FindFiles() override { EXPECT_EQ(::chdir("/"), 0); }

  std::string found(const std::string& pattern, bool hidden = false) const {
    return joined(find_files(*files_, pattern, hidden));
  }

  const test::TempFolder folder_;
  FileSystemPtr files_;
};

TEST_P(FindFiles, AnyNumberOfFolders) {
  EXPECT_EQ(found("**/x.tar"), "a/b/c/x.tar a/b/x.tar a/x.tar d,e/x.tar x.tar");
  EXPECT_EQ(found("a/**/x.tar"), "a/b/c/x.tar a/b/x.tar a/x.tar");
  EXPECT_EQ(found("a/**"), "a/b/c/x.tar a/b/x.tar a/b/y.tar a/x.tar");
  EXPECT_EQ(found("a/**/**/y.*"), "a/b/y.tar");
  EXPECT_EQ(found("a/**/b/**/x.tar"), "a/b/c/x.tar a/b/x.tar");
  EXPECT_EQ(found("**/c/x.tar"), "a/b/c/x.tar");
  EXPECT_EQ(found("**/b/?.tar"), "a/b/x.tar a/b/y.tar");
  EXPECT_EQ(found("a/b**/x.tar"), "a/b/x.tar") << "only ** alone is more than *";
  EXPECT_EQ(found("a/**/.h/x.tar"), "a/.h/x.tar");
  EXPECT_EQ(found("a/**/.*.tar"), "a/b/.x.tar");
  EXPECT_EQ(found("a/**/x.tar", true), "a/.h/x.tar a/b/c/x.tar a/b/x.tar a/x.tar");
  EXPECT_EQ(found("a/b/**", true), "a/b/.x.tar a/b/c/x.tar a/b/x.tar a/b/y.tar");
  EXPECT_THAT(files_->glob("**/nothing"), IsEmpty());
  EXPECT_THAT(files_->glob("x.tar/**/x.tar"), IsEmpty());
}

TEST_P(FindFiles, BracesAndPatterns) {
  EXPECT_EQ(found("t-{2,1}.tar"), "t-2.tar t-1.tar") << "the order of the braces";
  EXPECT_EQ(found("{a,a/b}/*.tar"), "a/x.tar a/b/x.tar a/b/y.tar");
  EXPECT_EQ(found("{t-*,**/y}.tar"), "t-1.tar t-2.tar a/b/y.tar");
  EXPECT_EQ(found("c{1,2}.tar"), "c{1,2}.tar") << "a file has that name";
  EXPECT_EQ(found("c{1,{1}}.tar"), "c1.tar c{1}.tar")
      << "opening them reports that they are missing";
  expect_error(ErrorCode::not_found, "no file matches n*, m*", [&] { found("{n,x,m}*"); });
  expect_error(ErrorCode::not_found, "no file matches a/q*", [&] { found("a/{q,x}*"); });
  expect_error(ErrorCode::not_found, "no file matches **/q", [&] { found("**/q"); });
}

TEST_P(FindFiles, CommasBetweenPaths) {
  const auto split = [&](const std::string& text) { return split_paths(*files_, text); };
  EXPECT_THAT(split("x.tar"), ElementsAre("x.tar"));
  EXPECT_THAT(split("t-1.tar,t-2.tar"), ElementsAre("t-1.tar", "t-2.tar"));
  EXPECT_THAT(split("none,gone"), ElementsAre("none", "gone"));
  EXPECT_THAT(split("c,2.tar"), ElementsAre("c,2.tar")) << "although c and 2.tar exist";
  EXPECT_THAT(split("x.tar,c,2.tar,d,e/x.tar,c"),
              ElementsAre("x.tar", "c,2.tar", "d,e/x.tar", "c"));
  EXPECT_THAT(split("d,e"), ElementsAre("d,e")) << "a folder";
  EXPECT_THAT(split("d,e/*.tar,t-*.tar"), ElementsAre("d,e/*.tar", "t-*.tar"));
  EXPECT_THAT(split("t-{1,2}.tar,{a,b}"), ElementsAre("t-{1,2}.tar", "{a,b}"));
  EXPECT_THAT(split("{a,b{c,d}}x,y"), ElementsAre("{a,b{c,d}}x", "y"));
  EXPECT_THAT(split("c{1,2}.tar"), ElementsAre("c{1,2}.tar"));
  EXPECT_THAT(split("a{b,c"), ElementsAre("a{b", "c"));
  EXPECT_THAT(split(",x.tar,"), ElementsAre("", "x.tar", ""));
  EXPECT_THAT(split(""), ElementsAre(""));
}

INSTANTIATE_TEST_SUITE_P(All, FindFiles, ::testing::Values("pread", "memory"),
                         [](const auto& test) { return std::string(test.param); });

TEST(FindFilesOnDisk, CircularLinks) {
  const test::TempFolder folder;
  folder.write("a/b/x.tar", "x");
  std::filesystem::create_symlink("..", folder / "a/up");
  std::filesystem::create_symlink("a", folder / "other");
  auto& files = *default_file_system();
  EXPECT_THAT(files.glob(folder / "**/x.tar"),
              ElementsAre(folder / "a/b/x.tar", folder / "other/b/x.tar"));
  EXPECT_THAT(files.glob(folder / "a/**/b/*"), ElementsAre(folder / "a/b/x.tar"));
}

TEST(Patterns, OfPathsMatchFromTheLeft) {
  const auto hits = [](const char* pattern, const char* path) {
    return matches(pattern, path, false);
  };
  EXPECT_TRUE(hits("http://h/d/*.tar", "http://h/d/a.tar"));
  EXPECT_FALSE(hits("http://h/d/*.tar", "http://h/d/e/a.tar"));
  EXPECT_TRUE(hits("http://h/**/a.tar", "http://h/d/e/a.tar"));
  EXPECT_TRUE(hits("**/a/b/**/c", "a/x/a/b/c"));
  EXPECT_TRUE(hits("**/*/.h/**", "x/y/.h/z"));
  EXPECT_FALSE(hits("**/a/b/**/c", "a/x/b/c"));
  EXPECT_FALSE(hits("**", ".a"));
  EXPECT_FALSE(hits("**/a", "a/b"));
}

}  // namespace
}  // namespace penstock
