// Every number of elements, towers and rows, in every mode, with every end of an epoch.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "staging/steps.h"
#include "tests/staging/scripted.h"

namespace penstock {
namespace {

using Numbers = std::vector<std::int64_t>;

struct Case {
  std::int64_t n = 0;
  std::int64_t towers = 1;
  std::int64_t rows = 1;
  FeedMode mode = FeedMode::split;
  EpochEnd end = EpochEnd::drop;
  std::optional<std::int64_t> dropped{};  ///< behind those n; the maker is told to
};

/// What towers get: of each epoch, of each step, of each tower, the numbers and the rows delivered.
struct Delivered {
  Numbers numbers;
  std::int64_t rows = 0;
};
using Epoch = std::vector<std::vector<Delivered>>;

constexpr std::uint64_t kEpochs = 2;

struct Outcome {
  std::vector<Epoch> epochs{1};
  std::uint64_t lost = 0;
  std::uint64_t wrapped = 0;
};

Outcome run(const Case& c) {
  FeedOptions options;
  options.mode = c.mode;
  options.end = c.end;
  options.run.epochs = kEpochs;
  const std::uint64_t epochs = kEpochs + (c.end == EpochEnd::wrap ? 1 : 0);
  std::vector<std::unique_ptr<test::ScriptedSource>> sources;
  std::vector<BatchSource*> views;
  const std::int64_t inputs = c.mode == FeedMode::sharded ? c.towers : 1;
  for (std::int64_t i = 0; i < inputs; ++i) {
    test::Script script;
    script.elements = (c.n + c.dropped.value_or(0) - i + inputs - 1) / inputs;
    script.first = i;
    script.step = inputs;
    script.rows = c.mode == FeedMode::split ? c.rows * c.towers : c.rows;
    script.epochs = epochs;
    sources.push_back(std::make_unique<test::ScriptedSource>(script));
    views.push_back(sources.back().get());
  }
  StepMaker maker(views, options, static_cast<int>(c.towers),
                  {.rows = c.rows, .drop_remainder = c.dropped.has_value()});
  Outcome outcome;
  Step step;
  for (;;) {
    maker.next(step);
    if (step.error) throw *step.error;
    if (step.end) {
      if (step.last) break;
      outcome.epochs.emplace_back();
      continue;
    }
    std::vector<Delivered> shares;
    for (const Share& share : step.shares) {
      Delivered& delivered = shares.emplace_back();
      for (const Piece& piece : share.pieces) {
        const Tensor& x = piece.batch[0];
        for (std::int64_t r = piece.first; r < piece.first + piece.count; ++r)
          delivered.numbers.push_back(test::ScriptedSource::number(x.data() + 8 * r));
      }
      delivered.rows =
          std::max(static_cast<std::int64_t>(delivered.numbers.size()), share.padded_rows);
    }
    outcome.epochs.back().push_back(std::move(shares));
  }
  outcome.lost = maker.lost();
  outcome.wrapped = maker.wrapped();
  return outcome;
}

Numbers union_of(const std::vector<Delivered>& step) {
  Numbers all;
  for (const Delivered& share : step)
    all.insert(all.end(), share.numbers.begin(), share.numbers.end());
  std::sort(all.begin(), all.end());
  return all;
}

Numbers from_to(std::int64_t first, std::int64_t last) {
  Numbers numbers(static_cast<std::size_t>(last - first));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

void check(const Case& c) {
  const Outcome outcome = run(c);
  const std::int64_t full = c.towers * c.rows;
  const std::int64_t steps = c.n / full;
  const std::int64_t rest = c.n - steps * full;
  const bool one_more = rest > 0 && (c.end == EpochEnd::pad || c.end == EpochEnd::wrap ||
                                     (c.end == EpochEnd::stop && rest >= c.towers));
  ASSERT_EQ(outcome.epochs.size(), kEpochs);
  for (const Epoch& epoch : outcome.epochs) {
    ASSERT_EQ(static_cast<std::int64_t>(epoch.size()), steps + (one_more ? 1 : 0));
    for (std::int64_t s = 0; s < steps; ++s) {
      const auto& step = epoch[static_cast<std::size_t>(s)];
      ASSERT_EQ(union_of(step), from_to(s * full, (s + 1) * full));
      for (std::int64_t t = 0; t < c.towers; ++t) {
        const Delivered& share = step[static_cast<std::size_t>(t)];
        ASSERT_EQ(share.rows, c.rows);
        for (std::int64_t j = 0; j < c.rows; ++j) {
          const std::int64_t expected = c.mode == FeedMode::sharded
                                            ? t + c.towers * (s * c.rows + j)
                                            : s * full + t * c.rows + j;
          ASSERT_EQ(share.numbers[static_cast<std::size_t>(j)], expected);
        }
      }
    }
    if (!one_more) continue;
    const auto& last = epoch.back();
    Numbers expected = from_to(steps * full, c.n);
    std::int64_t valid = 0;
    for (std::int64_t t = 0; t < c.towers; ++t) {
      const Delivered& share = last[static_cast<std::size_t>(t)];
      const std::int64_t dealt = (rest - t + c.towers - 1) / c.towers;
      const auto has = static_cast<std::int64_t>(share.numbers.size());
      ASSERT_EQ(has, c.end == EpochEnd::wrap ? c.rows : dealt);
      ASSERT_EQ(share.rows, c.end == EpochEnd::stop ? dealt : c.rows);
      ASSERT_GE(share.rows, 1);
      valid += has;
    }
    if (c.end == EpochEnd::wrap) {
      for (std::int64_t i = 0; i < full - rest; ++i) expected.push_back(i % c.n);
      std::sort(expected.begin(), expected.end());
    } else {
      ASSERT_EQ(valid, rest);
    }
    ASSERT_EQ(union_of(last), expected);
  }
  const std::int64_t lost = one_more ? 0 : rest;
  ASSERT_EQ(outcome.lost, static_cast<std::uint64_t>(lost) * kEpochs);
  ASSERT_EQ(outcome.wrapped, c.end == EpochEnd::wrap && one_more
                                 ? static_cast<std::uint64_t>(full - rest) * kEpochs
                                 : 0);
}

class Steps : public testing::TestWithParam<EpochEnd> {};

TEST_P(Steps, AreTheSameInEveryModeForEverySize) {
  for (const FeedMode mode : {FeedMode::split, FeedMode::per_tower, FeedMode::sharded}) {
    for (std::int64_t n = 0; n < 80; ++n) {
      for (std::int64_t towers = 1; towers <= 5; ++towers) {
        for (std::int64_t rows = 1; rows <= 5; ++rows) {
          ASSERT_NO_FATAL_FAILURE(check({n, towers, rows, mode, GetParam()}))
              << "mode " << static_cast<int>(mode) << ", n " << n << ", towers " << towers
              << ", rows " << rows;
        }
      }
    }
  }
}

TEST_P(Steps, OfShardsHaveNoRemainderOfTheWholeThatIsDropped) {
  for (std::int64_t towers = 1; towers <= 5; ++towers) {
    for (std::int64_t rows = 1; rows <= 5; ++rows) {
      for (std::int64_t n = 0; n < 80; n += rows) {
        for (std::int64_t dropped = 0; dropped < rows; ++dropped) {
          ASSERT_NO_FATAL_FAILURE(check({n, towers, rows, FeedMode::sharded, GetParam(), dropped}))
              << "n " << n << ", towers " << towers << ", rows " << rows << ", dropped " << dropped;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, Steps,
                         testing::Values(EpochEnd::drop, EpochEnd::pad, EpochEnd::wrap,
                                         EpochEnd::stop));

}  // namespace
}  // namespace penstock
