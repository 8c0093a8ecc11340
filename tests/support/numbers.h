// Small datasets of numbers, and their output as text.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/dataset.h>

namespace penstock::test {

/// The spec {x: i64}.
Spec x_spec();
Element x_element(std::int64_t value);

/// A dataset with an index: {x: i64} from 0 to count-1.
Dataset numbers(std::int64_t count);
/// A dataset with an index: these numbers.
Dataset numbers(std::vector<std::int64_t> values);
inline Dataset numbers(std::initializer_list<std::int64_t> values) {
  return numbers(std::vector<std::int64_t>(values));
}
/// The same numbers as a stream without an index.
Dataset stream(std::vector<std::int64_t> values);

/// A source of {x: i64} whose stream can't be opened.
class BrokenSource final : public Source {
 public:
  std::string name() const override { return "broken"; }
  void describe(Description&) const override {}
  Spec spec() const override { return x_spec(); }
  std::unique_ptr<RecordStream> stream() const override {
    throw Error(ErrorCode::unavailable, "the shard can't be opened");
  }
};

/// Returns `input`, and counts the elements that are made.
Dataset counting(const Dataset& input, std::shared_ptr<std::atomic<int>> made);

/// Returns `input`, and fails the element whose x is `bad`.
Dataset failing_at(const Dataset& input, std::int64_t bad);

/// The same map, but the engine makes elements one by one, because the callable might wait.
template <typename F>
Dataset map_one_by_one(const Dataset& input, F fn, MapOptions options = {}) {
  options.blocking = true;
  return input.map(std::move(fn), std::move(options));
}

/// Returns the values row by row: "[1 0] [2 2]"; several components as "(1, 13)"; none as "[]".
std::string text_of(const Element& element);

/// Returns the output of a run: "0 1 2" for elements, "0 1 | 2 3" for batches, "E" for an error. If
/// there are several epochs, each ends with " ;". The output is cut after `limit` elements.
std::string run(const Dataset& dataset, RunOptions options = {}, std::size_t limit = 100000);
/// Returns the numbers that a run delivers. Throws the first error.
std::vector<std::int64_t> values(const Dataset& dataset, RunOptions options = {});
/// Returns the errors of a run, in order.
std::vector<Error> errors(const Dataset& dataset, RunOptions options = {});

}  // namespace penstock::test
