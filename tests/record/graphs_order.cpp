// Stages that arrange references.
#include "tests/record/data.h"
#include "tests/record/graph.h"
#include "tests/record/numbers.h"

namespace penstock::test {
namespace {

Dataset renamed(const Dataset& input, const std::string& name) {
  return input.map(
      [name](Element e) {
        return Element({{name, e[0]}});
      },
      {.name = "renamed", .output = Spec({{name, DType::i64, {}}})});
}

/// Three numbers, some of which are dropped, batched, taken apart, and given out twice.
Dataset nested(const Element& e) {
  const std::int64_t x = number_of(e);
  return noisy(stream({x, x + 1, x + 2}).filter(is_odd)).batch(2).unbatch().cache().repeat(2);
}

Dataset as_many(const Element& e) {
  return noisy(numbers(number_of(e) % 5));
}

}  // namespace

std::vector<RecordedGraph> order_graphs() {
  return {
      {.name = "shuffle_repeat",
       .build = [] { return noisy(numbers(9).shuffle().repeat(3)).batch(5); }},
      {.name = "shuffle_large", .build = [] { return range(6000).shuffle().batch(1000); }},
      {.name = "shuffle_buffer",
       .build = [] { return noisy(numbers(20).shuffle({.buffer = 6})).batch(4); }},
      {.name = "shuffle_alike",
       .build =
           [] {
             return noisy(stream({1, 2, 3, 4, 5, 6, 7, 8, 9})
                              .shuffle({.buffer = 4, .seed = 11, .reshuffle = false}));
           }},
      {.name = "shard_behind_shuffle",
       .build = [] { return noisy(numbers(23).shuffle().shard(3, 1)).batch(3).prefetch(2); }},
      {.name = "shard_of_a_stream",
       .build =
           [] {
             return noisy(stream({5, 6, 7, 8, 9, 10, 11}).shard(3, 1));
           }},
      {.name = "take_and_skip",
       .build = [] { return noisy(numbers(12)).skip(3).take(7).batch(2); }},
      {.name = "concatenate",
       .build =
           [] {
             return lists(numbers(5)).concatenate(lists(numbers({7, 5}))).padded_batch(3);
           }},
      {.name = "enumerate_and_zip",
       .build =
           [] {
             return zip({noisy(numbers(9).shuffle()).enumerate(5), renamed(range(100), "other")})
                 .batch(4);
           }},
      {.name = "interleave",
       .build =
           [] {
             return numbers({3, 0, 7, 2, 4, 9, 1})
                 .interleave(as_many, x_spec(), {.cycle = 3, .block = 2})
                 .batch(4);
           }},
      {.name = "interleave_of_values",
       .build =
           [] { return noisy(numbers(5)).interleave(nested, x_spec(), {.cycle = 2}).batch(3); },
       .least = 64 << 10},
      {.name = "flat_map",
       .build = [] { return numbers(6).flat_map(nested, x_spec()); },
       .least = 64 << 10},
      {.name = "flat_map_of_files",
       .build =
           [] {
             const std::string file = tfrecords();
             return numbers(3)
                 .shuffle()
                 .flat_map(
                     [](const Element& e) {
                       return tfrecord({"part-" + std::to_string(number_of(e)) + ".tfrecord"})
                           .shuffle()
                           .take(5);
                     },
                     Spec({{"record", DType::bytes, {}}}))
                 .batch(4);
           },
       .least = kLeastOfFiles},
      {.name = "sample_from",
       .build =
           [] {
             return noisy(sample_from({numbers(10).shuffle(), stream({20, 21, 22, 23})}, {3, 1}))
                 .batch(4);
           },
       .same_first_state = false},
      {.name = "sample_from_changing",
       .build =
           [] {
             return sample_from({numbers(9), numbers({50, 51, 52, 53, 54, 55})},
                                MixWeights(std::vector<MixWeights::Change>{
                                    {0, 0, {1, 0}}, {0, 4, {1, 3}}, {1, 2, {0, 1}}}),
                                {.seed = 4, .stop_on_empty = true});
           },
       .same_first_state = false},
      {.name = "choose_from",
       .build =
           [] {
             return choose_from({noisy(numbers(4)), numbers({10, 11}), stream({20, 21, 22})},
                                numbers({0, 2, 1, 5, 1, 1, 0, 2, 0}).repeat(2), false);
           }},
      {.name = "select",
       .build =
           [] {
             return noisy(numbers(20)).select({7, 0, 0, 19, 3});
           }},
      {.name = "split_at",
       .build =
           [] {
             const auto [some, others] = numbers(20).split_at(0.3, 5);
             return noisy(others.shuffle()).concatenate(some).batch(6);
           }},
  };
}

}  // namespace penstock::test
