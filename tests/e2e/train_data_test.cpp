// The data that `penstock train` takes: each form trains the same variables from the same rows.
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

Outcome train(const std::string& model, std::vector<std::string> more) {
  std::vector<std::string> all{
      "train", "--model", model, "--batch",  "4", "--deterministic", "--quiet",     "--json",
      "-",     "--seed",  "3",   "--epochs", "1", "--no-augment",    "--no-shuffle"};
  all.insert(all.end(), more.begin(), more.end());
  return run_program(all);
}

std::string digest_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.code == 0 ? outcome.json()["variables_digest"].get<std::string>() : "";
}

class TrainData : public testing::Test {
 protected:
  /// The same pictures in another form.
  std::string pictures(const std::string& format, const std::vector<std::string>& more = {}) const {
    const std::string to = folder_ / format;
    std::vector<std::string> all{"synth", to,          "--images", "24",       "--size",
                                 "40x40", "--classes", "3",        "--format", format};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome made = run_program(all);
    EXPECT_EQ(made.code, 0) << made.err;
    return to;
  }

  const TempFolder folder_;
};

TEST_F(TrainData, ExamplesOfTFRecords) {
  const std::string tar = pictures("tar") + "/*.tar";
  const std::string examples = pictures("tfrecord") + "/*.tfrecord";
  const std::string wanted = digest_of(train("cifar10", {"--data", tar}));
  EXPECT_EQ(digest_of(train("cifar10", {"--data", examples})), wanted);
  EXPECT_EQ(digest_of(train("cifar10", {"--data", examples, "--component",
                                        "image=image/encoded,label=image/class/label"})),
            wanted);
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"--component", "image=picture"}, "no feature picture for the model's image, but image/"},
      {{"--component", "label=image/filename"}, "holds bytes; the model takes label: i64 []"},
      {{"--component", "text=image/filename"}, "has no component \"text\""},
      {{"--component", "image"}, "expected MODEL=DATA"},
      {{"--weight-column", "cost"}, "no feature \"cost\""}};
  for (const auto& [more, text] : wrong) {
    std::vector<std::string> all{"--data", examples};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = train("cifar10", all);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  }
  EXPECT_THAT(train("lenet", {"--data", examples}).err, HasSubstr("feature for image has"));
  EXPECT_THAT(train("text_match", {"--data", examples}).err,
              HasSubstr("no feature query for the model's query"));
}

TEST_F(TrainData, FoldersWithoutImages) {
  for (const auto& [format, files] : {std::pair{"tar", "tar: give its files, such as '"},
                                      {"tfrecord", "/data-*-of-00001.tfrecord' (--data)"},
                                      {"cifar10", "/*.bin' (--data)"},
                                      {"idx", "/labels-idx1-ubyte (--data)"}}) {
    const std::string folder = folder_ / format + "-of-digits";
    ASSERT_EQ(run_program({"synth", folder, "--format", format, "--images", "4"}).code, 0);
    const Outcome outcome = train("lenet", {"--data", folder});
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("this folder holds no images, but "));
    EXPECT_THAT(outcome.err, HasSubstr(files));
  }
}

TEST_F(TrainData, CompressedExamples) {
  const std::string examples = pictures("tfrecord", {"--compression", "gzip"}) + "/*.tfrecord.gz";
  const std::vector<std::string> run{"train",   "--model", "cifar10", "--data", examples,
                                     "--batch", "4",       "--quiet", "--json", "-"};
  const Outcome perfect = run_program(run);
  EXPECT_EQ(perfect.code, 2);
  EXPECT_THAT(perfect.err, HasSubstr("(--shuffle-buffer)"));
  std::vector<std::string> buffered = run;
  buffered.insert(buffered.end(), {"--shuffle-buffer", "16", "--schedule", "constant:0.01"});
  const Outcome outcome = run_program(buffered);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["images"], 24);
}

TEST_F(TrainData, ArraysOfPixels) {
  const Digits digits(40);
  const std::string images =
      folder_.write("images.npy", npy_of("|u1", {40, 28, 28}, digits.pixels()));
  const std::string wanted = digest_of(train("lenet", {"--data", digits.path()}));
  for (const char* type : {"<i8", "<i4", "|u1"}) {
    const std::string labels = folder_.write("labels.npy", npy_of_labels(type, digits.labels()));
    EXPECT_EQ(digest_of(train("lenet", {"--data", images + "," + labels})), wanted) << type;
  }
  const std::string deep =
      folder_.write("deep.npy", npy_of("|u1", {40, 28, 28, 1}, digits.pixels()));
  EXPECT_EQ(digest_of(train("lenet", {"--data", deep + "," + folder_ / "labels.npy"})), wanted);
  const std::string few = folder_.write("few.npy", npy_of_labels("<i8", {1, 2}));
  EXPECT_THAT(train("lenet", {"--data", images + "," + few}).err, HasSubstr("few.npy has 2 rows"));
  EXPECT_THAT(train("lenet", {"--data", images}).err,
              HasSubstr("expected one array file for each of image,label"));
  const std::string wide = folder_.write("wide.npy", npy_of("|u1", {10, 56, 56}, digits.pixels()));
  EXPECT_THAT(
      train("lenet",
            {"--data",
             wide + "," + folder_.write("ten.npy", npy_of_labels("<i8", std::vector<int>(10)))})
          .err,
      HasSubstr("the data have image: u8 [56,56]"));
}

