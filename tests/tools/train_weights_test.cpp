// Files of class weights, as spreadsheets, pandas and Windows write them.
#include "tools/penstock/run/train_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "pipelines/usage_error.h"
#include "tests/support/files.h"

namespace penstock::tool {
namespace {

using ::testing::HasSubstr;
using Weights = std::vector<std::pair<std::string, double>>;

Weights weights_of(const std::string& contents) {
  const penstock::test::TempFolder folder;
  const std::string path = folder.write("weights.csv", contents);
  Weights weights;
  for (const towers::ClassWeight& one : parse_class_weights(path, range(3), {}))
    weights.emplace_back(one.name, one.weight);
  return weights;
}

TEST(TrainWeights, FilesOfOtherPrograms) {
  const Weights both{{"cat", 1}, {"dog", 2.5}};
  for (const char* text :
       {"cat,1\ndog,2.5\n",
        "\xef\xbb\xbf"
        "cat,1\ndog,2.5",
        "\"cat\",1\n\"dog\",2.5\n", "\"cat\",\"1\"\n\"dog\",\"2.5\"\n",
        "\xef\xbb\xbf\"cat\",\"1\"\r\n\"dog\",\"2.5\"\r\n", "cat,1\r\r\ndog,2.5\r\r\n",
        "\r\ncat, 1\n \n\ndog,2.5 \n\r\n", "\xef\xbb\xbf\ncat,1\ndog,2.5"})
    EXPECT_EQ(weights_of(text), both) << testing::PrintToString(text);
}

TEST(TrainWeights, NamesWithCommasAndQuotes) {
  EXPECT_EQ(weights_of("\"tench, Tinca tinca\",2\nred, blue,3\n"),
            (Weights{{"tench, Tinca tinca", 2}, {"red, blue", 3}}));
  EXPECT_EQ(weights_of("\"say \"\"hi\"\"\",2\n5\" disk,3\n\" a \",4\n"),
            (Weights{{"say \"hi\"", 2}, {"5\" disk", 3}, {" a ", 4}}));
}

TEST(TrainWeights, LinesInRefusals) {
  const struct {
    std::string text;
    const char* what;
  } kCases[] = {
      {"\xef\xbb\xbf"
       "cat,1\n\"cat\",2\n",
       "class cat has two weights"},
      {"cat\n", "expected NAME,WEIGHT"},
      {"\"cat\"1\n", "expected NAME,WEIGHT"},
      {"\"cat,1\n", "weights.csv:1"},
      {"\"\",1\n", "expected NAME,WEIGHT"},
      {"cat,1\n\"dog\",\"x\"\n", "a weight must be a finite number, 0 or more, not \"x\""},
      {"cat,1\ndog,-1\n", "weights.csv:2"},
      {"\xef\xbb\xbf\n", "there are no weights"},
      {std::string("\xff\xfe"
                   "c\0,\0001\0\n\0",
                   10),
       "UTF-16"},
  };
  for (const auto& [text, what] : kCases) {
    try {
      weights_of(text);
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what)) << text;
    }
  }
}

}  // namespace
}  // namespace penstock::tool
