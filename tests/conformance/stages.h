// Every stage, in the form that the conformance suite needs.
#pragma once

#include <atomic>
#include <cctype>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/vectors.h"

namespace penstock::test {

/// A stage for the suite.
struct StageCase {
  std::string name;
  /// Builds a graph of {x: i64} elements from one of {x: i64} elements.
  std::function<Dataset(const Dataset&)> build;
  /// Returns the number of elements that n elements give; empty: it depends on the elements.
  std::function<std::int64_t(std::int64_t)> count;
  /// The elements come in any order, so only the multiset is compared.
  bool unordered = false;
  /// The output for the input 0 1 2; empty: a test of semantics checks it.
  std::string gives{};

  friend std::ostream& operator<<(std::ostream& out, const StageCase& stage) {
    return out << stage.name;
  }
};

/// Returns the case's name as GoogleTest accepts it.
inline std::string name_of_test(const StageCase& stage) {
  std::string name = stage.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

/// The spec {x: i64 [?]}.
inline Spec list_spec() {
  return Spec({{"x", DType::i64, {Shape::kUnknown}}});
}

/// Returns an unused path, in a folder that is removed when the tests end.
inline std::string scratch() {
  static const TempFolder folder;
  static std::atomic<int> count{0};
  return folder / std::to_string(count++);
}

/// Returns all stages. The suite runs over each stage that is added here.
inline std::vector<StageCase> stages() {
  const auto same = [](std::int64_t n) { return n; };
  const auto nothing_but = [](Element element) { return element; };
  const auto add = [](Element element, Rng& rng) {
    return x_element(x_of(element) + static_cast<std::int64_t>(rng.below(2)) * 1000);
  };
  const auto write = [](const Element& in, Element& out, Rng&) {
    out[0].mutable_values<std::int64_t>()[0] = x_of(in);
  };
  const auto with_twice = [](Element element) {
    element.set("twice", Tensor::scalar(2 * x_of(element)));
    return element;
  };
  const auto one = [](const Element& e) { return numbers({x_of(e)}); };
  const auto twice = [](const Element& e) { return numbers({x_of(e), x_of(e)}); };
  const auto drop_index = [](Element element) { return Element({{"x", element["x"]}}); };
  const auto drop_class = [](Element element) { return Element({{"x", element["x"]}}); };
  const auto all = [](const Element&) { return true; };
  const auto thirds = [](const Element& e) { return ((x_of(e) % 3) + 3) % 3; };
  const auto some = [](Element e) {
    const std::vector<std::int64_t> list(static_cast<std::size_t>(x_of(e) % 3 + 3) % 3, x_of(e));
    return Element(
        {{"x", Tensor::of<std::int64_t>({static_cast<std::int64_t>(list.size())}, list)}});
  };
  const auto total_of_row = [](Element e) {
    std::int64_t sum = 0;
    for (const std::int64_t value : e["x"].values<std::int64_t>()) sum += 1 + value;
    return x_element(sum);
  };
  const auto total = [](Element e) {
    std::int64_t sum = e["x.row_splits"].values<std::int64_t>().back();
    for (const std::int64_t value : e["x"].values<std::int64_t>()) sum += 1000 * value;
    return x_element(sum);
  };
  // Refused where the number of batches is not known, as behind a filter.
  const auto padded_up = [](const Dataset& batches) {
    return (batches.cardinality() < 0 ? batches : batches.pad_batches()).unbatch();
  };
  return {
      {.name = "shard",
       .build = [](Dataset d) { return d.shard(3, 1); },
       .count = [](auto n) { return (n + 1) / 3; },
       .gives = "1"},
      {"shuffle", [](Dataset d) { return d.shuffle({.buffer = 5, .seed = 1}); }, same},
      {.name = "repeat",
       .build = [](Dataset d) { return d.repeat(2); },
       .count = [](auto n) { return 2 * n; },
       .gives = "0 1 2 0 1 2"},
      {"take", [](Dataset d) { return d.take(7); },
       [](auto n) { return std::min<std::int64_t>(n, 7); }},
      {"skip", [](Dataset d) { return d.skip(2); },
       [](auto n) { return std::max<std::int64_t>(n - 2, 0); }},
      {"take_while",
       [](Dataset d) { return d.take_while([](const Element& e) { return x_of(e) < 8; }); },
       [](auto n) { return std::min<std::int64_t>(n, 8); }},
      {"filter",
       [](Dataset d) { return d.filter([](const Element& e) { return x_of(e) % 2 == 0; }); },
       [](auto n) { return (n + 1) / 2; }},
      {"enumerate", [=](Dataset d) { return d.enumerate().map(drop_index, {.output = x_spec()}); },
       same},
      {"concatenate",
       [](Dataset d) {
         return d.concatenate(numbers({90, 91}));
       },
       [](auto n) { return n + 2; }},
      {"zip",
       [=](Dataset d) {
         const Dataset y = numbers(9).map(
             [](Element e) {
               return Element({{"y", e[0]}});
             },
             {.output = Spec({{"y", DType::i64, Shape()}})});
         return zip({d, y}).map(drop_index, {.output = x_spec()});
       },
       [](auto n) { return std::min<std::int64_t>(n, 9); }},
      {"interleave",
       [=](Dataset d) { return d.interleave(twice, x_spec(), {.cycle = 3, .block = 2}); },
       [](auto n) { return 2 * n; }},
      {"flat_map", [=](Dataset d) { return d.flat_map(one, x_spec()); }, same},
      {"flat_map of filtered batches",
       [](Dataset d) {
         return d.flat_map(
             [](const Element& e) {
               return numbers({x_of(e), 1})
                   .filter([](const Element&) { return true; })
                   .batch(2)
                   .unbatch()
                   .take(1);
             },
             x_spec());
       },
       same},
      {"interleave of cached datasets",
       [](Dataset d) {
         return d.interleave([](const Element& e) { return numbers({x_of(e)}).cache().repeat(2); },
                             x_spec(), {.cycle = 2});
       },
       [](auto n) { return 2 * n; }},
      {"map", [=](Dataset d) { return d.map(add); }, same},
      {"keep",
       [=](Dataset d) {
         return d.map(with_twice, {.adds = {{"twice", DType::i64, {}}}}).keep({"x"});
       },
       same},
      {"drop, of batches",
       [=](Dataset d) {
         return d.map(with_twice, {.adds = {{"twice", DType::i64, {}}}})
             .batch(4)
             .drop({"twice"})
             .unbatch();
       },
       same},
      {"map into views", [=](Dataset d) { return d.map(write, {.output = x_spec()}); }, same},
      {"blocking map", [=](Dataset d) { return d.map(nothing_but, {.blocking = true}); }, same},
      {"unordered map", [=](Dataset d) { return d.map(nothing_but, {.ordered = false}); }, same,
       true},
      {"batch and unbatch", [](Dataset d) { return d.batch(4).unbatch(); }, same},
      {"batch, dropping", [](Dataset d) { return d.batch(4, {.drop_remainder = true}).unbatch(); },
       [](auto n) { return n / 4 * 4; }},
      {"padded_batch", [](Dataset d) { return d.padded_batch(4).unbatch(); }, same},
      {"map of batches", [=](Dataset d) { return d.batch(4).map(nothing_but).unbatch(); }, same},
      {"rebatch",
       [](Dataset d) {
         return d.batch(4).rebatch({3, 0, 2}).unbatch();
       },
       same},
      {"rebatch, dropping",
       [](Dataset d) { return d.batch(2).rebatch(3, {.drop_remainder = true}).unbatch(); },
       [](auto n) { return n / 3 * 3; }},
      {"pad_batches", [=](Dataset d) { return padded_up(d.batch(4)); }, same},
      {"pad_batches of repeat", [=](Dataset d) { return padded_up(d.batch(4).repeat(2)); },
       [](auto n) { return 2 * n; }},
      {"pad_batches of take", [=](Dataset d) { return padded_up(d.batch(4).take(2)); },
       [](auto n) { return std::min<std::int64_t>(n, 8); }},
      {"pad_batches of skip", [=](Dataset d) { return padded_up(d.batch(4).skip(1)); },
       [](auto n) { return std::max<std::int64_t>(n - 4, 0); }},
      {"pad_batches of shuffle",
       [=](Dataset d) { return padded_up(d.batch(4).shuffle({.buffer = 2, .seed = 1})); }, same},
      {"pad_batches of cache", [=](Dataset d) { return padded_up(d.batch(4).cache().repeat(2)); },
       [](auto n) { return 2 * n; }},
      {"ragged_batch",
       [=](Dataset d) {
         return d.map(some, {.output = list_spec()})
             .ragged_batch(3)
             .map(total, {.output = x_spec()});
       },
       [](auto n) { return (n + 2) / 3; }},
      {"window", [](Dataset d) { return d.window(3, {.shift = 2}).unbatch(); },
       [](auto n) { return n + std::max<std::int64_t>(n - 1, 0) / 2; }},
      {"window with gaps, as datasets",
       [=](Dataset d) {
         return d.window(
             2, [=](const Dataset& w) { return w.filter(all).map(add).batch(2).unbatch(); },
             {.shift = 5, .stride = 2});
       },
       [](auto n) { return (n + 4) / 5 + (n + 2) / 5; }},
      {"group_by_window",
       [=](Dataset d) { return d.group_by_window(thirds, {.size = 4}).unbatch(); }, same},
      {"group_by_window, reduced",
       [=](Dataset d) {
         return d.group_by_window(thirds,
                                  {.size = 3, .reduce = [](std::int64_t key, const Dataset& w) {
                                     return w.shuffle({.buffer = 3}).take(3 - key);
                                   }});
       },
       [](auto n) {
         std::int64_t count = 0;
         for (std::int64_t key = 0; key < 3; ++key) {
           const std::int64_t of_key = (n + 2 - key) / 3;
           count += of_key / 3 * (3 - key) + std::min(of_key % 3, 3 - key);
         }
         return count;
       }},
      {"bucket_by_length",
       [=](Dataset d) {
         return d.bucket_by_length({.length = x_of, .bounds = {3, 6}, .sizes = {2, 3, 4}})
             .unbatch();
       },
       same},
      {"bucket_by_length, towers",
       [=](Dataset d) {
         return d
             .bucket_by_length({.length = x_of, .bounds = {3, 6}, .sizes = {2, 3, 4}, .towers = 2})
             .unbatch();
       },
       nullptr},
      {"bucket_by_length, tokens",
       [=](Dataset d) { return d.bucket_by_length({.length = x_of, .tokens = 150}).unbatch(); },
       same},
      {"unique",
       [=](Dataset d) {
         return d.map([](Element e) { return x_element(x_of(e) % 7 * 1000); }).unique();
       },
       [](auto n) { return std::min<std::int64_t>(n, 7); }},
      {"scan",
       [](Dataset d) {
         return d.scan(x_element(0), [](const Element& state, Element e) {
           const Element sum = x_element(x_of(state) + x_of(e));
           return std::pair(sum, sum);
         });
       },
       same},
      {"rejection_resample",
       [=](Dataset d) {
         return d.rejection_resample(thirds, {1, 1, 1}, {.initial = {1, 1, 1}})
             .map(drop_class, {.output = x_spec()});
       },
       same},
      {"ignore_errors", [](Dataset d) { return failing_at(d, -1).ignore_errors(); }, same},
      {"prefetch", [](Dataset d) { return d.prefetch(2); }, same},
      {"cache", [](Dataset d) { return d.cache(); }, same},
      {"cache, repeated", [](Dataset d) { return d.cache().repeat(2); },
       [](auto n) { return 2 * n; }},
      // A file outlives its run, and holds no errors. So errors would come in the first run only.
      {"cache in a file", [](Dataset d) { return d.ignore_errors().cache(scratch()); }, same},
      {"snapshot, repeated",
       [](Dataset d) { return d.ignore_errors().snapshot(scratch()).repeat(2); },
       [](auto n) { return 2 * n; }},
      {"pack",
       [=](Dataset d) {
         return d.map(some, {.output = list_spec()})
             .pack({.length = 3, .open = 2})
             .map(total_of_row, {.output = x_spec()});
       },
       {}},
      {"sample_from",
       [](Dataset d) {
         return sample_from({d, numbers({70, 71, 72})}, {0.5, 0.5}, {.seed = 2});
       },
       [](auto n) { return n + 3; }},
      {"choose_from",
       [](Dataset d) {
         return choose_from({d, numbers({80, 81, 82})}, numbers({1, 0}).repeat(3), false);
       },
       [](auto n) { return 3 + std::min<std::int64_t>(n, 3); }},
  };
}

}  // namespace penstock::test
