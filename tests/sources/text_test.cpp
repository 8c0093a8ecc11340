// Text lines.
#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/files.h"
#include "tests/support/memory_files.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::memory_files;
using test::read_indices;
using test::read_source;
using test::ReadOutcome;
using test::texts_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Paths paths_of(std::size_t count) {
  Paths paths;
  for (std::size_t i = 0; i < count; ++i) paths.push_back(std::to_string(i));
  return paths;
}

std::vector<std::string> lines_of(const std::vector<std::string>& contents) {
  FileOptions options;
  options.files = memory_files(contents);
  return texts_of(read_source(*make_text_lines_source(paths_of(contents.size()), options)));
}

TEST(TextLines, Ends) {
  EXPECT_THAT(lines_of({""}), IsEmpty());
  EXPECT_THAT(lines_of({"\n"}), ElementsAre(""));
  EXPECT_THAT(lines_of({"\r\n"}), ElementsAre(""));
  EXPECT_THAT(lines_of({"a"}), ElementsAre("a"));
  EXPECT_THAT(lines_of({"a\n"}), ElementsAre("a"));
  EXPECT_THAT(lines_of({"a\n\nb\n"}), ElementsAre("a", "", "b"));
  EXPECT_THAT(lines_of({"a\r\nb\r\n"}), ElementsAre("a", "b"));
  // A \r goes only in front of a \n.
  EXPECT_THAT(lines_of({"a\rb\nc\r"}), ElementsAre("a\rb", "c\r"));
  EXPECT_THAT(lines_of({"a\r\r\n"}), ElementsAre("a\r"));
  EXPECT_THAT(lines_of({"a", "", "b\nc"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(lines_of({"\xef\xbb\xbf"
                        "a"}),
              ElementsAre("\xef\xbb\xbf"
                          "a"));
  EXPECT_THAT(lines_of({std::string("a\0b\n", 4)}), ElementsAre(std::string("a\0b", 3)));
}

// The scan works in parts of 1 MiB: lines that end just before, on and behind the edge.
TEST(TextLines, AcrossTheEdgesOfParts) {
  constexpr std::size_t kPart = 1 << 20;
  for (const std::size_t first : {kPart - 2, kPart - 1, kPart, kPart + 1, 3 * kPart}) {
    const std::string line(first, 'x');
    EXPECT_EQ(lines_of({line + "\nsecond\r\n"}), (std::vector<std::string>{line, "second"}));
    EXPECT_EQ(lines_of({line + "\r\nsecond"}), (std::vector<std::string>{line, "second"}));
  }
}

TEST(TextLines, AnyOrderAndProvenance) {
  FileOptions options;
  options.files = memory_files({"one\ntwo\n", "three\n"});
  const SourcePtr source = make_text_lines_source({"0", "1"}, options);
  EXPECT_THAT(texts_of(read_indices(*source, {2, 1, 0, 1})),
              ElementsAre("three", "two", "one", "two"));
  EXPECT_EQ(source->locate(1).to_string(), "0 @4 record 1");
  EXPECT_EQ(source->record_bytes(2), 6U);
  EXPECT_EQ(source->spec().to_string(), "{line: bytes []}");
}

TEST(TextLines, Limits) {
  FileOptions options;
  options.files = memory_files({"1\n2\n3\n", "a long line\n4\n"});
  options.limits.max_members = 2;
  options.limits.max_record_bytes = 5;
  const std::vector<ReadOutcome> outcomes =
      read_source(*make_text_lines_source(paths_of(2), options));
  EXPECT_THAT(texts_of(outcomes), ElementsAre("1", "2", "!out_of_range", "!out_of_range", "4"));
  EXPECT_THAT(outcomes[2].error->cause(), HasSubstr("max_members"));
  EXPECT_THAT(outcomes[3].error->cause(), HasSubstr("12 bytes"));
}

TEST(TextLines, IndexBesideLargeFiles) {
  const test::TempFolder folder;
  std::string text;
  for (int i = 0; i < 500'000; ++i) text += "line " + std::to_string(i) + "\n";
  const std::string path = folder.write("big.txt", text);
  const test::TempFolder index;
  FileOptions options;
  options.index_folder = index.path();
  for (int i = 0; i < 2; ++i) {
    const SourcePtr source = make_text_lines_source({path}, options);
    EXPECT_EQ(source->size(), 500'000U);
    EXPECT_EQ(read_indices(*source, {499'999})[0].text(), "line 499999");
    EXPECT_FALSE(std::filesystem::is_empty(index.path()));
  }
}

}  // namespace
}  // namespace penstock
