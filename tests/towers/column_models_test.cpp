// Models over feature columns.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/rng.h>
#include <penstock/sources.h>
#include <penstock/towers/trainer.h>

#include <penstock/towers/columns/column_model.h>
#include "tests/support/errors.h"
#include "towers/batch_rows.h"

namespace penstock::towers {
namespace column_models_test {

using penstock::test::expect_error;

using Numbers = std::vector<std::int64_t>;

Tensor numbers(const Numbers& values) {
  return Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

/// {word: a word, tags: some numbers, x; label}: yes if the tags have one that the word has too.
Dataset table(std::int64_t rows, std::uint64_t seed) {
  const Spec spec({{"word", DType::bytes, {}},
                   {"tags", DType::i64, {-1}},
                   {"x", DType::f32, {1}},
                   {"label", DType::i64, {}}});
  return generate(
      [rows, seed] {
        return [rows, seed, row = std::int64_t{0}](Element& out) mutable {
          if (row == rows) return false;
          Rng rng(seed, static_cast<std::uint64_t>(row++), 0);
          const auto word = static_cast<std::int64_t>(rng.below(5));
          Numbers tags(rng.below(4));
          bool has = false;
          for (std::int64_t& tag : tags) {
            tag = static_cast<std::int64_t>(rng.below(5));
            has |= tag == word;
          }
          out.clear();
          out.set("word", Tensor::copy_bytes("w" + std::to_string(word)));
          out.set("tags", numbers(tags));
          out.set("x", Tensor::of<float>({1}, {static_cast<float>(rng.uniform(-1, 1))}));
          out.set("label", Tensor::scalar<std::int64_t>(has ? 1 : 0));
          return true;
        };
      },
      spec);
}

ColumnModel words_and_tags() {
  const ColumnPtr word = vocabulary_column("word", {"w0", "w1", "w2", "w3", "w4"});
  const ColumnPtr tags = identity_column("tags", 5);
  ColumnModel model;
  model.parts["wide"] = {crossed_column({word, tags}, 1000)};
  model.parts["deep"] = {embedding_column(word, {.dimension = 4}), indicator_column(tags),
                         numeric_column("x")};
  model.label = Label{"label"};
  model.hidden = {16};
  return model;
}

TrainOptions on_towers(int towers) {
  TrainOptions options;
  for (int i = 0; i < towers; ++i) options.devices.push_back(device(DeviceId::parse("host:0")));
  options.batch = 32;
  options.epochs = 6;
  options.deterministic = true;
  options.strategy.update = {make_optimizer("adam"), Schedule::constant(0.02)};
  return options;
}

TEST(WideDeep, LearnsACrossOfRaggedRowsOnTwoTowers) {
  const ModelKind kind = model_kind("wide_deep").over(words_and_tags());
  const Dataset train = kind.input(table(1000, 1), true);
  EXPECT_TRUE(is_ragged(train.spec()));
  Trainer trainer(kind.make, train, kind.input(table(301, 2), false), on_towers(2));
  TrainObserver nobody;
  const TrainResult result = trainer.run(nobody);
  EXPECT_EQ(result.evaluation->rows, 301) << "a test set that ends in mid-batch";
  EXPECT_GT(result.evaluation->accuracy, 0.97);
}

TEST(WideDeep, Padding) {
  ColumnModel columns = words_and_tags();
  columns.parts["wide"] = {columns.parts["deep"][0]->source};
  columns.parts["deep"].erase(columns.parts["deep"].begin() + 1);
  const ModelKind kind = model_kind("wide_deep").over(columns);
  EXPECT_FALSE(is_ragged(kind.input(table(8, 1), false).spec()));
  const auto evaluate = [&](std::int64_t batch) {
    TrainOptions options = on_towers(1);
    options.batch = batch;
    Trainer trainer(kind.make, kind.input(table(64, 1), true), kind.input(table(37, 2), false),
                    options);
    return trainer.evaluate();
  };
  EXPECT_EQ(evaluate(37).rows, 37);
  EXPECT_NEAR(evaluate(37).loss, evaluate(16).loss, 1e-6);
}

TEST(WideDeep, RefusesColumnsThatItHasNoPlaceFor) {
  const auto refused = [](const char* text, const std::function<void(ColumnModel&)>& change) {
    ColumnModel columns = words_and_tags();
    change(columns);
    expect_error(ErrorCode::invalid_argument, text,
                 [&] { static_cast<void>(model_kind("wide_deep").over(columns)); });
  };
  refused("wide_deep has no part query, but wide and deep",
          [](ColumnModel& c) { c.parts["query"] = c.parts["wide"]; });
  refused("wide_deep needs a label", [](ColumnModel& c) { c.label.reset(); });
  refused("there are none", [](ColumnModel& c) { c.parts.clear(); });
  refused("tells 2 classes apart; the label names 3", [](ColumnModel& c) {
    c.label = Label{"label", DType::bytes, {"a", "b", "c"}};
  });
}

TEST(TwoTower, FindsItemsThroughATableThatBothShare) {
  const auto shared = shared_embedding_columns(
      {identity_column("wanted", 50), identity_column("item", 50)}, {.dimension = 8});
  ColumnModel columns;
  columns.parts["query"] = {shared[0]};
  columns.parts["item"] = {shared[1]};
  columns.hidden = {};
  columns.dimension = 8;
  const ModelKind kind = model_kind("two_tower").over(columns);
  Numbers wanted, item;
  Rng rng(3, 0, 0);
  for (int i = 0; i < 1024; ++i) {
    wanted.push_back(static_cast<std::int64_t>(rng.below(50)));
    item.push_back((wanted.back() * 7 + 3) % 50);
  }
  const Dataset stored = tensors({{"wanted", numbers(wanted)}, {"item", numbers(item)}});
  TrainOptions options = on_towers(1);
  options.batch = 16;
  options.epochs = 8;
  Trainer trainer(kind.make, kind.input(stored.shuffle(), true),
                  kind.input(stored.take(160), false), options);
  TrainObserver nobody;
  const TrainResult result = trainer.run(nobody);
  EXPECT_GT(result.evaluation->accuracy, 0.7) << "16 items to choose from, some of them twice";
  std::size_t tables = 0;
  for (const Variable* variable : trainer.variables().of(0)) tables += variable->by_rows ? 1 : 0;
  EXPECT_EQ(tables, 1U);
}

}  // namespace column_models_test
}  // namespace penstock::towers
