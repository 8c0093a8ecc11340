// Gradients of towers that are somebody else's: what they add up to, and who is refused.
#include <penstock/towers/parameter_exchange.h>

#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/time_limit.h"
#include "tests/towers/linked_peers.h"
#include "towers/tree_sum.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using penstock::test::thrown_by;
using penstock::test::TimeLimit;

const std::vector<std::int64_t> kSizes{7, 5000, 1, 64};
constexpr int kSteps = 3;

/// Gradient of the step on a tower; tower 3 has none of parameter 0, and nobody one of 2 in step 1.
bool has(std::size_t parameter, int number, int step) {
  return !(parameter == 0 && number == 3) && !(parameter == 2 && step == 1);
}
std::int64_t rows_of(int number, int step) {
  return number == 1 && step == 1 ? 0 : 3 + number;
}
template <typename T>
T value_of(int number, int step, std::size_t i) {
  return static_cast<T>(0.1) * static_cast<T>(number + 1) +
         static_cast<T>(1.7) * static_cast<T>(step) +
         static_cast<T>(0.013) * static_cast<T>(i % 977);
}

/// The towers of one process, each with memory of its own: the host's, or a device's.
template <typename T>
class Towers {
 public:
  Towers(int first, int count, bool on_device, ParameterExchangeOptions options) : first_(first) {
    options.timeout_s = 30;
    std::vector<OwnTower> towers;
    for (int t = 0; t < count; ++t) {
      OwnTower& tower = towers.emplace_back();
      if (on_device) {
        devices_.push_back(device({DeviceKind::host, t}));
        streams_.emplace_back(devices_.back(), "own");
        tower.stream = streams_.back().view();
      }
      for (std::size_t p = 0; p < kSizes.size(); ++p) {
        const auto values = static_cast<std::size_t>(kSizes[p]);
        if (!on_device) memory_.emplace_back(values);
        void* gradient = on_device ? devices_.back()->allocate(values * sizeof(T))
                                   : static_cast<void*>(memory_.back().data());
        tower.parameters.push_back({.name = "p" + std::to_string(p),
                                    .dtype = sizeof(T) == 4 ? DType::f32 : DType::f64,
                                    .shape = {kSizes[p]},
                                    .gradient = gradient});
      }
      parameters_.push_back(tower.parameters);
    }
    exchange.emplace(std::move(towers), options);
  }
  Towers(const Towers&) = delete;
  Towers& operator=(const Towers&) = delete;
  ~Towers() {
    exchange.reset();
    for (std::size_t t = 0; t < streams_.size(); ++t) {
      streams_[t].view().synchronize();
      for (const OwnParameter& parameter : parameters_[t])
        devices_[t]->deallocate(static_cast<std::byte*>(parameter.gradient),
                                static_cast<std::size_t>(parameter.shape.volume()) * sizeof(T));
    }
  }

