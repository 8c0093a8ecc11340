// The sequential model, and the engine compared with it.
#include "tests/engine/sequential_model.h"

#include <atomic>
#include <memory>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <penstock/rng.h>

#include "tests/support/numbers.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace sequential_model_test {

using test::Made;
using test::numbers;
using test::sequential;
using test::SequentialOptions;
using test::SequentialOutput;
using Kind = SequentialOutput::Kind;

constexpr std::uint64_t kMemory = 1 << 20;

std::string text_of(const std::vector<SequentialOutput>& outputs) {
  std::ostringstream text;
  for (std::size_t i = 0; i < outputs.size(); ++i) text << (i > 0 ? " | " : "") << outputs[i];
  return text.str();
}

/// "..x.o": good, failed, blocked.
std::vector<Made> made_of(const std::string& text) {
  std::vector<Made> elements;
  for (const char c : text)
    elements.push_back(c == '.' ? Made::good : c == 'x' ? Made::failed : Made::blocked);
  return elements;
}

TEST(Sequential, GivesWhatIsWrittenDown) {
  const struct {
    const char* elements;
    SequentialOptions options;
    const char* outputs;
  } kCases[] = {
      {"", {}, "end (0, 0)"},
      {".x.", {}, "0 (1, 0) | E1 (2, 0) | 2 (3, 0) | end (3, 0)"},
      {".xx.", {.skip = true}, "0 (1, 0) | 3 (4, 2) | end (4, 2)"},
      {".xo.", {.skip = true}, "0 (1, 0) | over 2 (3, 1) | end (3, 1)"},
      {".....", {.rows = 2}, "0 1 (2, 0) | 2 3 (4, 0) | 4 (5, 0) | end (5, 0)"},
      {".....", {.rows = 2, .drop_remainder = true}, "0 1 (2, 0) | 2 3 (4, 0) | end (5, 0)"},
      {"..x...", {.rows = 2}, "0 1 (2, 0) | E2 (3, 0) | 3 4 (5, 0) | 5 (6, 0) | end (6, 0)"},
      {".o..", {.rows = 3}, "E1 (2, 0) | 2 3 (4, 0) | end (4, 0)"},
      {"..x...", {.rows = 2, .skip = true}, "0 1 (2, 0) | 3 4 (5, 1) | 5 (6, 1) | end (6, 1)"},
      {".xx", {.rows = 2, .skip = true}, "0 (3, 2) | end (3, 2)"},
      {".x.x.",
       {.rows = 2, .skip = true, .max_errors = 1},
       "0 2 (3, 1) | over 3 (4, 2) | end (4, 2)"},
      {"..x", {.rows = 3, .skip = true, .max_errors = 0}, "over 2 (3, 1) | end (3, 1)"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(text_of(sequential(made_of(test.elements), test.options)), test.outputs)
        << test.elements;
  }
  const std::vector<Made> many = made_of(std::string(99, '.') + "x.");
  const SequentialOptions share{.rows = 60, .skip = true, .max_error_share = 0.009};
  EXPECT_EQ(sequential(many, share).at(1).kind, Kind::over);
}

/// Fails the elements that are to fail, or asks for more memory than there is; notes the first that
/// it is called for.
class MadeAs final : public WorkOp {
 public:
  explicit MadeAs(std::vector<Made> elements) : elements_(std::move(elements)) {}
  std::string name() const override { return "made_as"; }
  void describe(Description&) const override {}
  Spec infer(const Spec& input) const override { return input; }
  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      const auto which = static_cast<std::uint64_t>(item.element["x"].item<std::int64_t>());
      std::uint64_t first = first_;
      while (which < first && !first_.compare_exchange_weak(first, which)) {
      }
      if (elements_[which] == Made::failed) item.status = Status(ErrorCode::user, "bad");
      if (elements_[which] != Made::blocked) continue;
      try {
        (void)context.allocate(2 * kMemory);
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }

  std::uint64_t first() const { return first_; }
  void forget() { first_ = UINT64_MAX; }

 private:
  const std::vector<Made> elements_;
  mutable std::atomic<std::uint64_t> first_{UINT64_MAX};
};

struct Case {
  std::vector<Made> elements;
  SequentialOptions options;
};

Case random_case(Rng& rng) {
  Case made;
  const std::uint64_t size = rng.below(8) == 0 ? 90 + rng.below(80) : rng.below(40);
  const double bad = rng.uniform() * rng.uniform();
  for (std::uint64_t i = 0; i < size; ++i) {
    made.elements.push_back(!rng.coin(bad)      ? Made::good
                            : rng.below(6) == 0 ? Made::blocked
                                                : Made::failed);
  }
  made.options.rows = rng.below(9);
  made.options.drop_remainder = rng.coin(0.3);
  made.options.skip = rng.coin(0.6);
  if (!made.options.skip) return made;
  if (rng.coin(0.2)) made.options.max_errors = rng.below(6);
  if (rng.coin(0.2)) made.options.max_error_share = rng.uniform(0, 0.3);
  return made;
}

/// What comes, without the counts, which nobody is told.
std::vector<SequentialOutput> taken_from(Iterator& iterator, bool skips,
                                         std::vector<std::string>* states) {
  std::vector<SequentialOutput> outputs;
  for (;;) {
    if (states != nullptr) states->push_back(iterator.save());
    Next next = iterator.next();
    SequentialOutput& output = outputs.emplace_back();
    if (next.is_end()) return outputs;
    if (next.has_value()) {
      output.kind = Kind::elements;
      for (const std::int64_t x : (*next)["x"].to_vector<std::int64_t>())
        output.elements.push_back(static_cast<std::uint64_t>(x));
    } else {
      const Error& error = next.error();
      const bool over = error.cause().find("exceed the error budget") != std::string::npos ||
                        (skips && error.code() == ErrorCode::resource_exhausted);
      output.kind = over ? Kind::over : Kind::error;
      output.elements.push_back(static_cast<std::uint64_t>(error.where().index));
    }
  }
}

std::string without_counts(std::vector<SequentialOutput> outputs) {
  for (SequentialOutput& output : outputs) output.consumed = output.skipped = 0;
  return text_of(outputs);
}

TEST(Sequential, IsWhatTheEngineGives) {
  const test::TimeLimit limit(500);
  Rng rng(7, 1, 2);
  for (int i = 0; i < 2000; ++i) {
    const Case made = random_case(rng);
    const std::vector<SequentialOutput> expected = sequential(made.elements, made.options);
    const auto op = std::make_shared<MadeAs>(made.elements);
    Dataset dataset = numbers(static_cast<std::int64_t>(made.elements.size())).map_op(op);
    if (made.options.rows > 0) {
      dataset = dataset.batch(static_cast<std::int64_t>(made.options.rows),
                              {.drop_remainder = made.options.drop_remainder});
    }
    const RunOptions options{
        .threads = 1 + static_cast<int>(rng.below(4)),
        .memory_bytes = kMemory,
        .slots = static_cast<int>(rng.below(4)),
        .on_error = made.options.skip ? OnError::skip : OnError::fail,
        .max_errors = made.options.max_errors,
        .max_error_share =
            made.options.skip ? std::optional(made.options.max_error_share) : std::nullopt,
    };
    SCOPED_TRACE(testing::Message() << "case " << i << ": " << text_of(expected));
    std::vector<std::string> states;
    Iterator iterator = dataset.iterate(options);
    ASSERT_EQ(without_counts(taken_from(iterator, made.options.skip, &states)),
              without_counts(expected));
    const std::uint64_t skipped = expected.back().skipped;
    ASSERT_EQ(iterator.stats().epochs.at(0).skipped, skipped);

    // Of one of its positions a restored run begins behind what was consumed, and counts on.
    const std::size_t position = rng.below(expected.size());
    op->forget();
    Iterator restored = dataset.restore(states[position], options);
    const std::vector<SequentialOutput> rest(
        expected.begin() + static_cast<std::ptrdiff_t>(position), expected.end());
    if (position > 0 && expected[position - 1].kind == Kind::over) continue;
    ASSERT_EQ(without_counts(taken_from(restored, made.options.skip, nullptr)),
              without_counts(rest))
        << position;
    ASSERT_EQ(restored.stats().epochs.at(0).skipped, skipped) << position;
    const std::uint64_t consumed = position > 0 ? expected[position - 1].consumed : 0;
    if (consumed < made.elements.size()) {
      ASSERT_EQ(op->first(), consumed) << position;
    }
  }
}

}  // namespace sequential_model_test
}  // namespace penstock
