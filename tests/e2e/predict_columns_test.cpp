// `penstock train --columns --export-model`, and predictions from the folder alone.
#include <filesystem>
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
namespace predict_columns_test {

using testing::HasSubstr;

constexpr const char* kColumns = R"([columns.word]
kind = "vocabulary_file"
file = "words.txt"
size = 3
oov_buckets = 2
[columns.code]
kind = "vocabulary_file"
file = "codes.txt"
dtype = "i64"
default = 0
[columns.x]
kind = "numeric"
default = 0.1
subtract = 0.3
divide = 0.7
[columns.tags]
kind = "hash_bucket"
buckets = 20
[columns.word_embedding]
kind = "embedding"
source = "word"
dimension = 4
[columns.code_indicator]
kind = "indicator"
source = "code"
[columns.tags_embedding]
kind = "embedding"
source = "tags"
dimension = 3
combiner = "sqrtn"
)";
constexpr const char* kWideDeep = R"([label]
key = "bought"
classes = ["no", "yes"]
[columns.word_x_code]
kind = "crossed"
keys = ["word", {column = "code"}]
buckets = 50
[model]
wide = ["word_x_code", "tags"]
deep = ["x", "word_embedding", "code_indicator", "tags_embedding"]
hidden = [8]
)";
constexpr const char* kTwoTower = R"([model]
query = ["word_embedding", "tags_embedding"]
item = ["code_indicator", "x"]
hidden = []
dimension = 4
)";

class PredictColumns : public testing::Test {
 protected:
  PredictColumns() {
    // The fourth word is behind `size`; 007 is an integer as any other.
    folder_.write("words.txt", "a\nb\r\nc\nd\n");
    folder_.write("codes.txt", "30\n007\n-5\n");
    std::string csv = "word,code,x,tags,bought\n";
    std::vector<std::string> records;
    for (std::uint64_t i = 0; i < 60; ++i) {
      Rng rng(1, i, 0);
      const std::string word(1, static_cast<char>('a' + rng.below(5)));
      const auto code = std::vector<std::int64_t>{30, 7, -5, 8}[rng.below(4)];
      const std::string tag = "t" + std::to_string(rng.below(9));
      const std::string bought = rng.below(2) == 0 ? "yes" : "no";
      csv += word + "," + std::to_string(code) + (i % 7 == 0 ? ",," : ",0.5,") + tag + "," + bought;
      csv += "\n";
      records.push_back(example_of(
          feature("word", bytes_feature({word})) + feature("code", int_feature({code})) +
          feature("tags", bytes_feature(i % 5 == 0 ? std::vector<std::string>{tag, "t1", "t1"}
                                                   : std::vector<std::string>{tag})) +
          feature("bought", bytes_feature({bought}))));
    }
    folder_.write("table.csv", csv);
    folder_.write("table.tfrecord", tfrecords_of(records));
  }

  void train(const std::string& model, const std::vector<std::string>& more) const {
    std::vector<std::string> all{"train",
                                 "--model",
                                 model,
                                 "--epochs",
                                 "2",
                                 "--batch",
                                 "10",
                                 "--deterministic",
                                 "--quiet",
                                 "--seed",
                                 "3",
                                 "--export-model",
                                 folder_ / "kept",
                                 "--checkpoint",
                                 folder_ / ("run_" + model)};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run_program(all);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  std::string scores(const std::vector<std::string>& how, const std::string& data) const {
    std::vector<std::string> all{"predict", "--data",   folder_ / data,         "--threads",
                                 "1",       "--output", folder_ / "scores.npy", "--quiet"};
    all.insert(all.end(), how.begin(), how.end());
    const Outcome outcome = run_program(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_file(folder_ / "scores.npy");
  }

  const TempFolder folder_;
};

TEST_F(PredictColumns, BitsOfTheFolderAlone) {
  for (const std::string model : {"wide_deep", "two_tower"}) {
    const std::string columns = folder_ / (model + ".toml");
    folder_.write(model + ".toml",
                  std::string(kColumns) + (model == "wide_deep" ? kWideDeep : kTwoTower));
    for (const std::string data : {"table.tfrecord", "table.csv"}) {
      std::filesystem::remove_all(folder_ / ("run_" + model));
      train(model, {"--columns", columns, "--data", folder_ / data});
      const std::string with_columns = scores(
          {"--model", model, "--columns", columns, "--variables", folder_ / ("run_" + model)},
          data);
      // Elsewhere, without what it was made of.
      const TempFolder away;
      for (const char* file : {"words.txt", "codes.txt"})
        std::filesystem::rename(folder_ / file, away / file);
      std::filesystem::rename(folder_ / "kept", away / "kept");
      EXPECT_EQ(scores({"--export", away / "kept"}, data), with_columns) << model << " " << data;
      EXPECT_THAT(with_columns, HasSubstr(model == "wide_deep" ? "(60, 2)" : "(60, 1)"));
      for (const char* file : {"words.txt", "codes.txt"})
        std::filesystem::rename(away / file, folder_ / file);
    }
  }
}

TEST_F(PredictColumns, ClassNamesAndCosines) {
  folder_.write("columns.toml", std::string(kColumns) + kWideDeep);
  train("wide_deep", {"--columns", folder_ / "columns.toml", "--data", folder_ / "table.csv"});
  folder_.write("new.csv", "tags,word,code,x\nt1,a,30,\n");
  const std::vector<std::string> predict{"predict", "--export", folder_ / "kept", "--data",
                                         folder_ / "new.csv"};
  const Outcome named = run_program(predict);
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_THAT(named.out, HasSubstr("row,class,probability,no,yes\n0,"));
  EXPECT_THAT(read_file(folder_ / "kept/model.json"), HasSubstr("\"yes\""));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "kept/vocabulary-1.txt"));