  /// A backward pass.
  void pass(int tower, int step) {
    const int number = first_ + tower;
    exchange->begin(tower, rows_of(number, step));
    for (std::size_t p = kSizes.size(); p-- > 0;) {
      if (!has(p, number, step)) continue;
      std::vector<T> made;
      for (std::size_t i = 0; i < static_cast<std::size_t>(kSizes[p]); ++i)
        made.push_back(value_of<T>(number, step, i));
      copy(tower, parameters_[static_cast<std::size_t>(tower)][p].gradient, made.data(),
           made.size());
      exchange->ready(tower, p);
    }
    exchange->push(tower);
  }
  /// The gradients behind it.
  std::vector<T> wait(int tower) {
    exchange->wait(tower);
    std::vector<T> all;
    for (std::size_t p = 0; p < kSizes.size(); ++p) {
      if (!exchange->has_gradient(p)) continue;
      std::vector<T> values(static_cast<std::size_t>(kSizes[p]));
      copy(tower, values.data(), parameters_[static_cast<std::size_t>(tower)][p].gradient,
           values.size());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  std::optional<ParameterExchange> exchange;

 private:
  void copy(int tower, void* to, const void* from, std::size_t count) {
    if (streams_.empty()) {
      std::memcpy(to, from, count * sizeof(T));
      return;
    }
    const StreamView stream = streams_[static_cast<std::size_t>(tower)];
    stream.copy({to, from, count * sizeof(T)});
    stream.synchronize();
  }

  const int first_;
  std::vector<DevicePtr> devices_;
  std::vector<Stream> streams_;
  std::vector<std::vector<T>> memory_;
  std::vector<std::vector<OwnParameter>> parameters_;
};

struct Run {
  int processes = 1;
  int threads = 4;  ///< of all processes: each has its share of four towers
  bool on_device = false;
  bool any_order = false;
  std::size_t bucket_bytes = 30'000;
};

/// What each of four towers has behind each step.
template <typename T>
std::vector<std::vector<T>> gradients_of(const Run& run) {
  constexpr int kTowers = 4;
  const int here = kTowers / run.processes;
  const int threads = std::max(1, run.threads / run.processes);
  test::Link gradients(run.processes), between(run.processes);
  std::vector<std::vector<T>> all(kTowers);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < run.processes; ++rank)
    ranks.emplace_back([&, rank] {
      test::LinkedPeers peers(rank, gradients, between, run.any_order);
      Towers<T> towers(
          rank * here, here, run.on_device,
          {.bucket_bytes = run.bucket_bytes, .peers = run.processes > 1 ? &peers : nullptr});
      std::vector<std::jthread> workers;
      for (int w = 0; w < threads; ++w)
        workers.emplace_back([&, w] {
          const auto error = thrown_by([&] {
            const int mine = here / threads;
            for (int step = 0; step < kSteps; ++step) {
              for (int t = w * mine; t < (w + 1) * mine; ++t) towers.pass(t, step);
              for (int t = w * mine; t < (w + 1) * mine; ++t)
                for (const T value : towers.wait(t))
                  all[static_cast<std::size_t>(rank * here + t)].push_back(value);
            }
          });
          EXPECT_FALSE(error) << error->what();
          if (error) towers.exchange->fail(*error);
        });
    });
  ranks.clear();
  return all;
}

/// The same by the rule alone.
template <typename T>
std::vector<T> expected() {
  std::vector<T> all;
  for (int step = 0; step < kSteps; ++step)
    for (std::size_t p = 0; p < kSizes.size(); ++p) {
      double rows = 0;
      for (int n = 0; n < 4; ++n)
        if (has(p, n, step)) rows += static_cast<double>(rows_of(n, step));
      if (rows == 0) continue;
      std::vector<std::vector<T>> parts;
      for (int n = 0; n < 4; ++n) {
        const double share = has(p, n, step) ? static_cast<double>(rows_of(n, step)) / rows : 0;
        std::vector<T>& part = parts.emplace_back();
        for (std::size_t i = 0; i < static_cast<std::size_t>(kSizes[p]); ++i)
          part.push_back(share == 0 ? 0 : value_of<T>(n, step, i) * static_cast<T>(share));
      }
      std::vector<T*> pointers;
      for (std::vector<T>& part : parts) pointers.push_back(part.data());
      sum_by_tree<T>(pointers, 0, parts[0].size());
      all.insert(all.end(), parts[0].begin(), parts[0].end());
    }
  return all;
}

class Exchanges : public testing::TestWithParam<Run> {};

TEST_P(Exchanges, GivesEveryTowerTheCombinationByTheRule) {
  const TimeLimit limit(100);
  for (const std::vector<float>& of_tower : gradients_of<float>(GetParam()))
    EXPECT_EQ(of_tower, expected<float>());
  for (const std::vector<double>& of_tower : gradients_of<double>(GetParam()))
    EXPECT_EQ(of_tower, expected<double>());
}

INSTANTIATE_TEST_SUITE_P(
    Runs, Exchanges,
    testing::Values(Run{}, Run{.bucket_bytes = 0}, Run{.threads = 2}, Run{.threads = 1},
                    Run{.on_device = true}, Run{.threads = 1, .on_device = true},
                    Run{.processes = 2}, Run{.processes = 4}, Run{.processes = 2, .threads = 2},
                    Run{.processes = 2, .any_order = true},  // these peers add up by the rule
                    Run{.processes = 2, .on_device = true, .bucket_bytes = 0}));

TEST(ParameterExchange, SharesTheFirstTowersValues) {
  const TimeLimit limit(60);
  constexpr int kProcesses = 2;
  test::Link gradients(kProcesses), between(kProcesses);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < kProcesses; ++rank)
    ranks.emplace_back([&, rank] {
      test::LinkedPeers peers(rank, gradients, between, false);
      const auto first = static_cast<double>(10 * rank);
      std::vector<double> a{first + 1, 2}, b{first + 3, 4}, gradient(2);
      const auto tower = [&](std::vector<double>& value) {
        return OwnTower{{{"w", DType::f64, {2}, value.data(), gradient.data()}}, {}};
      };
      ParameterExchange exchange({tower(a), tower(b)}, {.timeout_s = 30, .peers = &peers});
      exchange.share_values();
      EXPECT_EQ(a, (std::vector<double>{1, 2})) << rank;
      EXPECT_EQ(b, a) << rank;
    });
}

