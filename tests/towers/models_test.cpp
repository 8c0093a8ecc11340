// What models ask of their data, before anything runs.
#include <penstock/towers/model.h>

#include <gtest/gtest.h>

#include <penstock/iterator.h>
#include <penstock/map.h>
#include <penstock/sources.h>
#include <penstock/towers/classifier.h>
#include <penstock/towers/model_input.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using penstock::test::TempFolder;

Dataset labelled(const Shape& image, DType dtype = DType::u8) {
  return generate([] { return [](Element&) { return false; }; },
                  Spec({{"image", dtype, image}, {"label", DType::i64, {}}}));
}

Dataset without_label() {
  return generate([] { return [](Element&) { return false; }; },
                  Spec({{"image", DType::u8, {28, 28}}}));
}

Dataset texts(const std::vector<std::string>& names, DType dtype = DType::bytes) {
  std::vector<ComponentSpec> components;
  for (const std::string& name : names) components.push_back({name, dtype, {}});
  return generate([] { return [](Element&) { return false; }; }, Spec(std::move(components)));
}

TEST(ModelInput, OfAnotherShapeOrDtypeIsRefusedBeforeAnythingRuns) {
  struct Case {
    const char* model;
    Dataset data;
    const char* text;
  };
  const std::vector<Case> cases{
      {"lenet", labelled({8, 8}),
       "lenet takes image: u8 [28,28] or u8 [28,28,1]; the data have image: u8 [8,8]"},
      {"lenet", labelled({40, 40}), "the data have image: u8 [40,40]"},
      {"lenet", labelled({32, 32, 3}), "the data have image: u8 [32,32,3]"},
      {"lenet", labelled({-1, 28}), "the data have image: u8 [?,28]"},
      {"lenet", labelled({28, 28}, DType::f32), "the data have image: f32 [28,28]"},
      {"lenet", labelled({}, DType::bytes), "the data have image: bytes []"},
      {"lenet", without_label(),
       "lenet takes label: i64 [] or u8 []; the data have no label, but {image: u8 [28,28]}"},
      {"cifar10", labelled({28, 28}),
       "cifar10 takes image: bytes [] or u8 [?,?,3]; the data have image: u8 [28,28]"},
      {"cifar10", labelled({32, 20, 3}), "cifar10 takes crops of 24x24; the data have image: u8 "},
      {"cifar10", without_label(), "cifar10 takes image"},
      {"resnet18", labelled({256, 256, 3}),
       "resnet18 takes image: bytes []; the data have image: u8 [256,256,3]"},
      {"resnet50", texts({"image"}), "resnet50 takes label: i64 []; the data have no label"},
      {"text_match", texts({"query", "positive"}),
       "text_match takes negative: bytes []; the data have no negative, but {query: bytes [], "
       "positive: bytes []}"},
      {"text_match", texts({"query", "positive", "negative"}, DType::i64),
       "text_match takes query: bytes []; the data have query: i64 []"}};
  for (const Case& c : cases) {
    for (const bool training : {true, false})
      expect_error(ErrorCode::invalid_argument, c.text,
                   [&] { static_cast<void>(model_kind(c.model).input(c.data, training)); });
  }
}

TEST(ModelInput, FittingSpecs) {
  const std::vector<std::pair<const char*, Dataset>> cases{
      {"lenet", labelled({28, 28})},
      {"lenet", labelled({28, 28, 1})},
      {"cifar10", labelled({32, 32, 3})},
      {"cifar10", labelled({-1, -1, 3})},
      {"cifar10", labelled({}, DType::bytes)},
      {"resnet18", labelled({}, DType::bytes)},
      {"text_match", texts({"more", "negative", "positive", "query"})}};
  for (const auto& [model, data] : cases) {
    for (const bool training : {true, false})
      EXPECT_TRUE(model_kind(model).input(data, training).spec().is_fixed_size()) << model;
  }
}

TEST(ModelInput, OfMoreClassesThanTheModelHasIsRefused) {
  const TempFolder folder;
  for (int i = 0; i < 11; ++i) folder.write("class" + std::to_string(i) + "/a.jpg", "x");
  expect_error(
      ErrorCode::invalid_argument, "cifar10 tells 10 classes apart; the data have 11",
      [&] { static_cast<void>(model_kind("cifar10").input(images(folder.path()), true)); });
}

