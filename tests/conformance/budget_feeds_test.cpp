// Feeds of random graphs in random budgets, whose towers hold batches for random times: towers get
// what a run gives that makes one element at a time, up to the same error.
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/plan.h>
#include <penstock/rng.h>

#include "staging/feed_impl.h"
#include "staging/feed_rules.h"
#include "staging/host/host_device.h"
#include "tests/conformance/random_graphs.h"
#include "tests/staging/batches.h"

namespace penstock {
namespace budget_feeds_test {

using test::graphs::Outcome;
using test::graphs::RandomGraph;

/// The batches of a run in real time, for a feed in simulated time. Simulated time passes while it
/// waits for one, so that towers return batches.
class PatientSource final : public BatchSource {
 public:
  PatientSource(Iterator run, TimeSource& clock) : run_(std::move(run)), clock_(clock) {}
  Next next() override {
    std::future<Next> next = std::async(std::launch::async, [this] { return run_.next(); });
    while (next.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
      clock_.sleep_until(clock_.now() + 100'000);
    return next.get();
  }
  bool next_epoch() override { return run_.next_epoch(); }
  Stats stats() const override { return run_.stats(); }
  std::string save() const override { return run_.save(); }
  void cancel() noexcept override { run_.cancel(); }

 private:
  Iterator run_;
  TimeSource& clock_;
};

struct Plan {
  Dataset batches;
  RunOptions run{};
  int towers = 1;
  int slots = 1;
  bool unified = true;
  std::uint64_t seed = 0;  ///< of the times
};

std::unique_ptr<Feed::Impl> make_feed(const Plan& plan, const std::vector<DevicePtr>& devices,
                                      VirtualClock& clock) {
  FeedOptions options;
  options.mode = plan.towers > 1 ? FeedMode::split : FeedMode::per_tower;
  options.end = EpochEnd::stop;
  options.slots = plan.slots;
  options.run = plan.run;
  options.run.slot_allocator = devices[0]->pinned();
  const penstock::Plan compiled = compile(plan.batches, options.run);
  const FeedRules rules = feed_rules(compiled, options, plan.towers);
  const auto returns = std::make_shared<TowersReturn>(clock);
  Feed::Impl::Parts parts{.batches = plan.batches.spec(),
                          .room = rules.room,
                          .rules = rules.steps,
                          .devices = devices,
                          .options = options,
                          .returns = returns};
  parts.sources.push_back(std::make_unique<PatientSource>(
      begin_run(plan.batches, options.run, {.holder = returns, .observed = false}), clock));
  return std::make_unique<Feed::Impl>(std::move(parts));
}

/// Returns what each tower gets, up to its first error.
std::vector<Outcome> feed(const Plan& plan) {
  VirtualClock clock;
  std::vector<DevicePtr> devices;
  for (int t = 0; t < plan.towers; ++t)
    devices.push_back(HostDevice::make(
        {.index = t, .clock = &clock, .unified = plan.unified, .bytes_per_s = 1e9}));
  Feed feed(make_feed(plan, devices, clock));
  std::vector<Outcome> outcomes(static_cast<std::size_t>(plan.towers));
  std::vector<Actor> actors;
  for (int t = 0; t < plan.towers; ++t) {
    actors.push_back(clock.start({t, 1000}, [&, t] {
      Outcome& outcome = outcomes[static_cast<std::size_t>(t)];
      Rng rng(plan.seed, static_cast<std::uint64_t>(t), 0);
      const Stream stream(devices[static_cast<std::size_t>(t)], "tower");
      try {
        while (std::optional<StagedBatch> batch = feed.next(t)) {
          batch->wait(stream);
          std::string& text = outcome.elements.emplace_back();
          for (const std::int64_t x : test::read<std::int64_t>(stream, (*batch)[0]))
            text += (text.empty() ? "" : " ") + std::to_string(x);
          stream.view().busy(static_cast<std::int64_t>(rng.below(1'000'000)));
          clock.sleep_until(clock.now() + static_cast<std::int64_t>(rng.below(1'000'000)));
          batch->release(stream);
        }
      } catch (const Error& error) {
        outcome.error = error.what();
      }
    }));
  }
  actors.clear();
  return outcomes;
}

/// Returns what is wrong with a feed, if anything.
std::string look_at(std::uint64_t number) {
  Rng rng(23, number, 0);
  Rng more(23, number, 1);
  RandomGraph graph = test::graphs::random_graph(rng, &more);
  const auto has = [&](const char* stage) { return graph.text.find(stage) != std::string::npos; };
  if (has("shuffle") && graph.options.on_error == OnError::skip) return {};
  const int towers = 1 + static_cast<int>(rng.below(3));
  if (graph.dataset.spec()[0].shape.rank() > 0) graph.dataset = graph.dataset.unbatch();
  Plan plan{.batches = graph.dataset.batch(towers * static_cast<std::int64_t>(1 + rng.below(4)),
                                           {.drop_remainder = true}),
            .run = graph.options,
            .towers = towers,
            .slots = 1 + static_cast<int>(rng.below(3)),
            .unified = rng.coin(0.5),
            .seed = number};
  plan.run.memory_bytes = 1U << 30;
  Iterator roomy = begin_run(plan.batches, plan.run, {.alone = true});
  const Outcome whole = test::graphs::rest_of(roomy);
  if (!whole.error.empty()) return {};  // a stage refuses an element
  const auto most = static_cast<double>(roomy.stats().memory.peak_bytes);
  plan.run.memory_bytes = std::max(compile(plan.batches, {}).least_memory(),
                                   static_cast<std::uint64_t>(most * rng.uniform(0.3, 1.3)));
  const Outcome alone = test::graphs::outcome_of(plan.batches, plan.run, true);
  plan.run.threads = 1 + static_cast<int>(rng.below(4));
  const std::vector<Outcome> given = feed(plan);
  Outcome together = given[0];
  for (std::size_t t = 1; t < given.size(); ++t) {
    if (given[t].elements.size() != together.elements.size() || given[t].error != together.error)
      return "feed " + std::to_string(number) + ": towers get different steps";
    for (std::size_t i = 0; i < together.elements.size(); ++i)
      together.elements[i] += " " + given[t].elements[i];
  }
  if (together.elements == alone.elements &&
      (together.error == alone.error ||
       (has("shuffle") &&
        test::graphs::lacks_memory(together.error) == test::graphs::lacks_memory(alone.error))))
    return {};
  return "feed " + std::to_string(number) + ": " + graph.text + "\nin " +
         std::to_string(plan.run.memory_bytes) + " bytes, " + std::to_string(towers) + " towers, " +
         std::to_string(plan.run.threads) +
         " threads\none at a time: " + testing::PrintToString(alone) +
         "\nfed: " + testing::PrintToString(together);
}

TEST(Budgets, OfFeedsWhoseTowersHoldBatches) {
  test::graphs::look_at_graphs(300, look_at);
}

}  // namespace budget_feeds_test
}  // namespace penstock
