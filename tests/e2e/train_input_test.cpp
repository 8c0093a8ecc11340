// What `penstock train` is told of how its data are read, and of when to end.
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/digits.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/tar.h"

namespace penstock::test {
namespace {

class TrainInput : public testing::Test {
 protected:
  TrainInput() {
    EXPECT_EQ(
        run_program({"synth", images_, "--images", "24", "--size", "40x40", "--classes", "2"}).code,
        0);
  }
  static Outcome train_on(const std::string& data, std::vector<std::string> more) {
    std::vector<std::string> all{"train", "--model",         "cifar10", "--data", data, "--batch",
                                 "4",     "--deterministic", "--quiet", "--json", "-"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  }
  Outcome train(const std::vector<std::string>& more) const { return train_on(images_, more); }

  const TempFolder folder_;
  const std::string images_ = folder_ / "images";
};

TEST_F(TrainInput, BadElements) {
  folder_.write("images/class_0/bad.jpg", "no JPEG");
  const Outcome fails = train({});
  EXPECT_EQ(fails.code, 1);
  EXPECT_THAT(fails.err, testing::HasSubstr("class_0/bad.jpg"));
  const std::string bad = folder_ / "bad.jsonl";
  const Outcome skips = train({"--on-error", "skip", "--quarantine", bad, "--eval-data", images_});
  ASSERT_EQ(skips.code, 0) << skips.err;
  EXPECT_EQ(skips.json()["images"], 24);
  EXPECT_EQ(skips.json()["steps"], 6);
  EXPECT_THAT(read_file(bad), testing::HasSubstr("class_0/bad.jpg"));
  folder_.write("images/class_1/worse.jpg", "no JPEG");
  const Outcome too_many = train({"--on-error", "skip", "--max-errors", "1"});
  EXPECT_EQ(too_many.code, 1);
}

TEST_F(TrainInput, ClassesInFileNames) {
  const TempFolder flat;
  for (const char* name : {"cat.1.jpg", "cat.2.jpg", "dog.1.jpg", "dog.2.jpg"})
    std::filesystem::copy(std::filesystem::directory_iterator(images_ + "/class_0")->path(),
                          flat / name);
  const std::string model = folder_ / "model.safetensors";
  const Outcome outcome =
      train_on(flat.path(), {"--label-regex", "^([a-z]+)\\.", "--export", model});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("only one class")));
  EXPECT_THAT(read_file(model), testing::HasSubstr(R"([\"cat\",\"dog\"])"));
  const Outcome without = train_on(flat.path(), {});
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(without.err, testing::HasSubstr("the training data have only one class, "));
}

TEST_F(TrainInput, InvalidCommandLines) {
  const Digits digits(20);
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--quarantine", folder_ / "bad"}, "needs --on-error skip (--quarantine)"},
      {{"--max-errors", "1"}, "needs --on-error skip (--max-errors)"},
      {{"--on-error", "skip", "--max-errors", "many"}, "(--max-errors)"},
      {{"--on-error", "ignore"}, "--on-error"},
      {{"--memory", "some"}, "(--memory)"},
      {{"--label-regex", "x"}, "have their own labels"},
      {{"--label-depth", "1"}, "have their own labels"},
      {{"--label-depth", "-1"}, "--label-depth"},
      {{"--hidden"}, "--hidden applies to"},
      {{"--early-stop", "2"}, "--eval-data"},
      {{"--early-stop-by", "loss"}, "--early-stop"},
      {{"--early-stop", "0", "--eval-data", digits.path()}, "--early-stop"}};
  for (const auto& [more, text] : cases) {
    std::vector<std::string> all{"train",       "--model", "lenet", "--data",
                                 digits.path(), "--batch", "4"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run_program(all);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr(text));
  }
  const Outcome little = train({"--memory", "1KiB"});
  EXPECT_EQ(little.code, 1);
  EXPECT_THAT(little.err, testing::HasSubstr("memory"));
}