TEST(Models, AreThoseThatComeAlongAndThoseThatAreRegistered) {
  const std::vector<std::string> built_in{"cifar10",    "lenet",     "resnet18", "resnet50",
                                          "text_match", "two_tower", "wide_deep"};
  EXPECT_EQ(model_names(), built_in);
  ModelKind mine = model_kind("lenet");
  expect_error(ErrorCode::invalid_argument, "there is a model lenet already",
               [&] { register_model(mine); });
  mine.name = "mine";
  register_model(mine);
  EXPECT_EQ(model_kind("mine").help, model_kind("lenet").help);
  EXPECT_EQ(model_names().size(), built_in.size() + 1);
  for (const ModelKind& nothing : {ModelKind{}, ModelKind{.name = "no function"}})
    expect_error(ErrorCode::invalid_argument, "a model needs a name, and a function that makes it",
                 [&] { register_model(nothing); });
  expect_error(ErrorCode::not_found, "no model other; there are: cifar10, lenet, mine, resnet18",
               [] { model_kind("other"); });
}

TEST(ModelInput, OfSmallLabelsIsRead) {
  const Dataset data = tensors(
      {{"image", Tensor::of<std::uint8_t>({2, 28, 28}, std::vector<std::uint8_t>(2 * 28 * 28))},
       {"label", Tensor::of<std::uint8_t>({2}, std::vector<std::uint8_t>{3, 7})}});
  std::vector<std::int64_t> labels;
  for (const Element& element : model_kind("lenet").input(data, true).iterate())
    labels.push_back(element["label"].item<std::int64_t>());
  EXPECT_EQ(labels, (std::vector<std::int64_t>{3, 7}));
}

TEST(ModelInput, ReadyData) {
  const ModelKind& kind = model_kind("lenet");
  const Spec with_more = kind.ready.with({"key", DType::i64, {}}).with({kWeight, DType::f32, {}});
  const Dataset data = generate([] { return [](Element&) { return false; }; }, with_more);
  EXPECT_EQ(model_input(kind, data, true).spec(), kind.ready.with({kWeight, DType::f32, {}}));
  const ModelKind& texts = model_kind("text_match");
  const Dataset exact = generate([] { return [](Element&) { return false; }; }, texts.ready);
  EXPECT_EQ(model_input(texts, exact, true).node(), exact.node());
  // What rows weigh goes along with what the model prepares, too.
  const Dataset raw = labelled({28, 28}).map([](const Element&) { return 1.0F; },
                                             {.name = "w", .adds = {{kWeight, DType::f32, {}}}});
  EXPECT_EQ(model_input(kind, raw, true).spec(), kind.ready.with({kWeight, DType::f32, {}}));
  const Dataset wrong = labelled({28, 28}).map([](const Element&) { return std::int64_t{1}; },
                                               {.name = "w", .adds = {{kWeight, DType::i64, {}}}});
  expect_error(ErrorCode::invalid_argument, "lenet takes #weight: f32 []",
               [&] { model_input(kind, wrong, true); });
}

// A tower sees rows of a batch; only a stage knows the record.
TEST(ModelInput, WrongLabelInReadyData) {
  const ModelKind& kind = model_kind("lenet");
  const Tensor image = Tensor::of<float>({4, 28, 28, 1}, std::vector<float>(4 * 28 * 28));
  const struct {
    std::vector<std::int64_t> labels;
    std::string message;
  } cases[] = {
      {{0, 1, 10, 2}, "label 10 is not one of 10 classes (tensors record 2"},
      {{-1, 1, 0, 2}, "label -1 is not one of 10 classes (tensors record 0"},
      {{3, 1, 0, 123456789012}, "label 123456789012 is not one of 10 classes (tensors record 3"}};
  for (const auto& [labels, message] : cases) {
    const Dataset data =
        tensors({{"image", image}, {"label", Tensor::of<std::int64_t>({4}, labels)}});
    ASSERT_EQ(data.spec(), kind.ready);
    expect_error(ErrorCode::mismatch, message, [&] {
      for (const Element& element : model_input(kind, data, true).iterate())
        EXPECT_TRUE(element.has("label"));
    });
  }
}

TEST(SameLabels, AreToldOfOnce) {
  const penstock::test::LogCapture log;
  const std::vector<std::int64_t> same(400, 3);
  SameLabels labels;
  labels.look_at(same, 1);
  labels.look_at(same, 1);
  EXPECT_EQ(log.count("all have label 3"), 0U);
  for (int i = 0; i < 3; ++i) labels.look_at(same, 1);
  EXPECT_EQ(log.count("the first 1200 rows of tower 1 all have label 3"), 1U);
  SameLabels mixed;
  for (int i = 0; i < 5; ++i) {
    mixed.look_at(same, 0);
    mixed.look_at(std::vector<std::int64_t>{4}, 0);
  }
  EXPECT_EQ(log.count("all have label"), 1U);
}

}  // namespace
}  // namespace penstock::towers