TEST(ParameterExchange, RefusesTowersThatDiffer) {
  float memory[4] = {};
  const auto one = [&](const std::string& name, DType dtype, const Shape& shape, void* gradient) {
    return OwnTower{{{name, dtype, shape, nullptr, gradient}}, {}};
  };
  const OwnTower good = one("w", DType::f32, {2}, memory);
  struct Case {
    std::vector<OwnTower> towers;
    const char* text;
  };
  const std::vector<Case> cases{
      {{}, "there is no tower"},
      {{good, {}}, "tower 1 has 0 parameters, tower 0 has 1"},
      {{good, one("v", DType::f32, {2}, memory)}, "tower 1 has v, f32 [2], where tower 0 has w"},
      {{good, one("w", DType::f32, {3}, memory)}, "tower 1 has w, f32 [3], where tower 0 has w"},
      {{good, one("w", DType::f64, {2}, memory)}, "tower 1 has w, f64 [2], where tower 0 has w"},
      {{one("w", DType::i64, {2}, memory)}, "parameter w is i64 [2]; f32 and f64 can be added up"},
      {{one("w", DType::f32, {-1}, memory)}, "parameter w has no definite shape"},
      {{one("w", DType::f32, {2}, nullptr)}, "parameter w has no gradient on tower 0"}};
  for (const Case& row : cases)
    expect_error(ErrorCode::invalid_argument, row.text, [&] { ParameterExchange x(row.towers); });

  ParameterExchange exchange({good});
  const auto refused = [&](const char* text, const auto& act) {
    expect_error(ErrorCode::invalid_argument, text, act);
  };
  refused("parameter w has no value to share", [&] { exchange.share_values(); });
  refused("a gradient of tower 0 outside of a step", [&] { exchange.ready(0, 0); });
  refused("tower 0 ends a step that it did not begin", [&] { exchange.push(0); });
  exchange.begin(0, 1);
  refused("tower 0 begins a step within another", [&] { exchange.begin(0, 1); });
  exchange.ready(0, 0);
  refused("the gradient of w was told to be final before", [&] { exchange.ready(0, 0); });
  exchange.push(0);
  exchange.wait(0);

  test::Link gradients(2), between(2);
  test::LinkedPeers peers(0, gradients, between, false);
  refused("3 towers in each process can't be added up in order", [&] {
    ParameterExchange x({good, good, good}, {.peers = &peers});
  });
}

TEST(ParameterExchange, NamesARankWithOtherParameters) {
  const TimeLimit limit(60);
  test::Link gradients(2), between(2);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      test::LinkedPeers peers(rank, gradients, between, false);
      float memory[3] = {};
      const OwnTower tower{{{"w", DType::f32, {2 + rank}, nullptr, memory}}, {}};
      expect_error(ErrorCode::invalid_argument, "rank 1 has other parameters",
                   [&] { ParameterExchange x({tower}, {.peers = &peers}); });
    });
}

TEST(ParameterExchange, NamesATowersStreamThatHasEnded) {
  const TimeLimit limit(60);
  const DevicePtr host = device({DeviceKind::host, 0});
  std::vector<Stream> streams;
  std::vector<OwnTower> towers;
  float gradients[2] = {};  // host devices use the host's memory
  for (float& gradient : gradients) {
    streams.emplace_back(host, "own");
    towers.push_back({{{"w", DType::f32, {}, nullptr, &gradient}}, streams.back().view()});
  }
  ParameterExchange exchange(towers);
  exchange.begin(0, 1);
  streams.clear();
  expect_error(ErrorCode::invalid_argument, "host:0: the stream \"own\" has ended",
               [&] { exchange.ready(0, 0); });
}

TEST(ParameterExchange, EndsAllWaitingForATowerThatDoesNotCome) {
  const TimeLimit limit(60);
  float a = 0, b = 0;
  const OwnTower first{{{"w", DType::f32, {}, nullptr, &a}}, {}};
  const OwnTower second{{{"w", DType::f32, {}, nullptr, &b}}, {}};
  ParameterExchange late({first, second}, {.timeout_s = 0.2});
  late.begin(0, 1);
  late.ready(0, 0);
  late.push(0);
  expect_error(ErrorCode::no_progress, "tower 1 has not come", [&] { late.wait(0); });
  expect_error(ErrorCode::no_progress, "tower 1 has not come", [&] { late.begin(1, 1); });

  ParameterExchange failed({first, second});
  failed.begin(0, 1);
  failed.push(0);
  std::jthread other([&] { failed.fail(Error(ErrorCode::unavailable, "tower 1 broke")); });
  expect_error(ErrorCode::unavailable, "tower 1 broke", [&] { failed.wait(0); });
}

}  // namespace
}  // namespace penstock::towers
