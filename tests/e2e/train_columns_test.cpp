// `penstock train --columns`: tables of tf.Examples and of CSV, from the file of columns to
// numbers.
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/rng.h>

#include "tests/support/example.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/records.h"

namespace penstock::test {
namespace {

constexpr const char* kColumns = R"(
[label]
key = "bought"
classes = ["no", "yes"]
[columns.word]
kind = "vocabulary_file"
file = "words.txt"
[columns.day]
kind = "identity"
buckets = 3
[columns.x]
kind = "numeric"
default = 0
[columns.day_indicator]
kind = "indicator"
source = "day"
[columns.word_embedding]
kind = "embedding"
source = "word"
dimension = 4
[columns.word_x_day]
kind = "crossed"
keys = ["word", {column = "day"}]
buckets = 100
[model]
wide = ["word_x_day"]
deep = ["x", "word_embedding", "day_indicator"]
hidden = [8]
)";

/// A word and a day say who buys; x says nothing.
class TrainColumns : public testing::Test {
 protected:
  TrainColumns() {
    folder_.write("words.txt", "a\nb\nc\n");
    folder_.write("columns.toml", kColumns);
    std::string csv = "word,day,x,bought\n";
    std::vector<std::string> records;
    for (std::uint64_t i = 0; i < 400; ++i) {
      Rng rng(1, i, 0);
      const std::uint64_t word = rng.below(3);
      const auto day = static_cast<std::int64_t>(rng.below(3));
      const std::string text(1, static_cast<char>('a' + word));
      const std::string bought = (word + static_cast<std::uint64_t>(day)) % 3 == 0 ? "yes" : "no";
      csv += text + "," + std::to_string(day) + (i % 7 == 0 ? ",," : ",0.5,") + bought + "\n";
      records.push_back(example_of(feature("word", bytes_feature({text})) +
                                   feature("day", int_feature({day})) +
                                   feature("bought", bytes_feature({bought}))));
    }
    folder_.write("table.csv", csv);
    folder_.write("table.tfrecord", tfrecords_of(records));
  }
  Outcome train(const std::string& data, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"train",
                                 "--model",
                                 "wide_deep",
                                 "--columns",
                                 folder_ / "columns.toml",
                                 "--data",
                                 folder_ / data,
                                 "--eval-data",
                                 folder_ / data,
                                 "--batch",
                                 "20",
                                 "--epochs",
                                 "8",
                                 "--schedule",
                                 "constant:0.02",
                                 "--deterministic",
                                 "--quiet",
                                 "--json",
                                 "-"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  }

  const TempFolder folder_;
};

TEST_F(TrainColumns, LearnATableOfEitherForm) {
  const std::string model = folder_ / "model.safetensors";
  for (const char* data : {"table.csv", "table.tfrecord"}) {
    const Outcome outcome = train(data, {"--export", model});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["test_accuracy"], 1.0) << data;
    const Outcome evaluated =
        run_program({"evaluate", "--model", "wide_deep", "--columns", folder_ / "columns.toml",
                     "--variables", model, "--data", folder_ / data, "--quiet", "--json", "-"});
    ASSERT_EQ(evaluated.code, 0) << evaluated.err;
    EXPECT_EQ(evaluated.json()["accuracy"], 1.0) << data;
    EXPECT_EQ(evaluated.json()["rows"], 400) << data;
    EXPECT_EQ(evaluated.json()["auc"], 1.0) << data;
  }
}

TEST_F(TrainColumns, PredictTheRowsOfATableThatHasNoLabel) {
  const std::string model = folder_ / "model.safetensors";
  ASSERT_EQ(train("table.csv", {"--export", model}).code, 0);
  folder_.write("new.csv", "word,day,x\na,0,\na,1,0.5\nb,2,1\n");
  const Outcome found =
      run_program({"predict", "--model", "wide_deep", "--columns", folder_ / "columns.toml",
                   "--variables", model, "--data", folder_ / "new.csv"});
  ASSERT_EQ(found.code, 0) << found.err;
  std::vector<std::string> bought;
  std::istringstream lines(found.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "row,class,probability,no,yes");
  while (std::getline(lines, line)) bought.push_back(line.substr(2, line.find(',', 2) - 2));
  EXPECT_EQ(bought, (std::vector<std::string>{"yes", "no", "yes"}));
}

