// What shuffle promises: which orders it can give, how often, and when they are the same.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "tests/support/chi_square.h"
#include "tests/support/errors.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::chi_square;
using test::chi_square_limit;
using test::epochs_of;
using test::expect_error;
using test::iota;
using test::numbers;
using test::run;
using test::stream;
using test::values;

using Order = std::vector<std::int64_t>;

/// How often each order of n elements comes out of `shuffle`, over many seeds.
std::map<Order, std::int64_t> orders(const Dataset& input, ShuffleOptions options, int seeds) {
  std::map<Order, std::int64_t> seen;
  const Dataset dataset = input.shuffle(options);
  // Many passes a run: starting one for each order would take longer than the orders.
  constexpr int kPasses = 500;
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(input.cardinality(), 1));
  for (int seed = 0; seed < seeds / kPasses; ++seed) {
    const Order all =
        values(dataset.repeat(kPasses), {.seed = static_cast<std::uint64_t>(seed), .threads = 1});
    for (std::size_t i = 0; i < all.size(); i += n) {
      ++seen[Order(all.begin() + static_cast<std::ptrdiff_t>(i),
                   all.begin() + static_cast<std::ptrdiff_t>(i + n))];
    }
  }
  return seen;
}

std::vector<std::int64_t> counts_of(const std::map<Order, std::int64_t>& seen) {
  std::vector<std::int64_t> counts;
  for (const auto& [order, count] : seen) counts.push_back(count);
  return counts;
}

TEST(BufferedShuffle, ReachesExactlyTheOrdersItsBufferAllows) {
  // 2^(n-1) for a buffer of 2, and each of them equally often.
  for (const auto& [n, expected] : std::vector<std::pair<int, std::size_t>>{{4, 8}, {5, 16}}) {
    const auto seen = orders(numbers(n), {.buffer = 2}, 8000);
    EXPECT_EQ(seen.size(), expected) << n;
    EXPECT_LT(chi_square(counts_of(seen)), chi_square_limit(expected));
    for (const auto& [order, count] : seen) {
      for (std::size_t at = 0; at < order.size(); ++at) {
        EXPECT_GE(static_cast<std::int64_t>(at), order[at] - 1);
      }
    }
  }
}

TEST(BufferedShuffle, OfAFullBufferIsUniform) {
  for (const std::uint64_t buffer : {4, 5, 100}) {
    const auto seen = orders(numbers(4), {.buffer = buffer}, 24000);
    EXPECT_EQ(seen.size(), 24U);
    EXPECT_LT(chi_square(counts_of(seen)), chi_square_limit(24)) << buffer;
  }
}

TEST(BufferedShuffle, EarliestPositions) {
  for (const std::int64_t buffer : {1, 2, 3, 10, 63, 64, 65, 256, 257, 1000}) {
    for (const Dataset& input : {numbers(500), stream(iota(500))}) {
      const Order order =
          values(input.shuffle({.buffer = static_cast<std::uint64_t>(buffer)}), {.threads = 2});
      Order sorted = order;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(sorted, iota(500));
      for (std::size_t at = 0; at < order.size(); ++at) {
        EXPECT_GE(static_cast<std::int64_t>(at), order[at] - (buffer - 1)) << buffer;
      }
      if (buffer == 1) {
        EXPECT_EQ(order, iota(500));
      } else {
        EXPECT_NE(order, iota(500)) << buffer;
      }
    }
  }
}

TEST(BufferedShuffle, OfNothingAndOfOne) {
  test::expect_over_inputs(
      "nothing", {}, [](Dataset d) { return d.shuffle({.buffer = 3}); }, "");
  test::expect_over_inputs(
      "one", {7}, [](Dataset d) { return d.shuffle({.buffer = 3}); }, "7");
}

TEST(Shuffle, OrderOfOneSeed) {
  for (const std::uint64_t buffer : {0, 10}) {
    const Dataset dataset = numbers(300).shuffle({.buffer = buffer});
    const std::string expected = run(dataset.batch(7), {.seed = 3, .epochs = 3, .threads = 1});
    for (const int threads : {1, 2, 8}) {
      for (const int slots : {1, 2, 4}) {
        EXPECT_EQ(
            run(dataset.batch(7), {.seed = 3, .epochs = 3, .threads = threads, .slots = slots}),
            expected);
        EXPECT_EQ(run(dataset.prefetch(3).batch(7),
                      {.seed = 3, .epochs = 3, .threads = threads, .slots = slots}),
                  expected);
      }
    }
    EXPECT_NE(run(dataset.batch(7), {.seed = 4, .epochs = 3, .threads = 1}), expected);
  }
}

