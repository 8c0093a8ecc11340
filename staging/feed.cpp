#include <penstock/feed.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <penstock/plan.h>

#include "staging/feed_impl.h"

namespace penstock {
namespace {

/// How a dataset is run, which must end with batches.
Plan plan_of(const Dataset& dataset, const RunOptions& options) {
  Plan plan = compile(dataset, options);
  if (!plan.batches()) {
    throw Error(ErrorCode::invalid_argument,
                "a feed takes batches, and the dataset ends with " + plan.batch_stage().name);
  }
  return plan;
}

void check_options(const FeedOptions& options, std::size_t towers) {
  const auto refuse = [](const char* why) { throw Error(ErrorCode::invalid_argument, why); };
  if (towers == 0) refuse("a feed has at least one device");
  if (!options.in_turn && options.end == EpochEnd::wrap)
    refuse("towers that are not served in turn can't wrap");
  if (!options.in_turn && options.mode != FeedMode::per_tower)
    refuse("only towers with a batch each can be served out of turn");
}

/// Batches that are on the host or on their way for one source, and what that means for its run: as
/// many slots as staging can hold, and fewer of those if memory is short. What was wanted.
SlotsWanted choose_slots(FeedOptions& options, const Plan& plan, std::int64_t held_by) {
  std::int64_t ahead = options.ahead < 0 ? options.slots - 1 : options.ahead;
  const SlotsWanted wanted{options.slots, static_cast<int>(ahead), options.ahead < 0};
  if (plan.batches()->element.is_static()) {
    const auto affordable =
        static_cast<std::int64_t>(plan.memory_limit() / 8 * 7 / plan.batches()->slot_bytes);
    const auto need = [&] { return held_by * (options.slots + ahead) + 1; };
    while (ahead > 0 && need() > affordable) --ahead;
    while (options.slots > 1 && need() > affordable) --options.slots;
  }
  options.ahead = static_cast<int>(ahead);
  if (options.run.slots == 0)
    options.run.slots = static_cast<int>(held_by * (options.slots + ahead) + 2);
  return wanted;
}

/// What the sources read.
struct Inputs {
  std::vector<Dataset> datasets{};
  bool drop_remainder = false;  ///< of all of them together
};

Inputs shards_of(const Dataset& dataset, std::size_t towers) {
  const Plan plan = plan_of(dataset, {});
  Inputs shards{.drop_remainder = plan.batches()->drop_remainder};
  for (std::size_t t = 0; t < towers; ++t) {
    const std::optional<Dataset> shard = plan.batches_of(
        plan.elements().shard(static_cast<std::int64_t>(towers), static_cast<std::int64_t>(t)));
    if (!shard) {
      throw Error(ErrorCode::invalid_argument, "the input of " + plan.batch_stage().name +
                                                   " can't be sharded here; give a dataset for "
                                                   "each tower");
    }
    shards.datasets.push_back(*shard);
  }
  return shards;
}

/// What a feed is made of.
struct Parts {
  std::vector<BatchSourcePtr> sources{};
  Spec batches{};
  std::int64_t rows = 0;  ///< of one tower's batch
  std::vector<DevicePtr> devices{};
  FeedOptions options{};
  FeedState state{};
  bool drop_remainder = false;
  SlotsWanted wanted{};
};

std::unique_ptr<Feed::Impl> assemble(Parts parts,
                                     std::vector<std::shared_ptr<StagingPool>> pools = {}) {
  return std::make_unique<Feed::Impl>(std::move(parts.sources), parts.batches, parts.rows,
                                      std::move(parts.devices), std::move(parts.options),
                                      std::move(parts.state), std::move(pools),
                                      parts.drop_remainder, parts.wanted);
}

Parts prepare(const Inputs& inputs, std::vector<DevicePtr> devices, FeedOptions options,
              std::optional<std::string_view> saved = {}) {
  const std::vector<Dataset>& datasets = inputs.datasets;
  check_options(options, devices.size());
  const auto towers = static_cast<std::int64_t>(devices.size());
  const bool sharded = options.mode == FeedMode::sharded;
  if (datasets.size() != (sharded ? devices.size() : 1)) {
    throw Error(ErrorCode::invalid_argument, std::to_string(datasets.size()) + " datasets for " +
                                                 std::to_string(towers) + " towers");
  }
  const std::int64_t whole = plan_of(datasets[0], options.run).batches()->rows;
  std::int64_t rows = whole;  // of one tower's batch
  if (options.mode == FeedMode::split) {
    if (rows % towers != 0) {
      throw Error(ErrorCode::invalid_argument, "a batch of " + std::to_string(rows) +
                                                   " can't be divided among " +
                                                   std::to_string(towers) + " towers");
    }
    rows /= towers;
  }
  if (sharded) {
    const std::uint64_t all = plan_of(datasets[0], options.run).memory_limit();
    options.run.memory_bytes = all / static_cast<std::uint64_t>(towers);
  }
  const SlotsWanted wanted = choose_slots(options, plan_of(datasets[0], options.run),
                                          options.mode == FeedMode::per_tower ? towers : 1);
  if (!options.run.slot_allocator) options.run.slot_allocator = devices[0]->pinned();
  RunOptions run = options.run;
  if (options.end == EpochEnd::wrap) ++run.epochs;
  FeedState state;
  if (saved) {
    state = decode(*saved,
                   {options.mode, options.end, options.in_turn, static_cast<int>(towers), rows});
  }
  std::vector<BatchSourcePtr> sources;
  for (const Dataset& dataset : datasets) {
    if (plan_of(dataset, options.run).batches()->rows != whole ||
        !(dataset.spec() == datasets[0].spec())) {
      throw Error(ErrorCode::invalid_argument,
                  "the towers' datasets make different batches: " + datasets[0].spec().to_string() +
                      " and " + dataset.spec().to_string());
    }
    sources.push_back(std::make_unique<IteratorSource>(
        saved ? dataset.restore(state.position.sources[sources.size()], run)
              : dataset.iterate(run)));
  }
  return {std::move(sources), datasets[0].spec(),    rows,  std::move(devices), std::move(options),
          std::move(state),   inputs.drop_remainder, wanted};
}

Inputs inputs_of(const Dataset& dataset, FeedMode mode, std::size_t towers) {
  return mode == FeedMode::sharded && towers > 0 ? shards_of(dataset, towers) : Inputs{{dataset}};
}

/// One pool for each device, and for each time that one input names it.
class Pools {
 public:
  explicit Pools(const std::vector<Parts>& inputs) {
    for (const Parts& input : inputs) {
      const BatchLayout layout(input.batches, input.rows, input.options.max_bytes);
      for (std::size_t t = 0; t < input.devices.size(); ++t) {
        Pool& pool = pools_[key(input, t)];
        pool.device = input.devices[t];
        pool.options.bytes = std::max(pool.options.bytes, layout.bytes());
        pool.options.packed = pool.options.packed || !layout.fixed();
        pool.options.members = pool.users++ + 1;
      }
    }
  }

