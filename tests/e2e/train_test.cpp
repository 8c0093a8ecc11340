// `penstock train` as a user runs it: what it writes, killed and resumed, and what it refuses.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/data.h"
#include "tests/support/digits.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/tensorboard.h"
#include "tests/support/wait_until.h"

namespace penstock::test {
namespace {

bool has_checkpoint(const TempFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().extension() == ".safetensors") return true;
  return false;
}

std::vector<std::string> flags(const Digits& digits, std::vector<std::string> more) {
  std::vector<std::string> all{"train",    "--model",       "lenet",   "--data", digits.path(),
                               "--device", "host:0,host:1", "--batch", "16",     "--seed",
                               "5",        "--quiet",       "--json",  "-",      "--deterministic"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Train, LearnsAndWritesWhatItDid) {
  const Digits digits(600);
  const Outcome outcome = run_program(flags(
      digits, {"--data-range", "0:500", "--eval-data", digits.path(), "--eval-range",
               "500:", "--epochs", "6", "--optimizer", "adam", "--schedule", "constant:0.002"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_GT(json["test_accuracy"].get<double>(), 0.9);
  EXPECT_LT(json["test_loss"].get<double>(), 0.5);
  const Outcome beside =
      run_program(flags(digits, {"--data-range", "0:500", "--eval-data", digits.path(),
                                 "--eval-range", "500:", "--epochs", "6", "--optimizer", "adam",
                                 "--schedule", "constant:0.002", "--eval-device", "host:2"}));
  ASSERT_EQ(beside.code, 0) << beside.err;
  EXPECT_EQ(beside.json()["variables_digest"], json["variables_digest"]);
  EXPECT_EQ(beside.json()["test_accuracy"], json["test_accuracy"]);
  EXPECT_EQ(json["steps"], 90);
  EXPECT_EQ(json["train_loss"].size(), 90U);
  EXPECT_GT(json["images_per_second"].get<double>(), 0);
  EXPECT_EQ(json["stall_share"].size(), 2U);
  for (const char* field : {"gradients_applied", "gradients_dropped", "staleness"})
    EXPECT_TRUE(json[field].is_null()) << field;
  EXPECT_EQ(json["variables_digest"].get<std::string>().size(), 16U);
  for (const nlohmann::json& tower : json["towers"]) {
    EXPECT_NEAR(tower["step_s"].get<double>() + tower["stall_s"].get<double>() +
                    tower["other_s"].get<double>(),
                tower["wall_s"].get<double>(), 1e-6);
  }
}

TEST(Train, WritesWhatTensorBoardAndBrowsersRead) {
  const Digits digits(100);
  const TempFolder folder;
  const Outcome outcome =
      run_program(flags(digits, {"--eval-data", digits.path(), "--tensorboard", folder / "events",
                                 "--html", folder / "page.html"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(
      read_file(folder / "page.html"),
      testing::AllOf(testing::HasSubstr("penstock train"), testing::HasSubstr("Loss of each step"),
                     testing::HasSubstr("<polyline"), testing::HasSubstr("test accuracy"),
                     testing::HasSubstr("host:1")));
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "events"))
    files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_TRUE(files[0].filename().string().starts_with("events.out.tfevents."));
  const std::string shard = folder.write("events.tfrecord", read_file(files[0]));
  const Outcome checked = run_program({"verify", shard});
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_THAT(checked.out, testing::HasSubstr(" good, 0 bad records"));
  const std::string bytes = read_file(files[0]);
  for (const char* text : {"brain.Event:2", "train/loss", "train/learning_rate", "test/accuracy",
                           "train/stall_share/tower1"})
    EXPECT_THAT(bytes, testing::HasSubstr(text));
}

/// Expects one point at each step from 1 on.
void expect_each_step_once(const std::map<std::uint64_t, int>& points, std::uint64_t steps) {
  std::map<std::uint64_t, int> once;
  for (std::uint64_t step = 1; step <= steps; ++step) once[step] = 1;
  EXPECT_EQ(points, once);
}

// As a run that was killed after its last checkpoint but one leaves it.
TEST(Train, TensorBoardOfAResumedRun) {
  const Digits digits(100);
  const TempFolder folder;
  const auto run = [&](const char* epochs) {
    const Outcome outcome = run_program(
        flags(digits, {"--epochs", epochs, "--schedule", "constant:0.01", "--eval-data",
                       digits.path(), "--checkpoint", folder / "kept", "--checkpoint-every", "4",
                       "--eval-every", "4", "--tensorboard", folder / "events"}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json()["resumed_at"].get<std::uint64_t>();
  };
  EXPECT_EQ(run("3"), 0U);
  for (const auto& entry : std::filesystem::directory_iterator(folder / "kept"))
    if (entry.path().filename().string().find("8") == std::string::npos)
      std::filesystem::remove_all(entry.path());
  EXPECT_EQ(run("5"), 8U);
  EXPECT_EQ(run("5"), 15U);  // it has nothing left to do but to evaluate
  const ShownPoints points = shown_points(folder / "events");
  for (const char* tag : {"loss", "train/loss", "train/learning_rate"})
    expect_each_step_once(points.at(tag), 15);
  const std::map<std::uint64_t, int> evaluations{{4, 1}, {8, 1}, {12, 1}, {15, 2}};
  EXPECT_EQ(points.at("test/loss"), evaluations);
  for (const auto& [step, times] : points.at("train/stall_share/tower0"))
    EXPECT_EQ(times, 1) << step;
}

TEST(Train, KilledAtAnyMoment) {
  const Digits digits(400);
  const char* wanted = std::getenv("PENSTOCK_KILLS");  // by tools/reliability.sh
  const int most = wanted == nullptr ? 40 : std::stoi(wanted);
  const std::vector<std::string> run{
      "--epochs", wanted == nullptr ? "12" : std::to_string(5 * most), "--schedule", "cosine:0.02"};
  const Outcome whole = run_program(flags(digits, run));
  ASSERT_EQ(whole.code, 0) << whole.err;
  const TempFolder folder;
  std::vector<std::string> resumable = run;
  const TempFolder events;
  for (const std::string& more :
       {std::string("--checkpoint"), folder.path(), std::string("--checkpoint-every"),
        std::string("3"), std::string("--tensorboard"), events.path()})
    resumable.push_back(more);
  int killed = 0;
  for (int delay_ms = 60; killed < most; delay_ms += 23) {
    Program program(flags(digits, resumable));
    if (killed == 0) {  // the first is killed after a checkpoint, not before it starts
      ASSERT_TRUE(wait_until([&] { return has_checkpoint(folder); }));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms % 400));
    }
    program.signal(SIGKILL);
    if (program.wait().code != 0) {
      ++killed;
    } else if (killed > 0) {
      break;  // it was done before
    } else {
      for (const TempFolder* each : {&folder, &events})
        for (const auto& entry : std::filesystem::directory_iterator(each->path()))
          std::filesystem::remove(entry);
    }
  }
  const Outcome last = run_program(flags(digits, resumable));
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(last.json()["variables_digest"], whole.json()["variables_digest"]);
  EXPECT_GE(killed, 1);
  RecordProperty("killed", killed);
  expect_each_step_once(shown_points(events.path()).at("train/loss"),
                        last.json()["steps"].get<std::uint64_t>());
}

TEST(Train, StopAndResume) {
  const Digits digits(400);
  const TempFolder folder;
  const std::vector<std::string> run{"--epochs", "40", "--checkpoint", folder.path()};
  {
    Program program(flags(digits, run));
    ASSERT_TRUE(wait_until([&] { return has_checkpoint(folder); }));
    program.signal(SIGTERM);
    EXPECT_EQ(program.wait().code, 0);
  }
  const Outcome last = run_program(flags(digits, run));
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_GT(last.json()["resumed_at"].get<int>(), 0);
  EXPECT_EQ(last.json()["steps"], 40 * 12);
}

TEST(Train, InvalidCommandLines) {
  const Digits digits(40);
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--strategy", "ring"}, "no strategy ring; there are: replicated"},
      {{"--strategy", "replicate"}, "; did you mean replicated? (--strategy)"},
      {{"--optimizer", "sdg"}, "optimizer: expected sgd"},
      {{"--schedule", "up:1"}, "schedule: expected"},
      {{"--data-range", "5"}, "expected A:B"},
      {{"--data-range", "9:3"}, "can't end before it begins"},
      {{"--strategy", "async"}, "not deterministic"},
      {{"--strategy", "sync_replicas", "--feed", "split"}, "feed per_tower"},
      {{"--checkpoint-every", "5"}, "--checkpoint"},
      {{"--precision", "bf16"}, "towers on host devices compute in f32"},
      {{"--precision", "f64"}, "--precision"},
      {{"--eval-device", "gpu", "--eval-data", digits.path()}, "is not a device"},
      {{"--data-range", "0:5", "--max-steps", "5"}, "5 records are fewer than a batch of 16"},
      {{"--data-range", "0:41"}, "there are only 40 records, got \"0:41\" (--data-range)"},
      {{"--data-range", "41:"}, "there are only 40 records"},
      {{"--eval-data", digits.path(), "--eval-range", "40:41"}, "(--eval-range)"},
      {{"--eval-range", "0:5"}, "--eval-data"},
      {{"--eval-every", "5"}, "--eval-data"},
      {{"--aggregate", "2"}, "applies to sync_replicas, not to replicated (--aggregate)"},
      {{"--max-staleness", "0"}, "applies to async, not to replicated (--max-staleness)"}};
  for (const auto& [more, text] : cases) {
    const Outcome outcome = run_program(flags(digits, more));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr(text));
  }
  const Outcome model = run_program({"train", "--model", "vgg", "--data", digits.path()});
  EXPECT_EQ(model.code, 2);
  EXPECT_THAT(model.err, testing::HasSubstr("no model vgg; there are: cifar10, lenet, resnet18"));
  const Outcome close = run_program({"train", "--model", "lenett", "--data", "none"});
  EXPECT_THAT(close.err, testing::HasSubstr("; did you mean lenet? (--model)"));
}

TEST(Train, MismatchedData) {
  const TempFolder folder;
  const Digits small(20, 8);
  const Digits large(20, 40);
  const std::string pictures = folder.write("data_batch.bin", noise(3073));
  const std::string table = folder.write("pairs.csv", "query,positive\na,b\nc,d\n");
  struct Case {
    const char *model, *flag;
    std::string data;
    const char* text;
  };
  const std::vector<Case> cases{
      {"lenet", "--data", small.path(),
       "lenet takes image: u8 [28,28] or u8 [28,28,1]; the data have image: u8 [8,8]"},
      {"lenet", "--data", large.path(), "image: u8 [40,40]"},
      {"lenet", "--eval-data", large.path(), "image: u8 [40,40]"},
      {"lenet", "--data", pictures,
       "lenet takes image: u8 [28,28] or u8 [28,28,1]; the data have image: u8 [32,32,3]"},
      {"cifar10", "--data", large.path(), "the data have image: u8 [40,40]"},
      {"text_match", "--data", table,
       "text_match takes negative: bytes []; the data have no negative"}};
  const Digits good(20);
  for (const Case& c : cases) {
    std::vector<std::string> all{"train",   "--model", c.model,       c.flag, c.data,
                                 "--batch", "4",       "--max-steps", "1"};
    if (c.flag == std::string("--eval-data")) all.insert(all.end(), {"--data", good.path()});
    const Outcome outcome = run_program(all);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr(c.text));
  }
}

TEST(Train, ClassesBesideTheVariables) {
  const TempFolder folder;
  const std::string training = folder / "training";
  ASSERT_EQ(
      run_program({"synth", training, "--images", "30", "--size", "40x40", "--classes", "3"}).code,
      0);
  const auto train = [&](const std::string& testing, std::vector<std::string> more) {
    std::vector<std::string> all{"train",   "--model",     "cifar10", "--data",
                                 training,  "--eval-data", testing,   "--batch",
                                 "5",       "--max-steps", "2",       "--deterministic",
                                 "--quiet", "--json",      "-"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  // The same pictures in a folder that lacks the first class, and in one that has all three.
  const std::string fewer = folder / "fewer";
  const std::string other = folder / "other";
  for (const std::string& to : {fewer, other})
    std::filesystem::copy(training, to, std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(fewer + "/class_0");
  std::filesystem::rename(other + "/class_1", other + "/cats");
  const std::string model = folder / "model.safetensors";
  const Outcome of_fewer = train(fewer, {"--export", model});
  ASSERT_EQ(of_fewer.code, 0) << of_fewer.err;
  EXPECT_THAT(read_file(model), testing::HasSubstr(R"([\"class_0\",\"class_1\",\"class_2\"])"));
  // Pictures of class 0 alone are evaluated as what they are: all three together are the sum.
  const std::string first = folder / "first";
  std::filesystem::create_directories(first);
  std::filesystem::copy(training + "/class_0", first + "/class_0");
  const Outcome of_first = train(first, {});
  const Outcome of_all = train(training, {});
  ASSERT_EQ(of_first.code, 0) << of_first.err;
  ASSERT_EQ(of_all.code, 0) << of_all.err;
  EXPECT_NEAR(
      of_all.json()["test_loss"].get<double>() * 3,
      of_first.json()["test_loss"].get<double>() + 2 * of_fewer.json()["test_loss"].get<double>(),
      1e-4);
  const Outcome unknown = train(other, {});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(
      unknown.err,
      testing::HasSubstr("the evaluation data have a class cats, which the model does not know; "
                         "it knows class_0, class_1, class_2"));
}

TEST(Train, TakesDataByTheirNames) {
  const TempFolder folder;
  const std::string images = folder / "idx of photos";
  ASSERT_EQ(
      run_program({"synth", images, "--images", "20", "--size", "40x40", "--classes", "2"}).code,
      0);
  const std::string records = folder / "photos.pnr";
  ASSERT_EQ(
      run_program({"pack", "--images", images, "--jpeg", "coefficients", "--out", records}).code,
      0);
  const auto train = [](const std::string& data, std::vector<std::string> more = {}) {
    std::vector<std::string> all{
        "train",           "--model",     "cifar10", "--data",  data,     "--batch", "4",
        "--deterministic", "--max-steps", "1",       "--quiet", "--json", "-"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  const Outcome of_images = train(images);
  EXPECT_EQ(of_images.code, 0) << of_images.err;
  EXPECT_EQ(train(images + "/*/*").code, 0);
  const Outcome of_records = train(records);
  EXPECT_EQ(of_records.code, 0) << of_records.err;
  EXPECT_EQ(of_records.json()["variables_digest"], of_images.json()["variables_digest"]);
  EXPECT_THAT(train(folder / "a.tfrecord").err, testing::HasSubstr("no such file or folder"));
  EXPECT_THAT(train("a-idx3-ubyte").err, testing::HasSubstr("(--data)"));
  EXPECT_THAT(train(images, {"--data-range", "5"}).err, testing::HasSubstr("(--data-range)"));
}

TEST(Train, ReachesThePromisedAccuracyOnMnist) {
  const std::string images = data_path("mnist-t10k-images-idx3-ubyte.gz");
  PENSTOCK_NEED_DATA(images);
  const std::string data = images + "," + data_path("mnist-t10k-labels-idx1-ubyte.gz");
  struct Setting {
    const char *strategy, *epochs, *schedule;
    std::vector<std::string> more;
  };
  // The gradients of two towers that alternate are at most one update old. Older ones, from a tower
  // whose thread had to wait, are dropped: the accuracy must not depend on the scheduler.
  for (const Setting& setting : {Setting{"replicated", "3", "one_cycle:0.03", {}},
                                 Setting{"async", "5", "one_cycle:0.02", {"--max-staleness", "1"}},
                                 Setting{"sync_replicas", "3", "one_cycle:0.03", {}}}) {
    std::vector<std::string> all{"train",         "--model",     "lenet",
                                 "--data",        data,          "--data-range",
                                 "0:8000",        "--eval-data", data,
                                 "--eval-range",  "8000:",       "--device",
                                 "host:0,host:1", "--strategy",  setting.strategy,
                                 "--batch",       "32",          "--epochs",
                                 setting.epochs,  "--schedule",  setting.schedule,
                                 "--quiet",       "--json",      "-"};
    all.insert(all.end(), setting.more.begin(), setting.more.end());
    const Outcome outcome = run_program(all);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_GE(outcome.json()["test_accuracy"].get<double>(), 0.96) << setting.strategy;
  }
}

TEST(Train, ExitCodesOfDeviceFailures) {
  const Digits digits(100);
  const auto code = [&](const std::string& device, const char* watchdog_s) {
    return run_program({"train", "--model", "lenet", "--data", digits.path(), "--device", device,
                        "--batch", "4", "--epochs", "40", "--quiet", "--watchdog", watchdog_s})
        .code;
  };
  EXPECT_EQ(code("host:0,host:1:fail_record=60:sticky", "60"), 70);
  EXPECT_EQ(code("host:0,host:1:hang_copy=9", "0.3"), 75);
  EXPECT_EQ(code("host:0,host:1:fail_allocation=1", "60"), 1);
}

}  // namespace
}  // namespace penstock::test