TEST_F(TrainInput, WrongLabel) {
  std::string jpeg;
  for (const auto& file : std::filesystem::recursive_directory_iterator(images_))
    if (file.path().extension() == ".jpg") jpeg = read_file(file.path().string());
  const auto shard = [&](const std::string& name, const std::vector<std::string>& labels) {
    std::string bytes;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::string key = "photos/" + std::to_string(i);
      bytes += tar_member(key + ".jpg", jpeg) + tar_member(key + ".cls", labels[i]);
    }
    return folder_.write(name, bytes + tar_end());
  };
  const std::string sound = shard("sound.tar", {"0", "1", "9", "2"});
  const struct {
    std::string data;
    std::string message;
  } cases[] = {
      {shard("one.tar", {"0", "1", "10", "1"}),
       "label 10 is not one of 10 classes (photos/2.cls of "},
      {shard("two.tar", {"-1", "1", "0", "2"}),
       "label -1 is not one of 10 classes (photos/0.cls of "},
      {shard("big.tar", {"1", "123456789012", "0", "3"}),
       "label 123456789012 is not one of 10 classes (photos/1.cls of "},
  };
  for (const auto& [data, message] : cases) {
    for (const std::string& paths : {data, sound + "," + data}) {
      const Outcome outcome = train_on(paths, {"--no-shuffle"});
      EXPECT_EQ(outcome.code, 1);
      EXPECT_THAT(outcome.err, testing::HasSubstr(message + data));
    }
    const Outcome evaluated = train_on(sound, {"--eval-data", data});
    EXPECT_EQ(evaluated.code, 1);
    EXPECT_THAT(evaluated.err, testing::HasSubstr(message + data));
    const Outcome skips = train_on(sound + "," + data, {"--on-error", "skip"});
    EXPECT_EQ(skips.code, 0) << skips.err;
  }
}

TEST_F(TrainInput, SeparateEvaluation) {
  const std::string model = folder_ / "model.safetensors";
  const std::string checkpoints = folder_ / "run";
  const Outcome trained = train(
      {"--eval-data", images_, "--max-steps", "3", "--export", model, "--checkpoint", checkpoints});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto evaluate = [&](const std::string& variables, const std::string& data,
                            std::vector<std::string> more = {}) {
    std::vector<std::string> all{"evaluate", "--model", "cifar10", "--variables", variables,
                                 "--data",   data,      "--batch", "4",           "--tower-threads",
                                 "1",        "--json",  "-"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  const std::string file = checkpoints + "/step-000000000003.safetensors";
  for (const std::string& variables : {model, checkpoints, file}) {
    const Outcome outcome = evaluate(variables, images_);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["loss"], trained.json()["test_loss"]) << variables;
    EXPECT_EQ(outcome.json()["accuracy"], trained.json()["test_accuracy"]);
    EXPECT_EQ(outcome.json()["rows"], 24);
    EXPECT_EQ(outcome.json()["step"], 3);
  }
  const Outcome two = evaluate(model, images_, {"--device", "host:0,host:1"});
  EXPECT_NEAR(two.json()["loss"].get<double>(), trained.json()["test_loss"].get<double>(), 1e-5);
  const TempFolder other;
  std::filesystem::copy(images_ + "/class_1", other / "cats",
                        std::filesystem::copy_options::recursive);
  const Outcome unknown = evaluate(model, other.path());
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, testing::HasSubstr("have a class cats, which the model does not know"));
  EXPECT_THAT(evaluate(folder_ / "none", images_).err, testing::HasSubstr("can't open the file"));
  EXPECT_THAT(evaluate(other.path(), images_).err,
              testing::HasSubstr("no complete checkpoint in this folder"));
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  EXPECT_THAT(evaluate(folder_.write("damaged", bytes), images_).err,
              testing::HasSubstr("its digest is wrong"));
}