  void make(int slots, std::uint64_t device_memory) {
    for (auto& [ignored, pool] : pools_) {
      if (slots < pool.users) {
        throw Error(ErrorCode::invalid_argument,
                    std::to_string(slots) + " slots for " + std::to_string(pool.users) + " inputs");
      }
      pool.options.slots = slots;
      pool.options.memory_bytes = device_memory;
      pool.made = std::make_shared<StagingPool>(pool.device, pool.options);
    }
  }

  std::vector<std::shared_ptr<StagingPool>> of(const Parts& input) const {
    std::vector<std::shared_ptr<StagingPool>> result;
    for (std::size_t t = 0; t < input.devices.size(); ++t)
      result.push_back(pools_.at(key(input, t)).made);
    return result;
  }

 private:
  using Key = std::pair<const Device*, std::ptrdiff_t>;
  struct Pool {
    DevicePtr device;
    int users = 0;
    StagingPool::Options options{};
    std::shared_ptr<StagingPool> made;
  };
  static Key key(const Parts& input, std::size_t tower) {
    const auto end = input.devices.begin() + static_cast<std::ptrdiff_t>(tower);
    return {end->get(), std::count(input.devices.begin(), end, *end)};
  }
  std::map<Key, Pool> pools_;
};

}  // namespace

std::vector<Feed> share_slots(const std::vector<FeedInput>& inputs, int slots,
                              std::uint64_t device_memory) {
  std::vector<Parts> parts;
  for (const FeedInput& input : inputs) {
    const auto read = inputs_of(input.dataset, input.options.mode, input.devices.size());
    parts.push_back(
        prepare(read, input.devices, input.options,
                input.state.empty() ? std::nullopt : std::optional<std::string_view>(input.state)));
  }
  Pools pools(parts);
  pools.make(slots, device_memory);
  std::vector<Feed> feeds;
  for (Parts& each : parts) {
    auto own = pools.of(each);
    feeds.emplace_back(assemble(std::move(each), std::move(own)));
  }
  return feeds;
}

Feed::Feed(const Dataset& dataset, std::vector<DevicePtr> devices, FeedOptions options)
    : impl_(assemble(prepare(inputs_of(dataset, options.mode, devices.size()), devices, options))) {
}

Feed::Feed(const std::vector<Dataset>& datasets, std::vector<DevicePtr> devices,
           FeedOptions options)
    : impl_(assemble(prepare({datasets}, std::move(devices), std::move(options)))) {}

Feed Feed::restore(std::string_view state, const Dataset& dataset, std::vector<DevicePtr> devices,
                   FeedOptions options) {
  const Inputs inputs = inputs_of(dataset, options.mode, devices.size());
  return Feed(assemble(prepare(inputs, std::move(devices), std::move(options), state)));
}

Feed Feed::restore(std::string_view state, const std::vector<Dataset>& datasets,
                   std::vector<DevicePtr> devices, FeedOptions options) {
  return Feed(assemble(prepare({datasets}, std::move(devices), std::move(options), state)));
}

Feed::Feed(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Feed::Feed(Feed&&) noexcept = default;
Feed& Feed::operator=(Feed&&) noexcept = default;
Feed::~Feed() = default;

std::optional<StagedBatch> Feed::next(int tower) {
  return impl_->next(tower);
}
bool Feed::ended(int tower) const noexcept {
  return impl_->ended(tower);
}
std::uint64_t Feed::epochs(int tower) const noexcept {
  return impl_->epochs(tower);
}
std::uint64_t Feed::taken(int tower) const noexcept {
  return impl_->taken(tower);
}
int Feed::towers() const noexcept {
  return impl_->towers();
}
Device& Feed::device(int tower) const {
  return impl_->device(tower);
}
FeedStats Feed::stats() const {
  return impl_->stats();
}
std::string Feed::save() const {
  return impl_->save();
}
void Feed::cancel() noexcept {
  impl_->cancel();
}

}  // namespace penstock
