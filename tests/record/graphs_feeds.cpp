// Towers that are fed, and consumers whose number changes.
#include "tests/record/data.h"
#include "tests/record/graph.h"
#include "tests/record/numbers.h"

namespace penstock::test {

std::vector<RecordedRedeal> recorded_redeals() {
  return {
      {.name = "three_consumers_go_on_as_two",
       .build =
           [](std::int64_t count, std::int64_t index) {
             return tfrecord({tfrecords()}).shuffle().shard(count, index).batch(2);
           },
       .before = 3,
       .after = 2,
       .steps = 2},
      {.name = "one_consumer_goes_on_as_four",
       .build =
           [](std::int64_t count, std::int64_t index) {
             return noisy(numbers(41).shuffle({.buffer = 8}).repeat(2).shard(count, index))
                 .batch(3, {.drop_remainder = true})
                 .prefetch(2);
           },
       .before = 1,
       .after = 4,
       .steps = 5,
       .options = {.seed = 7, .epochs = 2}},
      {.name = "two_consumers_go_on_as_one",
       .build = [](std::int64_t count,
                   std::int64_t index) { return noisy(numbers(20).shuffle().shard(count, index)); },
       .before = 2,
       .after = 1,
       .steps = 3},
      {.name = "consumers_that_can_not_go_on_as_others",
       .build =
           [](std::int64_t count, std::int64_t index) {
             return numbers(30).shard(count, index).shuffle().batch(2);
           },
       .before = 2,
       .after = 3,
       .steps = 1},
  };
}

std::vector<RecordedFeed> recorded_feeds() {
  const auto batches = [] { return with_text(noisy(numbers(31).shuffle())).batch(3); };
  const auto whole_steps = [] { return noisy(numbers(23).shuffle()).batch(6); };
  const auto with_errors = [] { return failing_each(noisy(numbers(31)), 7, 3).batch(2); };
  const std::string own_memory = "host:0:copies,host:1:copies";
  return {
      {.name = "feed_per_tower", .build = whole_steps},
      {.name = "feed_per_tower_pad",
       .build = whole_steps,
       .end = EpochEnd::pad,
       .devices = own_memory},
      {.name = "feed_per_tower_wrap", .build = whole_steps, .end = EpochEnd::wrap},
      {.name = "feed_per_tower_stop", .build = whole_steps, .end = EpochEnd::stop},
      {.name = "feed_split", .build = whole_steps, .mode = FeedMode::split, .devices = own_memory},
      {.name = "feed_split_pad",
       .build = whole_steps,
       .mode = FeedMode::split,
       .end = EpochEnd::pad},
      {.name = "feed_split_wrap",
       .build = whole_steps,
       .mode = FeedMode::split,
       .end = EpochEnd::wrap},
      {.name = "feed_split_stop",
       .build = whole_steps,
       .mode = FeedMode::split,
       .end = EpochEnd::stop,
       .devices = own_memory},
      {.name = "feed_sharded", .build = whole_steps, .mode = FeedMode::sharded},
      {.name = "feed_sharded_pad",
       .build = whole_steps,
       .mode = FeedMode::sharded,
       .end = EpochEnd::pad,
       .devices = own_memory},
      {.name = "feed_sharded_wrap",
       .build = whole_steps,
       .mode = FeedMode::sharded,
       .end = EpochEnd::wrap},
      {.name = "feed_sharded_stop",
       .build = whole_steps,
       .mode = FeedMode::sharded,
       .end = EpochEnd::stop},
      {.name = "feed_of_texts", .build = batches, .devices = own_memory},
      {.name = "feed_out_of_turn",
       .build = whole_steps,
       .end = EpochEnd::pad,
       .devices = "host:0,host:1",
       .in_turn = false},
      {.name = "feed_with_errors",
       .build = with_errors,
       .end = EpochEnd::stop,
       .devices = own_memory},
      {.name = "feed_skipping_errors",
       .build = with_errors,
       .end = EpochEnd::stop,
       .options = {.seed = 7, .epochs = 2, .on_error = OnError::skip}},
      {.name = "feed_of_padded_batches",
       .build = [] { return failing_each(numbers(22).shard(2, 0), 5, 1).batch(3).pad_batches(); },
       .devices = "host:0,host:1",
       .options = {.seed = 7, .epochs = 2, .on_error = OnError::skip}},
      {.name = "feed_refused", .build = [] { return noisy(numbers(9)); }},
      {.name = "feed_that_can_not_be_divided",
       .build = [] { return numbers(9).batch(4); },
       .mode = FeedMode::split},
  };
}

}  // namespace penstock::test
