// Stages that see values: caches, filters, what counts, and what is gathered.
#include <filesystem>

#include "tests/record/data.h"
#include "tests/record/graph.h"
#include "tests/record/numbers.h"

namespace penstock::test {
namespace {

/// The running sum.
std::pair<Element, Element> add(const Element& state, Element e) {
  const Element sum = x_element(number_of(state) + number_of(e));
  return {sum, sum};
}

/// A name in the folder that nothing stands under.
std::string unused(const std::string& name) {
  enter_folder();
  std::filesystem::remove_all(name);
  return name;
}

}  // namespace

std::vector<RecordedGraph> value_graphs() {
  return {
      {.name = "filter", .build = [] { return noisy(numbers(25)).filter(is_odd, "odd").batch(4); }},
      {.name = "take_while",
       .build =
           [] {
             return numbers(20).take_while([](const Element& e) { return number_of(e) < 13; });
           }},
      {.name = "unbatch",
       .build = [] { return with_text(numbers(11)).batch(4).unbatch().shuffle({.buffer = 3}); }},
      {.name = "unique",
       .build =
           [] {
             return numbers({5, 2, 5, 9, 2, 1}).repeat(2).enumerate().unique({"x"}).batch(3);
           }},
      {.name = "scan",
       .build = [] { return noisy(numbers(9)).scan(x_element(100), add, {.name = "sum"}); }},
      {.name = "rejection_resample",
       .build =
           [] {
             return noisy(numbers(40)).rejection_resample(third_of, {0.7, 0.2, 0.1}).batch(5);
           }},
      {.name = "ignore_errors",
       .build = [] { return failing_each(numbers(14), 5, 3).ignore_errors().batch(4); }},
      {.name = "cache",
       .build = [] { return noisy(numbers(7)).cache().repeat(2).shuffle({.buffer = 5}).batch(4); }},
      {.name = "cache_of_a_part",
       .build = [] { return noisy(numbers(9)).cache().take(3).repeat(2); }},
      {.name = "cache_file",
       .build = [] { return with_text(noisy(numbers(9))).cache(unused("numbers.cache")).batch(4); },
       .least = 64 << 10},
      {.name = "snapshot",
       .build =
           [] {
             const std::string folder = unused("snapshots");
             std::filesystem::create_directory(folder);
             return with_text(numbers(8)).snapshot(folder).repeat(2).shuffle({.buffer = 4});
           },
       .least = 64 << 10},
      {.name = "rebatch",
       .build =
           [] {
             return noisy(numbers(17)).batch(5).rebatch({3, 0, 4});
           }},
      {.name = "window",
       .build = [] { return with_text(numbers(11)).window(3, {.shift = 2, .stride = 2}); }},
      {.name = "window_as_dataset",
       .build =
           [] {
             return numbers(13).window(
                 4, [](const Dataset& w) { return noisy(w).filter(is_odd).batch(3); },
                 {.shift = 3, .drop_remainder = true});
           },
       .least = 64 << 10},
      {.name = "group_by_window",
       .build =
           [] {
             return noisy(numbers(20)).group_by_window(third_of, {.size = 4, .name = "third"});
           }},
      {.name = "group_by_window_reduced",
       .build =
           [] {
             GroupOptions options{.name = "third"};
             options.size_of = [](std::int64_t key) { return key + 2; };
             options.reduce = [](std::int64_t key, const Dataset& w) {
               return w.shuffle({.buffer = 3}).take(3 - key);
             };
             return numbers(20).group_by_window(third_of, options);
           },
       .least = 64 << 10},
      {.name = "bucket_by_length",
       .build =
           [] {
             return lists(numbers(21).shuffle())
                 .bucket_by_length({.bounds = {2, 3}, .sizes = {3, 2, 4}});
           }},
      {.name = "bucket_by_tokens",
       .build = [] { return lists(numbers(21)).bucket_by_length({.tokens = 9, .values = {-1}}); }},
      {.name = "pack",
       .build =
           [] {
             return lists(numbers(17).shuffle())
                 .pack({.length = 5, .open = 2, .values = {-1}})
                 .batch(2);
           }},
  };
}

}  // namespace penstock::test
