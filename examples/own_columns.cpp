// Trains a wide-and-deep model over feature columns of your own table. The table is made here; read
// yours with `csv`, or with `tfrecords` and `parse_example` or without it. Run `own_columns`.
// Prints:
//     600 updates: every row is told
#include <cstdio>
#include <memory>
#include <string>

#include <penstock/penstock.h>
#include <penstock/towers.h>
namespace ps = penstock;
namespace tw = penstock::towers;

int main() try {
  // A word and a day together decide whether somebody bought.
  const ps::Spec spec({{"word", ps::DType::bytes, {}},
                       {"day", ps::DType::i64, {}},
                       {"bought", ps::DType::i64, {}}});
  const auto row = [](const ps::Element& in) {
    const auto i = in["value"].item<std::int64_t>();
    const std::int64_t word = i % 3, day = i / 3 % 5;
    return ps::Element{{"word", ps::Tensor::copy_bytes(std::string(1, "abc"[word]))},
                       {"day", ps::Tensor::scalar(day)},
                       {"bought", ps::Tensor::scalar<std::int64_t>((word + day) % 3 == 0 ? 1 : 0)}};
  };
  const ps::Dataset table = ps::range(960).map(row, {.output = spec});

  const tw::ColumnPtr word = tw::vocabulary_column("word", {"a", "b", "c"});
  const tw::ColumnPtr day = tw::identity_column("day", 5);
  tw::ColumnModel columns;
  columns.parts["wide"] = {tw::crossed_column({word, day}, 100)};
  columns.parts["deep"] = {tw::embedding_column(word, {.dimension = 4}), tw::indicator_column(day)};
  columns.label = tw::Label{"bought"};
  columns.hidden = {16};
  const tw::ModelKind kind = tw::model_kind("wide_deep").over(columns);

  tw::TrainOptions options{.batch = 32, .epochs = 20, .threads = 1};
  options.devices = ps::devices("host:0");
  options.strategy.update = {tw::make_optimizer("adam"), tw::Schedule::constant(0.02)};
  tw::Trainer trainer(kind.make, kind.input(table.shuffle(), true), kind.input(table, false),
                      options);
  tw::TrainObserver nobody;
  const tw::TrainResult result = trainer.run(nobody);
  std::printf("%d updates: %s\n", static_cast<int>(result.steps),
              result.evaluation->accuracy > 0.99 ? "every row is told" : "some rows are not told");
} catch (const ps::Error& error) {
  return std::fprintf(stderr, "own_columns: %s\n", error.what()), 1;
}