// Alone, the images of class_1 would be numbered from 0.
TEST_F(TrainInput, TestSetWithoutAClass) {
  const std::string model = folder_ / "model.safetensors";
  ASSERT_EQ(train({"--export", model}).code, 0);
  std::filesystem::create_directory(folder_ / "some");
  std::filesystem::copy(images_ + "/class_1", folder_ / "some/class_1",
                        std::filesystem::copy_options::recursive);
  std::string tar;
  for (const auto& file : std::filesystem::directory_iterator(folder_ / "some/class_1"))
    tar +=
        tar_member("class_1/" + file.path().filename().string(), read_file(file.path().string()));
  folder_.write("some.tar", tar + tar_end());
  ASSERT_EQ(run_program({"pack", "--images", folder_ / "some", "--jpeg", "indexed", "--out",
                         folder_ / "some.pnr"})
                .code,
            0);
  for (const char* data : {"some", "some.tar", "some.pnr"}) {
    const Outcome outcome = run_program({"evaluate", "--model", "cifar10", "--variables", model,
                                         "--data", folder_ / data, "--batch", "4", "--json", "-"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json classes = outcome.json()["classes"];
    EXPECT_EQ(classes[0]["class"], "class_0") << data;
    EXPECT_EQ(classes[0]["rows"], 0) << data;
    EXPECT_EQ(classes[1]["class"], "class_1") << data;
    EXPECT_EQ(classes[1]["rows"], 12) << data;
  }
}

TEST_F(TrainInput, EndsEarlyWhenEvaluationsGetNoBetter) {
  const std::string checkpoints = folder_ / "run";
  // With a rate of 0 nothing gets better than the first.
  const std::vector<std::string> run{"--eval-data",  images_,      "--epochs",     "50",
                                     "--schedule",   "constant:0", "--early-stop", "3",
                                     "--checkpoint", checkpoints};
  const Outcome outcome = train(run);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["steps"], 4 * 6);
  EXPECT_EQ(outcome.json()["early_stopped"], true);
  EXPECT_TRUE(std::filesystem::exists(checkpoints + "/finished"));
  EXPECT_TRUE(std::filesystem::exists(checkpoints + "/step-000000000006.safetensors"));
  const Outcome again = train(run);
  EXPECT_EQ(again.json()["steps"], 4 * 6);
  EXPECT_EQ(again.json()["resumed_at"], 4 * 6);
  EXPECT_TRUE(std::filesystem::exists(checkpoints + "/finished"));
}

TEST_F(TrainInput, DivergedRun) {
  const std::string checkpoints = folder_ / "run";
  const std::vector<std::string> run{"--schedule",
                                     "constant:1000",
                                     "--optimizer",
                                     "momentum:0.9",
                                     "--epochs",
                                     "5",
                                     "--checkpoint",
                                     checkpoints,
                                     "--checkpoint-every",
                                     "1",
                                     "--keep",
                                     "40"};
  const auto kept = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoints))
      if (entry.path().extension() == ".safetensors") names.insert(entry.path().filename());
    return names;
  };
  const Outcome stops = train(run);
  EXPECT_EQ(stops.code, 76) << stops.err;
  EXPECT_THAT(stops.err, testing::AnyOf(testing::HasSubstr("the loss is "),
                                        testing::HasSubstr(" has values that are not numbers")));
  const std::set<std::string> good = kept();
  ASSERT_FALSE(good.empty());
  EXPECT_LT(good.size(), 30U);
  EXPECT_FALSE(std::filesystem::exists(checkpoints + "/finished"));
  std::vector<std::string> more = run;
  more.insert(more.end(), {"--on-divergence", "continue"});
  const Outcome continues = train(more);
  ASSERT_EQ(continues.code, 0) << continues.err;
  EXPECT_EQ(continues.json()["steps"], 30);
  EXPECT_GT(continues.json()["diverged_steps"], 0);
  EXPECT_THAT(kept(), testing::IsSupersetOf(good));
  EXPECT_THAT(train({"--on-divergence", "ignore"}).err, testing::HasSubstr("stop"));
}

}  // namespace
}  // namespace penstock::test