  // Another model in its place leaves nothing of it.
  std::string text = std::string(kColumns) + kTwoTower;
  const std::string file = "vocabulary_file\"\nfile = \"codes.txt\"";
  text.replace(text.find(file), file.size(), "vocabulary_list\"\nwords = [30, 7]");
  folder_.write("columns.toml", text);
  train("two_tower", {"--columns", folder_ / "columns.toml", "--data", folder_ / "table.csv"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "kept/vocabulary-1.txt"));
  const Outcome cosine = run_program(predict);
  ASSERT_EQ(cosine.code, 0) << cosine.err;
  EXPECT_THAT(cosine.out, HasSubstr("row,cosine\n0,"));
}

TEST_F(PredictColumns, AreReadAsThePipelineOfTrainingDid) {
  folder_.write("columns.toml", std::string(kColumns) + kWideDeep);
  std::string table = read_file(folder_ / "table.csv");
  for (std::size_t at = 0; (at = table.find(",,", at)) != std::string::npos;)
    table.replace(at, 2, ",0.25,");
  folder_.write("whole.csv", table);
  folder_.write("pipeline.toml",
                "[source]\nkind = \"csv\"\npaths = [\"" + folder_ / "whole.csv" +
                    "\"]\ncolumns = [\"word\", \"code:i64\", \"x:f32\", \"tags\", \"bought\"]\n");
  train("wide_deep",
        {"--columns", folder_ / "columns.toml", "--pipeline", folder_ / "pipeline.toml"});
  const std::string said = scores({"--export", folder_ / "kept"}, "whole.csv");
  for (std::size_t at = 0; (at = table.find("yes", at)) != std::string::npos;)
    table.replace(at, 3, "who knows");
  folder_.write("whole.csv", table);
  EXPECT_EQ(scores({"--export", folder_ / "kept"}, "whole.csv"), said)
      << "labels are not asked for";
}

TEST_F(PredictColumns, IncompleteFolder) {
  folder_.write("columns.toml", std::string(kColumns) + kWideDeep);
  train("wide_deep", {"--columns", folder_ / "columns.toml", "--data", folder_ / "table.csv"});
  const auto said = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"predict", "--export", folder_ / "kept", "--data",
                                 folder_ / "table.csv"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run_program(all);
    EXPECT_NE(outcome.code, 0);
    return outcome.err;
  };
  EXPECT_THAT(said({"--columns", folder_ / "columns.toml"}), HasSubstr("already has its columns"));
  std::string json = read_file(folder_ / "kept/model.json");
  json.replace(json.find("\"word\""), 6, "\"wort\"");
  folder_.write("kept/model.json", json);
  EXPECT_THAT(said({}), HasSubstr("has no vocabulary for this column"));
  std::filesystem::remove(folder_ / "kept/vocabulary-0.txt");
  EXPECT_THAT(said({}), HasSubstr("vocabulary-0.txt"));
  std::filesystem::remove(folder_ / "kept/columns.toml");
  EXPECT_THAT(said({}), HasSubstr("can't read the model's columns"));
}

}  // namespace predict_columns_test
}  // namespace penstock::test
