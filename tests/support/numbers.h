// Small datasets of numbers and what comes out of them, as text.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/dataset.h>

namespace penstock::test {

/// {x: i64}
Spec x_spec();
Element x_element(std::int64_t value);

/// Indexed: {x: i64} 0 … count-1.
Dataset numbers(std::int64_t count);
/// Indexed: these numbers.
Dataset numbers(std::vector<std::int64_t> values);
inline Dataset numbers(std::initializer_list<std::int64_t> values) {
  return numbers(std::vector<std::int64_t>(values));
}
/// The same as a stream without an index.
Dataset stream(std::vector<std::int64_t> values);

/// {x: i64}, a stream that can't be opened.
class BrokenSource final : public Source {
 public:
  std::string name() const override { return "broken"; }
  void describe(Description&) const override {}
  Spec spec() const override { return x_spec(); }
  std::unique_ptr<RecordStream> stream() const override {
    throw Error(ErrorCode::unavailable, "the shard can't be opened");
  }
};

/// `input`, counting the elements that are made.
Dataset counting(const Dataset& input, std::shared_ptr<std::atomic<int>> made);

/// Fails the element whose x is `bad`.
Dataset failing_at(const Dataset& input, std::int64_t bad);

/// The same map where the engine makes elements one by one, because it might wait.
template <typename F>
Dataset map_one_by_one(const Dataset& input, F fn, MapOptions options = {}) {
  options.blocking = true;
  return input.map(std::move(fn), std::move(options));
}

/// Values row by row, "[1 0] [2 2]"; several components as "(1, 13)"; nothing as "[]".
std::string text_of(const Element& element);

/// All of a run: "0 1 2" for elements, "0 1 | 2 3" for batches, "E" for an error, each epoch ended
/// by " ;" if there are several. Unread infinite datasets are cut after `limit`.
std::string run(const Dataset& dataset, RunOptions options = {}, std::size_t limit = 100000);
/// The numbers that come out; throws the first error.
std::vector<std::int64_t> values(const Dataset& dataset, RunOptions options = {});
/// The errors of a run, in order.
std::vector<Error> errors(const Dataset& dataset, RunOptions options = {});

}  // namespace penstock::test