TEST_F(TrainColumns, LearnNothingFromRowsThatWeighNothing) {
  // Each row is there twice: as it is, and with the other answer, which weighs nothing.
  const std::string table = read_file(folder_ / "table.csv");
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);
  std::string weighted = line + ",weight\n";
  while (std::getline(lines, line)) {
    const std::size_t answer = line.rfind(',') + 1;
    weighted += line + ",2\n";
    weighted += line.substr(0, answer) + (line.substr(answer) == "yes" ? "no" : "yes") + ",0\n";
  }
  folder_.write("weighted.csv", weighted);
  const Outcome outcome = train("weighted.csv", {"--weight-column", "weight"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["test_accuracy"], 1.0);
  EXPECT_EQ(train("table.csv", {"--class-weights", "balanced"}).json()["test_accuracy"], 1.0);
}

TEST_F(TrainColumns, GoOnFromACheckpointWithTheSameBits) {
  const Outcome whole = train("table.tfrecord");
  const std::string checkpoints = folder_ / "checkpoints";
  ASSERT_EQ(train("table.tfrecord", {"--checkpoint", checkpoints, "--max-steps", "50"}).code, 0);
  const Outcome rest = train("table.tfrecord", {"--checkpoint", checkpoints});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(rest.json()["resumed_at"], 50);
  EXPECT_EQ(rest.json()["variables_digest"], whole.json()["variables_digest"]);
}

TEST_F(TrainColumns, MismatchedColumns) {
  struct Case {
    std::string from, to, text;
  };
  const std::vector<Case> cases{
      {"kind = \"identity\"", "kind = \"identitie\"", R"(there is no kind "identitie")"},
      {"buckets = 3", "buckets = \"3\"", "expected an integer, got a string"},
      {"buckets = 3", "bucket = 3", "needs buckets"},
      {"buckets = 3", "buckets = 3\nbuckett = 4", R"(unknown key "buckett")"},
      {"source = \"day\"", "source = \"daz\"", R"(there is no column "daz")"},
      {"source = \"day\"", "source = \"day_indicator\"", "depends on itself"},
      {"words.txt", "none.txt", "none.txt"},
      {"default = 0", "default = [0, 1]", "column x: has 2 defaults for the shape [1]"},
      {"keys = [\"word\", ", "keys = [", "a cross needs at least two keys"},
      {"wide = ", "query = ", "wide_deep has no part query"},
      {"wide = [\"word_x_day\"]", "wide = [\"day_indicator\"]", "day_indicator: is already dense"},
      {"hidden = [8]", "hidden = [0]", "a hidden layer has at least 1 output"},
      {"[model]", "[columns.other]\nkind = \"numeric\"\n[model]\nlinear = [\"other\"]",
       "no part linear"},
      {"key = \"bought\"", "key = \"x\"", "feature x is the label, and a column reads it"},
      {"classes = [\"no\", \"yes\"]", "dtype = \"bytes\"", "of bytes has a list of classes"}};
  for (const Case& c : cases) {
    std::string text = kColumns;
    text.replace(text.find(c.from), c.from.size(), c.to);
    folder_.write("columns.toml", text);
    const Outcome outcome = train("table.csv");
    EXPECT_NE(outcome.code, 0) << c.to;
    EXPECT_THAT(outcome.err, testing::HasSubstr(c.text)) << c.to;
    EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("step"))) << c.to;
  }
  folder_.write("columns.toml", kColumns);
  EXPECT_THAT(train("words.txt").err, testing::HasSubstr("models over columns read .tfrecord"));
  folder_.write("other.csv", "word,day,bought\na,1,yes\n");
  EXPECT_THAT(train("other.csv").err, testing::HasSubstr("no column 'x'"));
  const auto usage = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"train", "--data", folder_ / "table.csv"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all).err;
  };
  EXPECT_THAT(usage({"--model", "two_tower"}), testing::HasSubstr("needs feature columns"));
  EXPECT_THAT(usage({"--model", "lenet", "--columns", folder_ / "columns.toml"}),
              testing::HasSubstr("lenet takes no columns (--columns)"));
  const auto beside = [&](const char* flag, const std::string& value) {
    return usage({"--model", "wide_deep", "--columns", folder_ / "columns.toml", flag, value});
  };
  EXPECT_THAT(beside("--component", "word=term"),
              testing::HasSubstr("the columns file names the features"));
  EXPECT_THAT(beside("--label-regex", "(x)"),
              testing::HasSubstr("the columns file names the label"));
  EXPECT_THAT(beside("--weight-column", "none"), testing::HasSubstr("none"));
}

TEST_F(TrainColumns, BadRow) {
  std::string rows = "word,day,x,bought\n";
  for (int i = 0; i < 40; ++i) rows += "a,1,0,yes\n";
  folder_.write("bad.csv", rows + "b,3,0,no\n");
  const Outcome outcome = train("bad.csv");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              testing::HasSubstr("column day: 3 in feature day is not one of its 3 ids"));
  EXPECT_THAT(outcome.err, testing::HasSubstr("bad.csv"));
}

}  // namespace
}  // namespace penstock::test
