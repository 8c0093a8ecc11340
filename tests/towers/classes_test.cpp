// Classes go with the variables, and labels are matched with them by name.
#include "towers/classes.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/iterator.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/towers/twins.h"
#include "towers/checkpoint/checkpoint.h"
#include "towers/checkpoint/run_folder.h"
#include "towers/evaluate/follower.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using penstock::test::LogCapture;
using penstock::test::read_file;
using penstock::test::TempFolder;
using test::Linear;
using test::maker;
using test::options_for;
using testing::ElementsAre;

TrainObserver nobody;

/// Files in a folder for each class, which Linear tells apart: what is in a file says its class.
class Sorted {
 public:
  explicit Sorted(const std::vector<std::string>& classes, int each = 8) {
    for (const std::string& name : classes)
      for (int i = 0; i < each; ++i) folder_.write(name + "/" + std::to_string(i) + ".jpg", name);
  }
  /// {image: f32 [1,1,4], label}, where image is 1 at the place that `kKnown` gives the class.
  Dataset data() const {
    const Spec spec({{"image", DType::f32, {1, 1, 4}}, {"label", DType::i64, {}}});
    return images(folder_.path())
        .map(
            [](const Element& in, Element& out, Rng&) {
              constexpr std::string_view kKnown = "abcd";
              const std::span<float> image = out["image"].mutable_values<float>();
              std::ranges::fill(image, 0.0F);
              image[kKnown.find(in["image"].bytes_at().front())] = 5;
              out["label"].mutable_values<std::int64_t>()[0] = in["label"].item<std::int64_t>();
            },
            {.name = "as_point", .output = spec});
  }
  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
};

TrainOptions options_in(const std::string& folder, std::uint64_t epochs) {
  TrainOptions options = options_for(1, 4);
  options.checkpoint_folder = folder;
  options.epochs = epochs;
  options.strategy.update = {make_optimizer("sgd"), Schedule::constant(0.2)};
  return options;
}

std::vector<std::int64_t> labels_of(const Dataset& data) {
  std::vector<std::int64_t> labels;
  for (const Element& element : data.iterate({.threads = 1}))
    labels.push_back(element["label"].item<std::int64_t>());
  return labels;
}

