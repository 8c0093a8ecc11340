// What `penstock predict` says of new data.
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/digits.h"
#include "tests/support/files.h"
#include "tests/support/npy.h"
#include "tests/support/program.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;

/// Rows of CSV without quotes.
std::vector<std::vector<std::string>> rows_of(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    auto& row = rows.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) row.push_back(field);
  }
  return rows;
}

class Predict : public testing::Test {
 protected:
  Predict() {
    const Outcome made =
        run_program({"synth", images_, "--images", "30", "--size", "40x40", "--classes", "3"});
    EXPECT_EQ(made.code, 0) << made.err;
  }
  Outcome train(const std::string& model, std::vector<std::string> more) const {
    std::vector<std::string> all{"train",   "--model",  model, "--batch",        "5",
                                 "--quiet", "--epochs", "2",   "--export-model", model_};
    all.insert(all.end(), more.begin(), more.end());
    Outcome outcome = run_program(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  }
  Outcome predict(std::vector<std::string> more) const {
    more.insert(more.begin(), {"predict", "--export", model_, "--threads", "1"});
    return run_program(more);
  }

  const TempFolder folder_;
  const std::string images_ = folder_ / "images";
  const std::string model_ = folder_ / "model";
};

TEST_F(Predict, SaysInOrderWhatAnEvaluationFinds) {
  train("cifar10", {"--data", images_});
  const Outcome outcome = predict({"--data", images_, "--batch", "7"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto rows = rows_of(outcome.out);
  ASSERT_EQ(rows.size(), 31U);
  EXPECT_EQ(rows[0],
            (std::vector<std::string>{"row", "key", "class", "probability", "class_0", "class_1",
                                      "class_2", "3", "4", "5", "6", "7", "8", "9"}));
  std::string before;
  int right = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at(0), std::to_string(i - 1));
    EXPECT_LT(before, rows[i].at(1)) << "files are read in the order of their names";
    before = rows[i].at(1);
    right += before.starts_with(rows[i].at(2) + "/") ? 1 : 0;
    float sum = 0;
    for (std::size_t c = 4; c < rows[i].size(); ++c) sum += std::stof(rows[i][c]);
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  const Outcome evaluated =
      run_program({"evaluate", "--model", "cifar10", "--variables",
                   model_ + "/variables.safetensors", "--data", images_, "--json", "-", "--quiet"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NEAR(evaluated.json()["accuracy"].get<double>(), right / 30.0, 1e-9);

  const std::string npy = folder_ / "scores.npy";
  const Outcome array = predict({"--data", images_, "--output", npy});
  ASSERT_EQ(array.code, 0) << array.err;
  EXPECT_EQ(array.out, "30 rows\n");
  const std::string bytes = read_file(npy);
  EXPECT_THAT(bytes.substr(0, 128), HasSubstr("'shape': (30, 10)"));
  ASSERT_EQ(bytes.size(), 128U + 30 * 10 * 4);
  for (std::size_t i = 0; i < 30; ++i) {
    float score = 0;
    std::memcpy(&score, bytes.data() + 128 + (i * 10 + 1) * 4, 4);
    EXPECT_NEAR(score, std::stof(rows[i + 1].at(5)), 1e-6);
  }
  EXPECT_FALSE(std::filesystem::exists(npy + ".partial"));
  // The same by name, and what it says of images that nobody sorted.
  const Outcome named = run_program({"predict", "--model", "cifar10", "--variables",
                                     model_ + "/variables.safetensors", "--data", images_,
                                     "--threads", "1", "--batch", "7"});
  EXPECT_EQ(named.out, outcome.out);
  const TempFolder flat;
  for (const auto& file : std::filesystem::directory_iterator(images_ + "/class_1"))
    std::filesystem::copy(file, flat / file.path().filename().string());
  const Outcome unsorted = predict({"--data", flat.path()});
  ASSERT_EQ(unsorted.code, 0) << unsorted.err;
  EXPECT_EQ(rows_of(unsorted.out).size(), 11U);
}

TEST_F(Predict, BadElements) {
  train("cifar10", {"--data", images_});
  const std::string whole = predict({"--data", images_}).out;
  std::string key = rows_of(whole)[5].at(1);
  folder_.write("images/" + key, "no JPEG");
  const std::string to = folder_ / "out.csv";
  const Outcome fails = predict({"--data", images_, "--output", to});
  EXPECT_EQ(fails.code, 1);
  EXPECT_THAT(fails.err, HasSubstr(key));
  EXPECT_FALSE(std::filesystem::exists(to)) << "in full or not at all";
  EXPECT_FALSE(std::filesystem::exists(to + ".partial"));
  const std::string bad = folder_ / "bad.jsonl";
  const Outcome skips =
      predict({"--data", images_, "--on-error", "skip", "--quarantine", bad, "--output", to});
  ASSERT_EQ(skips.code, 0) << skips.err;
  const auto rows = rows_of(read_file(to));
  const auto all = rows_of(whole);
  ASSERT_EQ(rows.size(), 30U);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at(0), all[i + (i >= 5 ? 1 : 0)].at(0));
    EXPECT_EQ(rows[i].at(1), all[i + (i >= 5 ? 1 : 0)].at(1));
  }
  EXPECT_THAT(read_file(bad), HasSubstr(key));
}

TEST_F(Predict, ReadsDataAsThePipelineThatItWasTrainedBy) {
  const std::string tars = folder_ / "tars";
  ASSERT_EQ(
      run_program({"synth", tars, "--images", "20", "--size", "40x40", "--format", "tfrecord"})
          .code,
      0);
  const std::string data = tars + "/*.tfrecord";
  const std::string toml =
      folder_.write("p.toml", "[source]\nkind = \"tfrecord\"\npaths = [\"" + data +
                                  "\"]\nexample = [\"image/encoded\", \"image/class/label\"]\n"
                                  "[[stages]]\nkind = \"shuffle\"\n"
                                  "[[stages]]\nkind = \"center_crop\"\nsize = 24\n"
                                  "[[stages]]\nkind = \"normalize\"\nlayout = \"hwc\"\n");
  train("cifar10", {"--pipeline", toml});
  EXPECT_THAT(read_file(model_ + "/pipeline.toml"),
              testing::AllOf(HasSubstr("normalize"), testing::Not(HasSubstr("shuffle"))));
  std::filesystem::remove(toml);
  const Outcome outcome = predict({"--data", data});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(rows_of(outcome.out).size(), 21U);
  EXPECT_EQ(rows_of(outcome.out)[1].at(0), "0");
}

TEST_F(Predict, NeedsNoLabels) {
  const Digits digits(20);
  train("lenet", {"--data", digits.path()});
  const std::string images = folder_.write("new.npy", npy_of("|u1", {20, 28, 28}, digits.pixels()));
  const Outcome outcome = predict({"--data", images});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(rows_of(outcome.out).size(), 21U);
  EXPECT_EQ(predict({"--data", digits.path()}).out, outcome.out);
  EXPECT_EQ(predict({"--data", digits.path().substr(0, digits.path().find(','))}).out, outcome.out);
}

TEST_F(Predict, CosinesOfTexts) {
  std::string text = "query,positive,negative\n";
  for (int i = 0; i < 10; ++i) text += "a b,b c,d e\n";
  const std::string csv = folder_.write("texts.csv", text);
  train("text_match", {"--data", csv});
  const Outcome outcome = predict({"--data", csv});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto rows = rows_of(outcome.out);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"row", "positive", "negative"}));
  EXPECT_EQ(rows.size(), 11U);
}

TEST_F(Predict, InvalidCommandLinesAndFolders) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"predict", "--data", images_}, "a trained model is needed"},
      {{"predict", "--model", "x", "--variables", "y", "--data", images_}, "no model x"},
      {{"predict", "--model", "lenet", "--variables", "y"}, "(--data)"},
      {{"predict", "--model", "lenet", "--variables", "y", "--data", images_, "--output", "a.xlsx"},
       "as .csv or .npy, not as .xlsx (--output)"},
      {{"train", "--model", "cifar10", "--data", images_, "--export-model", images_},
       "there are other files in"}};
  for (const auto& [arguments, text] : cases) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  }
  folder_.write("broken/model.json", "{");
  EXPECT_THAT(run_program({"predict", "--export", folder_ / "broken", "--data", images_}).err,
              HasSubstr("is damaged"));
}

}  // namespace
}  // namespace penstock::test
