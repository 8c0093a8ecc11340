// Every stage, as the conformance suite runs it.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/vectors.h"

namespace penstock::test {

struct StageCase {
  std::string name;
  /// A graph of {x: i64} elements from one of {x: i64} elements.
  std::function<Dataset(const Dataset&)> build;
  /// How many elements come out of n.
  std::function<std::int64_t(std::int64_t)> count;
  /// The same elements in any order, so that only the multiset is compared.
  bool unordered = false;

  friend std::ostream& operator<<(std::ostream& out, const StageCase& stage) {
    return out << stage.name;
  }
};

/// Add a stage here and the whole suite runs over it.
inline std::vector<StageCase> stages() {
  const auto same = [](std::int64_t n) { return n; };
  const auto nothing_but = [](Element element) { return element; };
  const auto add = [](Element element, Rng& rng) {
    return x_element(x_of(element) + static_cast<std::int64_t>(rng.below(2)) * 1000);
  };
  const auto write = [](const Element& in, Element& out, Rng&) {
    out[0].mutable_values<std::int64_t>()[0] = x_of(in);
  };
  const auto one = [](const Element& e) { return numbers({x_of(e)}); };
  const auto twice = [](const Element& e) { return numbers({x_of(e), x_of(e)}); };
  const auto drop_index = [](Element element) { return Element({{"x", element["x"]}}); };
  return {
      {"shard", [](Dataset d) { return d.shard(3, 1); }, [](auto n) { return (n + 1) / 3; }},
      {"shuffle", [](Dataset d) { return d.shuffle({.buffer = 5, .seed = 1}); }, same},
      {"repeat", [](Dataset d) { return d.repeat(2); }, [](auto n) { return 2 * n; }},
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
      {"map into views", [=](Dataset d) { return d.map(write, {.output = x_spec()}); }, same},
      {"blocking map", [=](Dataset d) { return d.map(nothing_but, {.blocking = true}); }, same},
      {"unordered map", [=](Dataset d) { return d.map(nothing_but, {.ordered = false}); }, same,
       true},
      {"batch and unbatch", [](Dataset d) { return d.batch(4).unbatch(); }, same},
      {"batch, dropping", [](Dataset d) { return d.batch(4, {.drop_remainder = true}).unbatch(); },
       [](auto n) { return n / 4 * 4; }},
      {"padded_batch", [](Dataset d) { return d.padded_batch(4).unbatch(); }, same},
      {"map of batches", [=](Dataset d) { return d.batch(4).map(nothing_but).unbatch(); }, same},
      {"prefetch", [](Dataset d) { return d.prefetch(2); }, same},
      {"cache", [](Dataset d) { return d.cache(); }, same},
      {"cache, repeated", [](Dataset d) { return d.cache().repeat(2); },
       [](auto n) { return 2 * n; }},
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