TEST(Shuffle, ReshufflesEachEpochUnlessToldOtherwise) {
  for (const std::uint64_t buffer : {0, 8}) {
    for (const bool seeded : {false, true}) {
      ShuffleOptions options{.buffer = buffer};
      if (seeded) options.seed = 11;
      const std::vector<std::string> fresh =
          epochs_of(numbers(20).shuffle(options), {.seed = 1, .epochs = 4});
      EXPECT_EQ(std::set<std::string>(fresh.begin(), fresh.end()).size(), 4U);
      EXPECT_EQ(epochs_of(numbers(20).shuffle(options), {.seed = 1, .epochs = 4}), fresh);
      EXPECT_EQ(epochs_of(numbers(20).shuffle(options), {.seed = 2, .epochs = 4}) == fresh, seeded);

      options.reshuffle = false;
      const std::vector<std::string> fixed =
          epochs_of(numbers(20).shuffle(options), {.seed = 1, .epochs = 4});
      EXPECT_EQ(std::set<std::string>(fixed.begin(), fixed.end()).size(), 1U);
      EXPECT_EQ(epochs_of(numbers(20).shuffle(options), {.seed = 1, .epochs = 4}), fixed);
    }
  }
}

TEST(Shuffle, ReshufflesEachRepetitionUnlessToldOtherwise) {
  for (const std::uint64_t buffer : {0, 8}) {
    const Order fresh = values(numbers(20).shuffle({.buffer = buffer}).repeat(2));
    const Order fixed =
        values(numbers(20).shuffle({.buffer = buffer, .reshuffle = false}).repeat(2));
    EXPECT_NE(Order(fresh.begin(), fresh.begin() + 20), Order(fresh.begin() + 20, fresh.end()));
    EXPECT_EQ(Order(fixed.begin(), fixed.begin() + 20), Order(fixed.begin() + 20, fixed.end()));
  }
}

TEST(Shuffle, MixedRepetitions) {
  bool mixed = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const std::uint64_t buffer : {0, 1000}) {
      const Order apart = values(numbers(10).shuffle({.buffer = buffer}).repeat(3), {.seed = seed});
      ASSERT_EQ(apart.size(), 30U);
      for (int pass = 0; pass < 3; ++pass) {
        Order one(apart.begin() + 10 * pass, apart.begin() + 10 * (pass + 1));
        std::sort(one.begin(), one.end());
        EXPECT_EQ(one, iota(10));
      }
    }
    const Order together = values(numbers(10).repeat(3).shuffle({.buffer = 10}), {.seed = seed});
    Order first(together.begin(), together.begin() + 10);
    std::sort(first.begin(), first.end());
    mixed = mixed || first != iota(10);
  }
  EXPECT_TRUE(mixed);
}

TEST(Shuffle, TwoShufflesAndTwoEpochs) {
  for (const std::uint64_t buffer : {0, 50}) {
    for (const bool reshuffle : {false, true}) {
      const ShuffleOptions options{.buffer = buffer, .reshuffle = reshuffle};
      const Dataset other = numbers(50).map(
          [](Element element) {
            return Element({{"y", element[0]}});
          },
          {.output = Spec({{"y", DType::i64, Shape()}})});
      Iterator iterator = zip({numbers(50).shuffle(options), other.shuffle(options)}).iterate();
      Order a;
      Order b;
      for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
        a.push_back(next.value()["x"].item<std::int64_t>());
        b.push_back(next.value()["y"].item<std::int64_t>());
      }
      EXPECT_NE(a, b);
    }
  }
}

TEST(Shuffle, OrdersOfPassesAndBranches) {
  constexpr std::int64_t kCount = 9;
  const Dataset shuffled = numbers(kCount).shuffle();
  const auto random = [](const Element&, Rng& rng) {
    return test::x_element(static_cast<std::int64_t>(rng.below(1'000'000)));
  };
  const Dataset plain = numbers(kCount);
  const std::vector<std::pair<const char*, Dataset>> cases{
      {"repeat of repeat", shuffled.repeat(2).repeat(2).repeat(2)},
      {"repeat, more, repeat", shuffled.repeat(2).concatenate(shuffled).repeat(2)},
      {"of three", shuffled.concatenate(shuffled).concatenate(shuffled)},
      {"of four", shuffled.concatenate(shuffled).concatenate(shuffled.concatenate(shuffled))},
      {"random map", plain.concatenate(plain).concatenate(plain).repeat(2).repeat(2).map(random)},
      {"random map of branches",
       choose_from({choose_from({plain, plain}, numbers({0}).repeat(kCount).concatenate(
                                                    numbers({1}).repeat(kCount))),
                    plain},
                   numbers({0}).repeat(2 * kCount).concatenate(numbers({1}).repeat(kCount)))
           .map(random)},
  };
  for (const auto& [name, dataset] : cases) {
    std::set<Order> seen;
    const Order all = values(dataset, {.seed = 5});
    ASSERT_EQ(all.size() % kCount, 0U) << name;
    for (auto at = all.begin(); at != all.end(); at += kCount) seen.emplace(at, at + kCount);
    EXPECT_EQ(seen.size(), all.size() / kCount) << name;
  }
}

TEST(PerfectShuffle, IsUniformOverAllOrders) {
  for (const std::int64_t n : {2, 3, 4, 5}) {
    const auto seen = orders(numbers(n), {}, 30000);
    std::size_t all = 1;
    for (std::int64_t i = 2; i <= n; ++i) all *= static_cast<std::size_t>(i);
    EXPECT_EQ(seen.size(), all);
    EXPECT_LT(chi_square(counts_of(seen)), chi_square_limit(all)) << n;
  }
}