TEST_F(TrainData, Pipelines) {
  const std::string tar = pictures("tar") + "/*.tar";
  const std::string wanted = digest_of(train("cifar10", {"--data", tar}));
  const auto pipeline = [&](const std::string& stages, const std::string& run = "") {
    return folder_.write("p.toml",
                         "[source]\nkind = \"tar\"\npaths = [\"" + tar + "\"]\n" + stages + run);
  };
  EXPECT_EQ(digest_of(train("cifar10", {"--pipeline", pipeline("")})), wanted);
  const std::string ready =
      "[[stages]]\nkind = \"center_crop\"\nsize = 24\n"
      "[[stages]]\nkind = \"normalize\"\nlayout = \"hwc\"\n";
  EXPECT_NE(digest_of(train("cifar10", {"--pipeline", pipeline(ready)})), wanted)
      << "elements that are such as the model's own input makes go to it as they are";
  const std::string renamed = pictures("tfrecord") + "/*.tfrecord";
  const std::string parsed = folder_.write(
      "examples.toml", "[source]\nkind = \"tfrecord\"\npaths = [\"" + renamed +
                           "\"]\nexample = [\"image/encoded\", \"image/class/label\"]\n");
  EXPECT_EQ(digest_of(train("cifar10", {"--pipeline", parsed})), wanted);
  const auto refusal = [&](const std::string& file) {
    const Outcome outcome = train("cifar10", {"--pipeline", file});
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(refusal(pipeline("[[stages]]\nkind = \"batch\"\nsize = 4\n")),
              HasSubstr("remove the stage \"batch\" from"));
  EXPECT_THAT(refusal(pipeline("", "[run]\nepochs = 3\n")), HasSubstr("remove it from"));
  EXPECT_EQ(train("cifar10", {"--pipeline", folder_ / "none.toml"}).code, 1);
  EXPECT_THAT(train("lenet", {"--pipeline", pipeline("")}).err,
              HasSubstr("lenet takes image: u8 [28,28]"));
  EXPECT_THAT(train("cifar10", {"--pipeline", pipeline(""), "--data", tar}).err,
              HasSubstr("--pipeline"));
  const Outcome evaluated = train("cifar10", {"--pipeline", pipeline(""), "--eval-pipeline",
                                              pipeline(""), "--eval-every", "2"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_TRUE(evaluated.json()["test_loss"].is_number());
  EXPECT_THAT(train("cifar10", {"--pipeline", pipeline(""), "--eval-every", "2"}).err,
              HasSubstr("needs --eval-data or --eval-pipeline (--eval-every)"));
}

TEST_F(TrainData, WeightsOfRows) {
  const std::string texts = "query,positive,negative,cost\n";
  std::string rows, ones;
  for (int i = 0; i < 12; ++i) {
    const std::string row = "a" + std::to_string(i) + " b,e f" + std::to_string(i) + ",c d,";
    rows += row + (i % 2 == 0 ? "2.5\n" : "0\n");
    ones += row + "1\n";
  }
  const std::string weighted = folder_.write("weighted.csv", texts + rows);
  const std::string plain = folder_.write("plain.csv", texts + ones);
  const std::string without = digest_of(train("text_match", {"--data", plain}));
  EXPECT_EQ(digest_of(train("text_match", {"--data", plain, "--weight-column", "cost"})), without);
  EXPECT_NE(digest_of(train("text_match", {"--data", weighted, "--weight-column", "cost"})),
            without);
  EXPECT_THAT(train("text_match", {"--data", plain, "--weight-column", "price"}).err,
              HasSubstr("no column \"price\""));
  EXPECT_THAT(train("text_match", {"--data", plain, "--weight-column", "query"}).err,
              HasSubstr("column query must have numbers"));
  EXPECT_THAT(train("text_match", {"--data", plain, "--eval-data", plain, "--early-stop", "2",
                                   "--early-stop-by", "auc"})
                  .err,
              HasSubstr("have no AUC"));

  const std::string folder = folder_ / "folder";
  ASSERT_EQ(
      run_program({"synth", folder, "--images", "24", "--size", "40x40", "--classes", "3"}).code,
      0);
  const auto with = [&](const std::string& weights) {
    return train("cifar10", {"--data", folder, "--eval-data", folder, "--class-weights", weights});
  };
  const std::string equal = digest_of(train("cifar10", {"--data", folder, "--eval-data", folder}));
  EXPECT_EQ(digest_of(with("1,1,1")), equal);
  EXPECT_EQ(digest_of(with("balanced")), equal) << "each class has as many images";
  const Outcome listed = with("1,3,0.5");
  EXPECT_NE(digest_of(listed), equal);
  EXPECT_TRUE(listed.json()["test_auc"].is_number());
  const std::string names = folder_.write("weights", "class_1,3\nclass_2,0.5\n");
  EXPECT_EQ(digest_of(with(names)), digest_of(listed));
  EXPECT_THAT(with("1,2").err, HasSubstr("got 2 weights for 3 classes (--class-weights)"));
  EXPECT_THAT(with("1,-2,1").err, HasSubstr("a weight must be a finite number"));
  EXPECT_THAT(with("none").err, HasSubstr("a readable file"));
  EXPECT_THAT(with(folder_.write("wrong", "cat,1\n")).err, HasSubstr("a weight for class cat"));
}

TEST_F(TrainData, FilesWithoutAKnownName) {
  const std::string pickle =
      "\x80\x02}q\x01(U\x0b"
      "batch_labelq\x02U\x15training batch 1 of 5";
  folder_.write("data_batch_1", pickle);
  folder_.write("data_batch_2", pickle);
  folder_.write("protocol4", std::string("\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94.", 14));
  folder_.write("array.dat", "PK\3\4" + std::string(22, '\0') + std::string("\5\0\0\0x.npy", 9));
  folder_.write("weights.pt.gz", std::string("\x1f\x8b\x08\0\0\0\0\0", 8));
  folder_.write("noise", std::string(5000, '\x01'));
  folder_.write("table", "a,b\n1,2\n");
  const struct {
    const char* data;
    const char* what;
    int code;
  } kCases[] = {{"data_batch_1", "this is a Python pickle, as CIFAR's Python version is", 1},
                {"data_batch_*", "take CIFAR's binary version", 1},
                {"data_batch_{1,2}", "data_batch_1", 1},
                {"protocol4", "Python pickle", 1},
                {"array.dat", "an .npz archive of NumPy", 1},
                {"weights.pt.gz", "compressed by gzip", 1},
                {"noise", "unknown file format", 1},
                {"table", "by its bytes, this is CSV, but its name does not say so", 2}};
  for (const auto& [data, what, code] : kCases) {
    const Outcome outcome = train("cifar10", {"--data", folder_ / data, "--on-error", "skip"});
    EXPECT_EQ(outcome.code, code) << data << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(what)) << data;
  }
  EXPECT_THAT(run_program({"inspect", folder_ / "data_batch_1"}).err, HasSubstr(kCases[0].what));
}

/// Topics of three words each, which are said without spaces.
std::string chinese(int rows, int first) {
  const std::vector<std::vector<std::string>> topics{
      {"音乐", "电影", "演员"}, {"天气", "气温", "台风"}, {"经济", "市场", "价格"},
      {"医院", "医生", "药品"}, {"足球", "比赛", "球队"}, {"软件", "电脑", "网络"}};
  const auto text = [&](std::size_t topic, int seed) {
    const auto& words = topics[topic % topics.size()];
    const auto at = static_cast<std::size_t>(seed);
    return "我们" + words[at % 3] + "的" + words[(at + 1 + at / 3 % 2) % 3];
  };
  std::string csv = "query,positive,negative\n";
  for (int i = first; i < first + rows; ++i) {
    const auto topic = static_cast<std::size_t>(i);
    csv += text(topic, i / 6) + "," + text(topic, i / 6 + 1) + "," +
           text(topic + 1 + topic / 6 % 5, i / 6 + 2) + "\n";
  }
  return csv;
}

TEST_F(TrainData, ChineseText) {
  const std::string data = folder_.write("train.csv", chinese(600, 0));
  const std::string test = folder_.write("test.csv", chinese(120, 600));
  const Outcome outcome =
      run_program({"train", "--model", "text_match", "--data", data, "--eval-data", test, "--batch",
                   "16", "--epochs", "5", "--deterministic", "--quiet", "--json", "-"});
  if (outcome.code != 0) {
    EXPECT_THAT(outcome.err, HasSubstr("has no ICU"));
    return;
  }
  EXPECT_GT(outcome.json()["test_accuracy"].get<double>(), 0.9);
  const std::string broken = folder_.write("broken.csv", chinese(20, 0) + "\xE9\x9F,a,b\n");
  const Outcome fails = train("text_match", {"--data", broken});
  EXPECT_EQ(fails.code, 1);
  EXPECT_THAT(fails.err,
              testing::AllOf(HasSubstr("not UTF-8 from byte 0 on"), HasSubstr("broken.csv")));
  const Outcome skips = train("text_match", {"--data", broken, "--on-error", "skip"});
  ASSERT_EQ(skips.code, 0) << skips.err;
  EXPECT_EQ(skips.json()["images"], 20);
}

}  // namespace
}  // namespace penstock::test
