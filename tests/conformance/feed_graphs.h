// Graphs that make batches in every possible way, for the suite over feeds.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <penstock/batch_ops.h>
#include <penstock/penstock.h>

namespace penstock::test {

/// The kinds of batches that feeds distinguish.
enum class BatchKind {
  full,     ///< every batch of an epoch except the last is full
  ragged,   ///< like `full`, with rows whose shapes may differ
  shorter,  ///< some batches are short, anywhere
  padded,   ///< all are full, with padding
  varying,  ///< any number of rows
  wholes,   ///< batches can't be divided
};

/// A graph for the suite.
struct FeedGraph {
  std::string name;
  /// Builds the graph over the numbers below n, the same in each run. Batches have `rows` rows, or
  /// up to as many.
  std::function<Dataset(std::int64_t n, std::int64_t rows)> build;
  BatchKind batches = BatchKind::full;
  std::string stage = "batch";  ///< the stage that decides the kind of batches
  bool shards = true;           ///< batches can be made of shards
  std::string refuses{};        ///< the stage that prevents it, if it is another one
  bool same_rows = true;        ///< rows are the same, whatever batch they are in
};

inline Dataset lists(std::int64_t n) {
  return range(n).map(
      [](const Element& in) {
        const std::int64_t number = in[0].item<std::int64_t>();
        Tensor list = Tensor::allocate(DType::i64, Shape({1 + number % 3}));
        for (std::int64_t& value : list.mutable_values<std::int64_t>()) value = number;
        return Element{{"value", std::move(list)}};
      },
      {.name = "list", .output = Spec({{"value", DType::i64, Shape({-1})}})});
}

inline Dataset labelled(std::int64_t n) {
  return range(n).map(
      [](const Element& in) {
        const std::int64_t number = in[0].item<std::int64_t>();
        return Element{{"value", in[0]},
                       {"image", Tensor::scalar(static_cast<float>(number)).reshape({1})},
                       {"label", Tensor::scalar(number % 3)}};
      },
      {.name = "label",
       .output = Spec({{"value", DType::i64, Shape()},
                       {"image", DType::f32, Shape({1})},
                       {"label", DType::i64, Shape()}})});
}

/// Returns all graphs. The suite runs over each graph that is added here.
inline std::vector<FeedGraph> feed_graphs() {
  using enum BatchKind;
  const auto same = [](Element element) { return element; };
  const auto below = [](std::int64_t n) {
    return [n](const Element& element) { return element[0].item<std::int64_t>() < n; };
  };
  const auto not_zero = [](const Element& batch) {
    return batch[0].values<std::int64_t>()[0] != 0;
  };
  return {
      {"batches", [](auto n, auto rows) { return range(n).batch(rows); }},
      {"full_batches",
       [](auto n, auto rows) { return range(n).batch(rows, {.drop_remainder = true}); }},
      {"shuffled", [](auto n, auto rows) { return range(n).shuffle({.seed = 5}).batch(rows); }},
      {"mapped", [=](auto n, auto rows) { return range(n).map(same).batch(rows).prefetch(1); }},
      {"filtered", [=](auto n, auto rows) { return range(n + 9).filter(below(n)).batch(rows); }},
      {"cached", [=](auto n, auto rows) { return range(n).map(same).cache().batch(rows); }},
      {"bad_elements_left_out",
       [](auto n, auto rows) {
         const auto fail = [n](Element element) {
           if (element[0].item<std::int64_t>() >= n) throw std::runtime_error("bad");
           return element;
         };
         return range(n + 4).map(fail).ignore_errors().batch(rows);
       }},
      {"nested",
       [](auto n, auto rows) {
         const auto one = [](const Element& element) {
           const std::int64_t value = element[0].item<std::int64_t>();
           return range(value, value + 1);
         };
         return range(n).flat_map(one, Spec({{"value", DType::i64, {}}})).batch(rows);
       }},
      {"padded_lists", [](auto n, auto rows) { return lists(n).padded_batch(rows); }, ragged,
       "padded_batch", true, "", false},
      {"ragged_lists", [](auto n, auto rows) { return lists(n).ragged_batch(rows); }, wholes,
       "ragged_batch", true, "", false},
      {"packed_lists", [](auto n, auto) { return lists(n).pack({.length = 5}); }, wholes, "pack",
       false, "pack", false},
      {"packed_lists_in_batches",
       [](auto n, auto rows) { return lists(n).pack({.length = 5}).batch(rows); }, full, "batch",
       true, "", false},
      {"windows", [](auto n, auto rows) { return range(n).window(rows); }},
      {"windows_that_overlap",
       [](auto n, auto rows) { return range(n).window(rows, {.shift = 1}); }, shorter, "window",
       false, "window"},
      {"groups",
       [](auto n, auto rows) {
         return range(n).group_by_window(
             [](const Element& element) { return element[0].item<std::int64_t>() % 2; },
             {.size = rows});
       },
       shorter, "group_by_window", false, "group_by_window"},
      {"buckets",
       [](auto n, auto rows) {
         return lists(n).bucket_by_length({.bounds = {2}, .sizes = {rows, rows}});
       },
       shorter, "bucket_by_length", false, "bucket_by_length", false},
      {"buckets_of_different_sizes",
       [](auto n, auto rows) {
         return lists(n).bucket_by_length({.bounds = {2}, .sizes = {rows + 1, rows}});
       },
       varying, "bucket_by_length", false, "bucket_by_length", false},
      {"buckets_of_tokens",
       [](auto n, auto) { return lists(n).bucket_by_length({.bounds = {2}, .tokens = 7}); },
       varying, "bucket_by_length", false, "bucket_by_length", false},
      {"mapped_batches", [=](auto n, auto rows) { return range(n).batch(rows).map(same); }},
      {"mapped_full_batches",
       [=](auto n, auto rows) {
         return range(n).batch(rows, {.drop_remainder = true}).map(same).prefetch();
       }},
      {"mixed_up",
       [](auto n, auto rows) { return labelled(n).batch(rows).map_op(mixup({.classes = 3})); },
       full, "batch", true, "", false},
      {"kept_components",
       [](auto n, auto rows) {
         return labelled(n).batch(rows).keep({"value", "label"});
       }},
      {"rebatched", [](auto n, auto rows) { return range(n).batch(4).rebatch(rows); }, full,
       "rebatch", false, "rebatch"},
      {"rebatched_in_turns",
       [](auto n, auto rows) {
         return range(n).batch(4).rebatch(std::vector<std::int64_t>{rows, rows + 1});
       },
       varying, "rebatch", false, "rebatch"},
      {"padded_up", [](auto n, auto rows) { return range(n).batch(rows).pad_batches(); }, padded,
       "pad_batches"},
      {"padded_up_cached",
       [](auto n, auto rows) { return range(n).batch(rows).cache().pad_batches(); }, padded,
       "pad_batches"},
      {"padded_up_repeated",
       [](auto n, auto rows) { return range(n).batch(rows).repeat(2).pad_batches(); }, padded,
       "pad_batches", false, "repeat"},
      {"repeated", [](auto n, auto rows) { return range(n).batch(rows).repeat(2); }, shorter,
       "repeat", false, "repeat"},
      {"repeated_full_batches",
       [](auto n, auto rows) { return range(n).batch(rows, {.drop_remainder = true}).repeat(2); },
       full, "batch", false, "repeat"},
      {"taken", [](auto n, auto rows) { return range(n).batch(rows).take(5); }, full, "batch",
       false, "take"},
      {"skipped", [](auto n, auto rows) { return range(n).batch(rows).skip(1); }, full, "batch",
       false, "skip"},
      {"shuffled_batches",
       [](auto n, auto rows) { return range(n).batch(rows).shuffle({.buffer = 4}); }, shorter,
       "shuffle", false, "shuffle"},
      {"cached_batches", [](auto n, auto rows) { return range(n).batch(rows).cache(); }, full,
       "cache"},
      {"cached_batches_repeated",
       [](auto n, auto rows) { return range(n).batch(rows).cache().repeat(3); }, shorter, "repeat",
       false, "repeat"},
      {"filtered_batches", [=](auto n, auto rows) { return range(n).batch(rows).filter(not_zero); },
       full, "batch", false, "filter"},
      {"bad_batches_left_out",
       [](auto n, auto rows) {
         const auto fail = [](Element batch) {
           if (batch[0].values<std::int64_t>()[0] == 0) throw std::runtime_error("bad");
           return batch;
         };
         return range(n).batch(rows).map(fail).ignore_errors();
       },
       full, "batch", true, "", false},
      {"one_behind_the_other",
       [](auto n, auto rows) { return range(n).batch(rows).concatenate(range(n).batch(rows)); },
       shorter, "concatenate", false, "concatenate"},
      {"in_any_order",
       [](auto n, auto rows) {
         return sample_from({range(n).batch(rows), range(n).batch(rows)}, {1, 2});
       },
       shorter, "sample_from", false, "sample_from"},
  };
}

}  // namespace penstock::test