TEST(PerfectShuffle, OfNothingAndOfOne) {
  EXPECT_EQ(run(numbers(0).shuffle()), "");
  EXPECT_EQ(run(numbers({7}).shuffle()), "7");
}

TEST(PerfectShuffle, IsAPermutationOfAnySize) {
  for (const std::int64_t n : {4095, 4096, 4097, 5000, 16383, 16384, 16385, 65536, 65537}) {
    std::vector<bool> seen(static_cast<std::size_t>(n));
    for (const std::int64_t x : values(numbers(n).shuffle(), {.seed = 5, .threads = 1})) {
      EXPECT_FALSE(seen[static_cast<std::size_t>(x)]);
      seen[static_cast<std::size_t>(x)] = true;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), n);
  }
}

/// What stands at some positions of a large shuffle, and how neighbours follow each other.
TEST(PerfectShuffle, OfManyIsUniformInPositionAndNeighbours) {
  for (const std::int64_t n : {4097, 10000, 65537}) {
    constexpr std::int64_t kSeeds = 4000;
    constexpr std::int64_t kCells = 32;
    const Dataset head = numbers(n).shuffle().take(2).repeat(kSeeds);
    const Dataset tail = numbers(n).shuffle().skip(n - 2).repeat(kSeeds);
    for (const Dataset& dataset : {head, tail}) {
      std::vector<std::int64_t> place(kCells);
      std::vector<std::int64_t> distance(kCells);
      std::vector<std::int64_t> parity(4);
      std::int64_t before = 0;
      std::int64_t i = 0;
      for (const std::int64_t x : values(dataset, {.seed = 9, .threads = 1})) {
        if (i++ % 2 == 0) {
          ++place[static_cast<std::size_t>(x * kCells / n)];
          before = x;
        } else {
          ++distance[static_cast<std::size_t>((x - before + n) % n * kCells / n)];
          ++parity[static_cast<std::size_t>(2 * (x % 2) + before % 2)];
        }
      }
      EXPECT_EQ(i, 2 * kSeeds);
      EXPECT_LT(chi_square(place), chi_square_limit(kCells)) << n;
      EXPECT_LT(chi_square(distance), chi_square_limit(kCells)) << n;
      EXPECT_LT(chi_square(parity), chi_square_limit(4)) << n;
    }
  }
}

TEST(PerfectShuffle, KeepsTheIndexOfItsInput) {
  const Dataset shuffled = numbers(1000).shuffle({.seed = 4});
  const Order all = values(shuffled);
  EXPECT_EQ(values(shuffled.skip(990)), Order(all.begin() + 990, all.end()));
  Order third;
  for (std::size_t i = 1; i < all.size(); i += 3) third.push_back(all[i]);
  EXPECT_EQ(values(shuffled.shard(3, 1)), third);
  EXPECT_EQ(values(shuffled.select({5, 0})), (Order{all[5], all[0]}));
}

TEST(PerfectShuffle, NeedsAnIndex) {
  const auto refuses = [](const Dataset& input) {
    expect_error(ErrorCode::invalid_argument, "buffer", [&] { (void)input.shuffle(); });
  };
  refuses(stream({1, 2}));
  refuses(numbers(2).filter([](const Element&) { return true; }));
  refuses(numbers(2).repeat());
  refuses(numbers(2).batch(2).unbatch());
  (void)numbers(2).map([](Element element) { return element; }).shuffle();
}

TEST(Shuffle, RefusesANegativeBuffer) {
  expect_error(ErrorCode::invalid_argument, "-2",
               [] { (void)numbers(3).shuffle({.buffer = static_cast<std::uint64_t>(-2)}); });
}

TEST(Mixed, ShardsOfOneShuffle) {
  for (const std::uint64_t buffer : {0, 7}) {
    Order all;
    for (std::int64_t i = 0; i < 3; ++i) {
      const Order part = values(numbers(50).shuffle({.buffer = buffer}).shard(3, i), {.seed = 8});
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, iota(50));
  }
}

TEST(Shuffle, SaysWhatToDoBehindABatch) {
  const std::string in_front =
      "to shuffle before batching, put shuffle before batch (--shuffle before --batch)";
  const auto same = [](Element e) { return e; };
  for (const Dataset& batches :
       {numbers(8).batch(2), numbers(8).batch(2).prefetch(), numbers(8).batch(2).map(same)}) {
    expect_error(ErrorCode::invalid_argument, in_front, [&] { (void)batches.shuffle(); });
    EXPECT_NO_THROW((void)batches.shuffle({.buffer = 2}));
  }
  expect_error(ErrorCode::invalid_argument, "(--shuffle before --padded-batch)",
               [] { (void)numbers(8).padded_batch(2).shuffle(); });
  // In front of the batch there is no index either.
  expect_error(ErrorCode::invalid_argument, "batch has no index; give a buffer size", [] {
    (void)stream({1, 2, 3}).batch(2).shuffle();
  });
  expect_error(ErrorCode::invalid_argument, "give a buffer size", [] {
    (void)stream({1, 2, 3}).shuffle();
  });
}

}  // namespace
}  // namespace penstock
