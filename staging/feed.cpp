#include <penstock/feed.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <penstock/plan.h>

#include "pipeline/core/begin_run.h"
#include "pipeline/core/sizes.h"
#include "staging/checked_source.h"
#include "staging/feed_deal.h"
#include "staging/feed_impl.h"
#include "staging/feed_rules.h"

namespace penstock {
namespace {

void check_options(const FeedOptions& options, const std::vector<DevicePtr>& devices) {
  const std::size_t towers = devices.size();
  const auto refuse = [](const char* why) { throw Error(ErrorCode::invalid_argument, why); };
  if (towers == 0) refuse("a feed has at least one device");
  for (const DevicePtr& device : devices)
    if (&device->backend().time() != &devices[0]->backend().time())
      refuse("a feed's devices share one clock");
  if (!options.in_turn && options.end == EpochEnd::wrap)
    refuse("towers that are not served in turn can't wrap");
  if (!options.in_turn && options.mode != FeedMode::per_tower)
    refuse("only towers with a batch each can be served out of turn");
  if (!options.in_turn && options.run.exact_state)
    refuse("towers that are not served in turn have no exact state");
  const TowersHeld& held = options.towers_held;
  if (held.of == 0) return;
  if (held.first < 0 || held.of < 0 ||
      static_cast<std::size_t>(held.first) + towers > static_cast<std::size_t>(held.of))
    throw Error(ErrorCode::invalid_argument, std::to_string(towers) + " towers from " +
                                                 std::to_string(held.first) + " on, of " +
                                                 std::to_string(held.of));
  if (!options.in_turn)
    refuse(
        "towers of several processes must be served in turn: no process knows which is first "
        "elsewhere");
}

std::size_t towers_of(const FeedOptions& options, std::size_t devices) {
  return options.towers_held.of > 0 ? static_cast<std::size_t>(options.towers_held.of) : devices;
}

/// Returns the host bytes that a batch takes while it is held; 0: not known.
std::uint64_t bytes_of_batch(const Plan& plan) {
  if (plan.batches()) return plan.batches()->element.is_static() ? plan.batches()->slot_bytes : 0;
  std::uint64_t bytes = 0;
  for (const PlannedStage& stage : plan.stages()) {
    // Outputs of later stages may contain parts of its slots.
    if (stage.batches && stage.batches->in_place)
      bytes = saturating_sum(bytes, saturating_product(stage.uses, stage.batches->slot_bytes));
  }
  for (const ComponentSpec& component : plan.spec()) {
    const bool sized = component.shape.rank() > 0 && component.shape.drop_front().is_static();
    if (!sized || component.dtype == DType::bytes) continue;
    const auto values = static_cast<std::uint64_t>(component.shape.drop_front().volume());
    const std::uint64_t row = saturating_product(values, size_of(component.dtype));
    bytes = saturating_sum(bytes,
                           saturating_product(row, static_cast<std::uint64_t>(plan.rows()->most)));
  }
  return bytes;
}

/// Chooses the number of batches that are on the host, or on their way to a device, for one source.
/// The run gets as many slots as staging can hold, and fewer if memory is short. Returns the
/// numbers that were wanted. A batch takes `bytes`; 0: not known. `room` is the share of slots.
SlotsWanted choose_slots(FeedOptions& options, std::uint64_t bytes, std::uint64_t room,
                         std::int64_t held_by) {
  std::int64_t ahead = options.ahead < 0 ? options.slots - 1 : options.ahead;
  const SlotsWanted wanted{options.slots, static_cast<int>(ahead), options.ahead < 0};
  if (bytes > 0) {
    const auto affordable = static_cast<std::int64_t>(room / bytes);
    const auto need = [&] { return held_by * (options.slots + ahead) + 1; };
    while (ahead > 0 && need() > affordable) --ahead;
    while (options.slots > 1 && need() > affordable) --options.slots;
  }
  options.ahead = static_cast<int>(ahead);
  if (options.run.slots == 0)
    options.run.slots = static_cast<int>(held_by * (options.slots + ahead) + 2);
  return wanted;
}

/// Throws if the budget has no room for the batches of a step, which a feed holds together.
void check_step(const Plan& plan, std::int64_t batches) {
  if (!plan.batches() || !plan.batches()->in_place) return;
  const std::int64_t all = plan.stages().back().cardinality;
  if (all == kUnknown) return;  // the run will tell
  if (all >= 0) batches = std::min(batches, all);
  if (batches < 2 || plan.least_memory() > plan.memory_limit()) return;  // the run says so
  const std::uint64_t needed = saturating_sum(
      plan.least_memory(),
      saturating_product(static_cast<std::uint64_t>(batches - 1), plan.batches()->slot_bytes));
  if (needed <= plan.memory_limit()) return;
  throw Error(ErrorCode::resource_exhausted,
              "a step of the feed has " + std::to_string(batches) +
                  " batches, which need at least " + std::to_string(needed) +
                  " bytes, and the memory budget is " + std::to_string(plan.memory_limit()) +
                  "; raise it, or use FeedMode::split");
}

/// Divides the budget among the inputs of `all` towers, `here` of which make batches all the time.
/// Returns the share of each other input: enough for the slots that a step may hold, but at most an
/// equal share.
std::uint64_t divide_memory(FeedOptions& options, const Plan& plan, std::int64_t all,
                            std::int64_t here) {
  const std::uint64_t limit = plan.memory_limit();
  std::uint64_t elsewhere = limit / static_cast<std::uint64_t>(all);
  if (const std::uint64_t bytes = bytes_of_batch(plan); bytes > 0) {
    const std::int64_t ahead = options.ahead < 0 ? options.slots - 1 : options.ahead;
    const auto slots = static_cast<std::uint64_t>(options.slots + ahead + 2);
    elsewhere =
        std::min(elsewhere, saturating_sum(plan.least_memory(), saturating_product(slots, bytes)));
  }
  const auto others = static_cast<std::uint64_t>(all - here);
  options.run.memory_bytes = (limit - others * elsewhere) / static_cast<std::uint64_t>(here);
  return elsewhere;
}

/// The data that the sources read.
struct Inputs {
  std::vector<Dataset> datasets{};
  bool drop_remainder = false;  ///< of all of them together
  bool shards = false;          ///< these are shards of one dataset
};

Inputs shards_of(const Dataset& dataset, std::size_t towers) {
  const Plan plan = compile(dataset);
  static_cast<void>(feed_rules(plan, {}, 1));  // throws if the elements are not batches
  Inputs shards{.drop_remainder = plan.drops_remainder(), .shards = true};
  try {
    for (std::size_t t = 0; t < towers; ++t) {
      shards.datasets.push_back(
          plan.shard(static_cast<std::int64_t>(towers), static_cast<std::int64_t>(t)));
    }
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument,
                "FeedMode::sharded: " + error.cause() +
                    "; use FeedMode::per_tower, or give a dataset for each tower");
  }
  if (shards.drop_remainder && (plan.rows()->padded || !plan.rows()->divisible)) {
    throw Error(ErrorCode::invalid_argument,
                "FeedMode::sharded: which elements are the remainder that " +
                    plan.rows_stage().label +
                    " drops does not show in shards; use FeedMode::per_tower");
  }
  return shards;
}

using Parts = Feed::Impl::Parts;

std::vector<Plan> plans_of(const std::vector<Dataset>& datasets, const RunOptions& run) {
  std::vector<Plan> plans;
  for (const Dataset& dataset : datasets) plans.push_back(compile(dataset, run));
  return plans;
}

Parts prepare(const Inputs& inputs, std::vector<DevicePtr> devices, FeedOptions options,
              std::optional<std::string_view> saved = {}, bool checks = true) {
  const std::vector<Dataset>& datasets = inputs.datasets;
  check_options(options, devices);
  const auto towers = static_cast<std::int64_t>(towers_of(options, devices.size()));
  const bool sharded = options.mode == FeedMode::sharded;
  if (datasets.size() != (sharded ? static_cast<std::size_t>(towers) : 1)) {
    throw Error(ErrorCode::invalid_argument, std::to_string(datasets.size()) + " datasets for " +
                                                 std::to_string(towers) + " towers");
  }
  const std::vector<Plan> plans = plans_of(datasets, options.run);
  const Plan& plan = plans[0];
  for (std::size_t i = 1; i < plans.size(); ++i) {
    if (plans[i].rows() != plan.rows() || !(plans[i].spec() == plan.spec())) {
      throw Error(ErrorCode::invalid_argument,
                  "the towers' datasets make different batches: " + plan.spec().to_string() +
                      " and " + plans[i].spec().to_string());
    }
  }
  FeedRules rules = feed_rules(plan, options, towers);
  rules.steps.drop_remainder = inputs.drop_remainder && rules.steps.full_but_last;
  FeedState state;
  if (saved) {
    state = decode(
        *saved, {options.mode, options.end, options.in_turn, static_cast<int>(towers), rules.room});
    if (devices.size() < static_cast<std::size_t>(towers) &&
        std::ranges::any_of(state.events, FeedJournal::is_within))
      throw Error(ErrorCode::invalid_argument,
                  "when the state was saved, some towers had been given a step that others had "
                  "not: only a feed of all towers can resume it");
  }
  FeedDeal deal;
  if (options.towers_held.of > 0)
    deal = deal_feed(plans, options, rules.steps.rows, static_cast<int>(devices.size()),
                     saved ? &state : nullptr);
  const std::int64_t made_for =
      deal.sources.empty() ? towers : static_cast<std::int64_t>(devices.size());
  const std::uint64_t elsewhere = sharded ? divide_memory(options, plan, towers, made_for) : 0;
  const std::uint64_t budget = sharded ? options.run.memory_bytes : plan.memory_limit();
  const SlotsWanted wanted =
      choose_slots(options, bytes_of_batch(plan), BudgetShares(budget, 1).slots,
                   options.mode == FeedMode::per_tower ? made_for : 1);
  if (options.mode == FeedMode::per_tower) check_step(plan, made_for);
  RunOptions run = options.run;
  if (options.end == EpochEnd::wrap && run.epochs < UINT64_MAX) ++run.epochs;
  std::vector<BatchSourcePtr> sources;
  const auto returns = std::make_shared<TowersReturn>(devices[0]->backend().time());
  std::uint64_t check_bytes = 0;  // of each device
  for (const Dataset& dataset : datasets) {
    const std::size_t number = sources.size();
    const BatchShare* const share = deal.sources.empty() ? nullptr : &deal.sources[number];
    // The batches of a source that feeds one tower lie where its device reads best.
    const std::size_t here = number - static_cast<std::size_t>(options.towers_held.first);
    const DevicePtr& reads = devices[sharded && here < devices.size() ? here : 0];
    const bool divided = options.mode == FeedMode::split;
    const bool delivers = !sharded || here < devices.size();  // to a tower of this process
    CheckForFeed checked;
    if (checks && delivers && (share == nullptr || (!divided && share->count > 0)))
      checked = check_for_feed(plans[number], options, divided ? towers : 1, reads);
    const auto control = checked.check ? std::make_shared<RunControl>() : nullptr;
    const RunSetting setting{.share = share != nullptr ? std::optional(*share) : std::nullopt,
                             .holder = returns,
                             .observed = false,
                             .control = control};
    RunOptions of_source = run;
    if (!of_source.slot_allocator) of_source.slot_allocator = reads->pinned();
    if (inputs.shards) {
      of_source.workers.shards = towers;
      of_source.workers.shard = static_cast<std::int64_t>(number);
    }
    if (share != nullptr && share->count == 0) {  // it works only at ends of epochs
      of_source.threads = 1;
      of_source.memory_bytes = elsewhere;
    }
    sources.push_back(std::make_unique<IteratorSource>(
        saved ? resume_run(dataset, state.position.sources[number], of_source, setting)
              : begin_run(dataset, of_source, setting),
        run.on_error == OnError::skip || share != nullptr));
    if (!control) continue;
    check_bytes = std::max(check_bytes, checked.device_bytes);
    sources.back() =
        std::make_unique<CheckedSource>(std::move(sources.back()), control, std::move(checked));
  }
  options.device_memory -= std::min(options.device_memory, check_bytes);
  return {.sources = std::move(sources),
          .batches = datasets[0].spec(),
          .room = rules.room,
          .rules = rules.steps,
          .devices = std::move(devices),
          .options = std::move(options),
          .state = std::move(state),
          .wanted = wanted,
          .made_everywhere = std::move(deal.everywhere),
          .returns = returns};
}

Inputs inputs_of(const Dataset& dataset, FeedMode mode, std::size_t towers) {
  return mode == FeedMode::sharded && towers > 0 ? shards_of(dataset, towers) : Inputs{{dataset}};
}

std::unique_ptr<Feed::Impl> assemble(Parts parts) {
  return std::make_unique<Feed::Impl>(std::move(parts));
}

/// The pools of all inputs. If an input names a device several times, each time has its own pool.
class Pools {
 public:
  explicit Pools(const std::vector<Parts>& inputs) {
    for (const Parts& input : inputs) {
      const BatchLayout layout(input.batches, input.room, input.options.max_bytes);
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
    const auto read = inputs_of(input.dataset, input.options.mode,
                                towers_of(input.options, input.devices.size()));
    // A bounded pool has no room for checks of scans.
    parts.push_back(
        prepare(read, input.devices, input.options,
                input.state.empty() ? std::nullopt : std::optional<std::string_view>(input.state),
                device_memory == 0));
  }
  Pools pools(parts);
  pools.make(slots, device_memory);
  std::vector<Feed> feeds;
  for (Parts& each : parts) {
    each.pools = pools.of(each);
    feeds.emplace_back(assemble(std::move(each)));
  }
  return feeds;
}

Feed::Feed(const Dataset& dataset, std::vector<DevicePtr> devices, FeedOptions options)
    : impl_(assemble(prepare(inputs_of(dataset, options.mode, towers_of(options, devices.size())),
                             devices, options))) {}

Feed::Feed(const std::vector<Dataset>& datasets, std::vector<DevicePtr> devices,
           FeedOptions options)
    : impl_(assemble(prepare({datasets}, std::move(devices), std::move(options)))) {}

Feed Feed::restore(std::string_view state, const Dataset& dataset, std::vector<DevicePtr> devices,
                   FeedOptions options) {
  const Inputs inputs = inputs_of(dataset, options.mode, towers_of(options, devices.size()));
  return Feed(assemble(prepare(inputs, std::move(devices), std::move(options), state)));
}

Feed Feed::restore(std::string_view state, const std::vector<Dataset>& datasets,
                   std::vector<DevicePtr> devices, FeedOptions options) {
  return Feed(assemble(prepare({datasets}, std::move(devices), std::move(options), state)));
}

std::string made_everywhere(const Dataset& batches, const RunOptions& run) {
  return why_everywhere(compile(batches, run), run.on_error);
}

Feed::Feed(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Feed::Feed(Feed&&) noexcept = default;
Feed& Feed::operator=(Feed&&) noexcept = default;
Feed::~Feed() = default;

Feed::Impl& Feed::impl() const {
  return *not_moved(impl_, "feed");
}

std::optional<StagedBatch> Feed::next(int tower, const std::function<void()>& waiting) {
  return impl().next(tower, waiting);
}
bool Feed::ended(int tower) const noexcept {
  return !impl_ || impl_->ended(tower);
}
std::uint64_t Feed::epochs(int tower) const {
  return impl().epochs(tower);
}
std::uint64_t Feed::taken(int tower) const {
  return impl().taken(tower);
}
int Feed::towers() const noexcept {
  return impl_ ? impl_->towers() : 0;
}
Device& Feed::device(int tower) const {
  return impl().device(tower);
}
FeedStats Feed::stats() const {
  return impl().stats();
}
std::string Feed::save() const {
  return impl().save();
}
void Feed::cancel() noexcept {
  if (impl_) impl_->cancel();
}

}  // namespace penstock
