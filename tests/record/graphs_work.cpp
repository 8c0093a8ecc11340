// Maps and batches.
#include "tests/record/graph.h"
#include "tests/record/numbers.h"

namespace penstock::test {
namespace {

Spec pair_spec() {
  return Spec({{"x", DType::i64, {}}, {"half", DType::f32, {2}}});
}

/// Into the place that it is given.
void halve(const Element& in, Element& out, Rng& rng) {
  out["x"].mutable_values<std::int64_t>()[0] = number_of(in);
  const auto halves = out["half"].mutable_values<float>();
  halves[0] = static_cast<float>(number_of(in)) / 2;
  halves[1] = static_cast<float>(rng.below(100));
}

void square_all(const Element& in, Element& out) {
  const auto from = in["x"].values<std::int64_t>();
  const auto to = out["x"].mutable_values<std::int64_t>();
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = from[i] * from[i];
}

Element plus_one(Element e) {
  e["x"] = Tensor::scalar(number_of(e) + 1);
  return e;
}

Element with_rows(Element batch) {
  batch.set("rows", Tensor::scalar(batch["x"].dim(0)));
  return batch;
}

}  // namespace

std::vector<RecordedGraph> work_graphs() {
  return {
      {.name = "maps",
       .build =
           [] {
             return noisy(numbers(11).map(plus_one, {.name = "plus_one"}))
                 .map(halve, {.name = "halve", .output = pair_spec()})
                 .batch(4);
           }},
      {.name = "maps_alone",
       .build =
           [] {
             return numbers(7).map(plus_one).map(halve, {.name = "halve", .output = pair_spec()});
           }},
      {.name = "map_batchwise",
       .build =
           [] {
             return numbers(50)
                 .shuffle()
                 .map_batchwise(square_all, {.name = "square"})
                 .map(plus_one, {.name = "plus_one"})
                 .batch(16, {.drop_remainder = true});
           }},
      {.name = "map_batchwise_of_columns",
       .build =
           [] {
             return range(2000)
                 .map_batchwise(
                     [](const Element& in, Element& out) {
                       const auto from = in["value"].values<std::int64_t>();
                       const auto to = out["value"].mutable_values<float>();
                       for (std::size_t i = 0; i < from.size(); ++i)
                         to[i] = static_cast<float>(from[i]) / 4;
                     },
                     {.name = "quarter", .output = Spec({{"value", DType::f32, {}}})})
                 .batch(300);
           }},
      {.name = "keep_and_drop",
       .build =
           [] {
             return noisy(numbers(11))
                 .map(halve, {.name = "halve", .output = pair_spec()})
                 .map([](const Element& e) { return std::to_string(number_of(e)); },
                      {.name = "text", .adds = {{"text", DType::bytes, {}}}})
                 .drop({"x"})
                 .batch(4)
                 .keep({"text", "half"});
           }},
      {.name = "map_blocking",
       .build =
           [] {
             return noisy(numbers(9).map(plus_one, {.name = "plus_one", .blocking = true}))
                 .batch(4);
           }},
      {.name = "map_unordered",
       .build = [] { return noisy(numbers(30)).map(plus_one, {.ordered = false}); },
       .unordered = true},
      {.name = "map_unordered_batched",
       .build = [] { return noisy(numbers(30).map(plus_one, {.ordered = false})).batch(4); },
       .unordered = true},
      {.name = "map_unordered_then_shuffled",
       .build = [] { return numbers(20).map(plus_one, {.ordered = false}).shuffle({.buffer = 4}); },
       .unordered = true},
      {.name = "map_of_batches",
       .build =
           [] {
             return with_text(numbers(11))
                 .batch(4)
                 .map(with_rows, {.name = "rows",
                                  .output = Spec({{"x", DType::i64, {-1}},
                                                  {"text", DType::bytes, {-1}},
                                                  {"rows", DType::i64, {}}})})
                 .repeat(2);
           }},
      {.name = "batch_dropping",
       .build = [] { return noisy(numbers(11)).batch(4, {.drop_remainder = true}); }},
      {.name = "batch_of_texts", .build = [] { return with_text(numbers(11)).batch(4); }},
      {.name = "batch_of_batches", .build = [] { return numbers(14).batch(2).batch(3); }},
      {.name = "padded_batch",
       .build =
           [] { return lists(numbers(11)).padded_batch(4, {.shapes = {{5}}, .values = {-1}}); }},
      {.name = "pad_batches",
       .build = [] { return with_text(numbers(9).shard(2, 1)).batch(3).pad_batches(); }},
      {.name = "ragged_batch",
       .build = [] { return lists(numbers(11).shuffle()).ragged_batch(3); }},
  };
}

}  // namespace penstock::test