TEST(Classes, AreMatchedByName) {
  const Sorted sorted({"b", "d"}, 2);
  EXPECT_THAT(classes_of(sorted.data()), ElementsAre("b", "d"));
  EXPECT_THAT(labels_of(sorted.data()), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(labels_of(with_classes(sorted.data(), {"a", "b", "c", "d"}, "data")),
              ElementsAre(1, 1, 3, 3));
  EXPECT_THAT(labels_of(with_classes(sorted.data(), {"d", "b"}, "data")), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(labels_of(with_classes(sorted.data(), {}, "data")), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(with_classes(sorted.data(), {"b", "d"}, "data").explain(), sorted.data().explain())
      << "nothing is added where nothing differs";
  expect_error(ErrorCode::invalid_argument,
               "the data have a class d, which the model does not know; it knows b, e", [&] {
                 static_cast<void>(with_classes(sorted.data(), {"b", "e"}, "the data"));
               });
  const LogCapture log;
  const Dataset unnamed = test::points(3);
  EXPECT_EQ(labels_of(with_classes(unnamed, {"x", "y"}, "the data")), labels_of(unnamed));
  EXPECT_EQ(log.count("the data do not name their classes: label 0 is taken for x"), 1U);
}

TEST(Classes, AreKeptAsText) {
  const std::vector<std::string> names{"a", "\"b\"\n", "\xe7\x8c\xab", ""};
  EXPECT_EQ(classes_in(text_of_classes(names)), names);
  EXPECT_THAT(classes_in(text_of_classes({"x\xff"})), ElementsAre("x\xef\xbf\xbd"));
  for (const char* wrong : {"", "{}", "[1]", "[\"a\"", "null"})
    expect_error(ErrorCode::data_loss, "not a list of names",
                 [&] { static_cast<void>(classes_in(wrong)); });
}

/// A test set without class a has labels of its own: 0 for b, 1 for c.
TEST(Classes, TestSetWithoutAClass) {
  const Sorted training({"a", "b", "c"});
  const Sorted testing({"b", "c"});
  for (const bool beside : {false, true}) {
    TrainOptions options = options_in("", 12);
    if (beside) options.validation_device = device({DeviceKind::host, 5});
    Trainer trainer(maker<Linear>(), training.data().shuffle(), testing.data(), options);
    EXPECT_THAT(trainer.classes(), ElementsAre("a", "b", "c"));
    const TrainResult result = trainer.run(nobody);
    ASSERT_TRUE(result.evaluation);
    EXPECT_EQ(result.evaluation->accuracy, 1);
    EXPECT_EQ(result.evaluation->rows, 16);
  }
}

TEST(Classes, UnknownClass) {
  const Sorted training({"a", "b"});
  const Sorted testing({"a", "d"});
  expect_error(
      ErrorCode::invalid_argument,
      "the evaluation data have a class d, which the model does not know; it knows a, b", [&] {
        Trainer trainer(maker<Linear>(), training.data(), testing.data(), options_in("", 1));
      });
}

TEST(Classes, TravelWithTheCheckpointAndTheExport) {
  const Sorted training({"a", "b", "c"});
  const TempFolder folder;
  {
    Trainer trainer(maker<Linear>(), training.data().shuffle(), std::nullopt,
                    options_in(folder.path(), 12));
    trainer.run(nobody);
    export_variables(trainer.variables(), folder / "model.safetensors", trainer.classes());
  }
  write_finished(folder.path(), {72, 12, 0});
  EXPECT_THAT(StoredRun::read(checkpoint_files(folder.path()).back().path).classes(),
              ElementsAre("a", "b", "c"));
  EXPECT_THAT(exported_classes(folder / "model.safetensors"), ElementsAre("a", "b", "c"));

  // An evaluator has nothing but the checkpoint and a test set, here one without class a.
  const Sorted testing({"b", "c"});
  FollowerOptions follow;
  follow.train = options_in(folder.path(), 12);
  FollowObserver observer;
  const FollowResult result = Follower(maker<Linear>(), testing.data(), follow).run(observer);
  ASSERT_FALSE(result.evaluations.empty());
  EXPECT_EQ(result.evaluations.back().evaluation.accuracy, 1);

  // Continuing with other classes.
  const Sorted others({"a", "b", "d"});
  expect_error(ErrorCode::invalid_argument,
               "the training data have a class d, which the model does not know", [&] {
                 Trainer trainer(maker<Linear>(), others.data().shuffle(), std::nullopt,
                                 options_in(folder.path(), 20));
               });

  // Initial variables.
  TrainOptions options = options_in("", 1);
  options.initial_variables = folder / "model.safetensors";
  options.strategy.update.schedule = Schedule::constant(0);
  Trainer fewer(maker<Linear>(), testing.data(), testing.data(), options);
  EXPECT_THAT(fewer.classes(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(fewer.run(nobody).evaluation->accuracy, 1);
  const LogCapture log;
  Trainer other(maker<Linear>(), others.data(), std::nullopt, options);
  EXPECT_THAT(other.classes(), ElementsAre("a", "b", "d"));
  EXPECT_EQ(log.count("the initial variables know no class d"), 1U);
}

TEST(Classes, SingleClass) {
  const Sorted training({"only"});
  const LogCapture log;
  const Dataset data =
      images(training.folder().path())
          .map(
              [](const Element&, Element& out, Rng&) {
                std::ranges::fill(out["image"].mutable_values<float>(), 0.0F);
                out["label"].mutable_values<std::int64_t>()[0] = 0;
              },
              {.name = "zeros",
               .output = Spec({{"image", DType::f32, {1, 1, 4}}, {"label", DType::i64, {}}})});
  Trainer trainer(maker<Linear>(), data, std::nullopt, options_in("", 1));
  EXPECT_EQ(log.count("the training data have only one class, only"), 1U);
}

}  // namespace
}  // namespace penstock::towers
