#include "staging/feed_impl.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace penstock {
namespace {

StagingOptions staging_options(const FeedOptions& options) {
  return {.slots = options.slots,
          .ahead = options.ahead,
          .memory_bytes = options.device_memory,
          .max_bytes = options.max_bytes,
          .watchdog_s = options.watchdog_s};
}

std::vector<BatchSourcePtr> stamped(std::vector<BatchSourcePtr> sources, const TimeSource& clock,
                                    std::vector<PullTimes>& pulls) {
  int line = 0;
  for (BatchSourcePtr& source : sources)
    source = std::make_unique<StampedSource>(std::move(source), line++, clock, pulls);
  return sources;
}

std::vector<BatchSource*> views_of(const std::vector<BatchSourcePtr>& sources) {
  std::vector<BatchSource*> views;
  for (const BatchSourcePtr& source : sources) views.push_back(source.get());
  return views;
}

constexpr Rank kFeederRank{-1, 1};  // before every stream

}  // namespace

Feed::Impl::Tower::Tower(Impl& of, int which, DevicePtr device, const Spec& batches,
                         std::shared_ptr<StagingPool> pool)
    : feed(of),
      number(which),
      ledger(of.timeline_, number, of.now()),
      area(std::make_shared<StagingState>(std::move(device), batches, of.rows_,
                                          staging_options(of.options_), std::move(pool))) {}

void Feed::Impl::Tower::finished(const BatchTimes& times) noexcept {
  ledger.finished(times);
  if (feed.gains_) feed.gains_->finished(number, times);
}

Feed::Impl::Impl(std::vector<BatchSourcePtr> sources, const Spec& batches, std::int64_t rows,
                 std::vector<DevicePtr> devices, FeedOptions options, FeedState state,
                 std::vector<std::shared_ptr<StagingPool>> pools, bool drop_remainder,
                 SlotsWanted wanted)
    : options_(std::move(options)),
      rows_(rows),
      wanted_(wanted),
      clock_(devices.at(0)->backend().time()),
      sources_(stamped(std::move(sources), clock_, pulls_)),
      maker_(views_of(sources_), options_, static_cast<int>(devices.size()), rows, drop_remainder),
      journal_(static_cast<int>(devices.size())),
      last_end_(options_.run.epochs) {
  maker_.go_on_at(state.position);
  looked_ns_ = now();
  for (DevicePtr& device : devices) {
    if (&device->backend().time() != &clock_)
      throw Error(ErrorCode::invalid_argument, "a feed's devices share one clock");
    std::shared_ptr<StagingPool> pool = pools.empty() ? nullptr : pools[towers_.size()];
    towers_.push_back(
        std::make_unique<Tower>(*this, towers(), std::move(device), batches, std::move(pool)));
  }
  if (options_.in_turn) make_gains();
  for (const auto& tower : towers_) tower->ends = state.position.epoch;
  for (const FeedJournal::Event& event : state.events) {
    for (const FeedJournal::Part& part : event.parts) {
      if (!part.given || part.tower == FeedJournal::kNobody) continue;
      Tower& tower = tower_at(part.tower);
      ++tower.taken;
      if (event.end) ++tower.ends;
    }
  }
  // Sources may stand behind the last epoch that there is now: then they are left alone.
  bool over = true;
  for (int t = 0; t < towers(); ++t) over = over && ended(t);
  start_journal(std::move(state), over);
  // From here on reapers may call: what throws must first say that this is dying.
  for (const auto& tower : towers_) tower->area.state_->observe(tower.get());
  if (over) return;
  try {
    start_threads();
  } catch (...) {
    cancel();
    threads_.clear();
    MutexLock lock(fail_mutex_);
    dying_ = true;
    throw;
  }
}

void Feed::Impl::make_gains() {
  Replay::Bounds bounds{.towers = towers(),
                        .slots = INT32_MAX,
                        .flights = INT32_MAX,
                        .in_place = towers_[0]->area.device().backend().unified(),
                        .divided = options_.mode == FeedMode::split,
                        .start = now()};
  for (const auto& tower : towers_) {
    bounds.slots = std::min(bounds.slots, tower->area.state_->slots());
    bounds.flights = std::min(bounds.flights, tower->area.state_->flights());
  }
  bounds.slots_wanted = std::max(bounds.slots, wanted_.slots);
  bounds.flights_wanted = std::max(bounds.flights, wanted_.slots + wanted_.ahead);
  bounds.flights_a_slot = options_.ahead < 0 || wanted_.ahead_follows ? 2 : 1;
  gains_ = std::make_unique<GainLedger>(bounds);
}

void Feed::Impl::start_threads() {
  threads_.reserve(towers_.size() + 1);
  if (options_.in_turn) {
    threads_.push_back(clock_.start(kFeederRank, [this] { guarded([this] { feed_in_turn(); }); }));
    return;
  }
  threads_.push_back(clock_.start(kFeederRank, [this] { guarded([this] { lay_table(); }); }));
  for (int t = 0; t < towers(); ++t) {
    threads_.push_back(clock_.start(kFeederRank, [this, t] { guarded([this, t] { serve(t); }); }));
  }
}

void Feed::Impl::start_journal(FeedState state, bool over) {
  try {
    journal_.start((over ? state.position : maker_.position()).encode(), std::move(state.events),
                   state.counts);
  } catch (const Error& error) {
    cant_save_ = error;  // some graphs have no position
    maker_.never_save();
  }
}

Feed::Impl::~Impl() {
  cancel();
  threads_.clear();
  MutexLock lock(fail_mutex_);
  dying_ = true;  // reapers may still want to tell the other towers
}

void Feed::Impl::cancel() noexcept {
  if (cancelled_.exchange(true)) return;
  fail(cancelled_error_);
}

void Feed::Impl::fail(const Status& error) noexcept {
  MutexLock alive(fail_mutex_);
  if (dying_) return;
  // In this order: a source that was cancelled has no next epoch, which the feeder takes for the
  // end, and no tower may be given that.
  for (const auto& tower : towers_) tower->area.state_->fail(error);
  for (const BatchSourcePtr& source : sources_) source->cancel();
  MutexLock lock(table_mutex_);
  closing_ = true;
  clock_.notify(table_changed_);
}

void Feed::Impl::guarded(const std::function<void()>& body) noexcept {
  try {
    body();
  } catch (...) {
    fail(status_from_current_exception());
  }
}

Feed::Impl::Tower& Feed::Impl::tower_at(int tower) const {
  if (tower >= 0 && tower < towers()) return *towers_[static_cast<std::size_t>(tower)];
  throw Error(ErrorCode::out_of_range,
              "tower " + std::to_string(tower) + " of " + std::to_string(towers()));
}

std::optional<StagedBatch> Feed::Impl::next(int number) {
  Tower& tower = tower_at(number);
  if (ended(number)) return std::nullopt;
  try {
    std::optional<StagedBatch> batch = tower.area.get();
    journal_.given(number, batch ? batch->valid_rows() : -1);
    ++tower.taken;
    if (!batch) tower.ends.fetch_add(1, std::memory_order_acq_rel);
    return batch;
  } catch (...) {
    const Status error = status_from_current_exception();
    const ErrorCode code = error.error().code();
    // Misuse and what passes leave the feed as it is.
    if (code != ErrorCode::out_of_range && code != ErrorCode::unavailable)
      tower.area.state_->fail(error);
    throw;
  }
}

bool Feed::Impl::ended(int tower) const noexcept {
  return towers_[static_cast<std::size_t>(tower)]->ends.load(std::memory_order_acquire) >=
         last_end_.load(std::memory_order_acquire);
}

StagingPermit Feed::Impl::reserve(int tower) {
  const std::int64_t begin = now();
  StagingPermit permit = tower_at(tower).area.reserve();
  timeline_.add(FeederTimeline::Doing::room, tower, begin, now());
  return permit;
}

void Feed::Impl::put(int tower, StagingPermit permit, Share& share) {
  const std::int64_t begin = now();
  tower_at(tower).area.put(std::move(permit), share.pieces, share.padded_rows);
  timeline_.add(FeederTimeline::Doing::room, tower, begin, now());
}

std::uint64_t Feed::Impl::make(Step& step) {
  const std::int64_t begin = now();
  pulls_.clear();
  const bool save = !cant_save_ && journal_.wants_position(begin);
  const std::uint64_t event =
      journal_.begin(save ? maker_.position().encode() : std::string(), begin);
  maker_.next(step);
  if (step.end) journal_.set_end(event);
  timeline_.add(FeederTimeline::Doing::upstream, -1, begin, now());
  for (std::size_t i = 0; gains_ && i < pulls_.size(); ++i) gains_->pulled(pulls_[i]);
  look();
  return event;
}

std::string Feed::Impl::save() const {
  StateWriter writer;
  if (cant_save_) throw Error(*cant_save_);
  journal_.save(writer);
  return encode(shape(), writer.bytes());
}

// Often at first, so that short runs are known too, and then once a second.
void Feed::Impl::look() {
  constexpr std::int64_t kEvery = 1'000'000'000;
  const bool early = std::has_single_bit(++made_);
  if (!early && now() - looked_ns_ < kEvery) return;
  looked_ns_ = now();
  Stats stats = sources_[0]->stats();
  std::vector<InputPart> parts;
  {
    MutexLock lock(look_mutex_);
    const auto batches = static_cast<double>(stats.batches - looked_at_.batches);
    parts = input_parts(looked_at_, stats, gains_ ? batches * gains_->seconds_per_batch() : 0);
    looked_at_ = std::move(stats);
  }
  if (gains_) gains_->set_parts(parts);
  for (const auto& tower : towers_) tower->ledger.blame(worst(parts).cause);
}

void Feed::Impl::feed_in_turn() {
  std::vector<StagingPermit> permits;
  Step step;
  while (!maker_.over()) {
    // Room first, so that nothing is made before it is of use.
    for (int t = 0; t < towers(); ++t) permits.push_back(reserve(t));
    if (gains_) gains_->roomed(now());
    const std::uint64_t event = make(step);
    if (step.last) last_end_.store(maker_.ends(), std::memory_order_release);
    for (int t = 0; t < towers(); ++t) {
      const auto at = static_cast<std::size_t>(t);
      StagingArea& area = tower_at(t).area;
      if (step.error) {
        area.put_error(*step.error);
      } else if (!journal_.part(event, at).given) {
        journal_.assign(event, at, t);
        if (step.end) {
          area.put_end();
        } else {
          if (gains_) gains_->give(t);
          put(t, std::move(permits[at]), step.shares[at]);
        }
      }
    }
    if (gains_) gains_->close();
    permits.clear();
    if (step.error) return;
  }
}

void Feed::Impl::lay(Dish dish) {
  MutexLock lock(table_mutex_);
  while (table_.size() >= towers_.size() && !closing_)
    wait_on(clock_, table_mutex_, table_changed_);
  table_.push_back(std::move(dish));
  clock_.notify(table_changed_);
}

// One for each tower, all at once; nothing of the next epoch before all are taken.
void Feed::Impl::lay_ends(const Step& step, std::uint64_t event) {
  MutexLock lock(table_mutex_);
  for (int t = 0; t < towers(); ++t) {
    const auto at = static_cast<std::size_t>(t);
    if (step.error || !journal_.part(event, at).given)
      table_.push_back({{}, event, at, t, true, step.error});
  }
  clock_.notify(table_changed_);
  while (!table_.empty() && !closing_) wait_on(clock_, table_mutex_, table_changed_);
}

void Feed::Impl::lay_table() {
  Step step;
  while (!maker_.over()) {
    const std::uint64_t event = make(step);
    if (step.end || step.error) {
      if (step.last) last_end_.store(maker_.ends(), std::memory_order_release);
      lay_ends(step, event);
      continue;
    }
    for (std::size_t part = 0; part < step.shares.size(); ++part) {
      Share& share = step.shares[part];
      const FeedJournal::Part known = journal_.part(event, part);
      if (known.given) continue;
      if (share.pieces.empty() && share.padded_rows == 0) {
        journal_.drop(event, part);
      } else {
        lay({std::move(share), event, part, known.tower});
      }
    }
  }
}

Feed::Impl::Dish Feed::Impl::take_dish(int tower) {
  const auto may_take = [tower](const Dish& dish) {
    return dish.tower == tower || dish.tower == FeedJournal::kNobody;
  };
  MutexLock lock(table_mutex_);
  while (!closing_) {
    const auto found = std::find_if(table_.begin(), table_.end(), may_take);
    if (found != table_.end()) {
      Dish dish = std::move(*found);
      table_.erase(found);
      clock_.notify(table_changed_);
      return dish;
    }
    wait_on(clock_, table_mutex_, table_changed_);
  }
  throw Error(ErrorCode::cancelled, "the feed is closed");
}

void Feed::Impl::serve(int number) {
  Tower& tower = tower_at(number);
  std::uint64_t ends = tower.ends.load(std::memory_order_relaxed);
  while (ends < last_end_.load(std::memory_order_acquire)) {
    StagingPermit permit = reserve(number);
    Dish dish = take_dish(number);
    if (dish.error) {
      tower.area.put_error(*dish.error);
      return;
    }
    journal_.assign(dish.event, dish.part, number);
    if (dish.end) {
      ++ends;
      tower.area.put_end();
    } else {
      put(number, std::move(permit), dish.share);
    }
  }
}

FeedStats Feed::Impl::stats() const {
  FeedStats stats;
  stats.run = sources_[0]->stats();
  std::string who;
  {
    MutexLock lock(look_mutex_);
    who = worst(input_parts(looked_at_, stats.run)).cause;
  }
  std::vector<GainLedger::Gains> half;
  for (const auto& tower : towers_) {
    stats.towers.push_back(tower->ledger.stats(who));
    stats.towers.back().device = tower->area.device().id().to_string();
    if (gains_) stats.towers.back().gains = gains_->of(tower->number);
    half.push_back(gains_ ? gains_->half_of(tower->number) : GainLedger::Gains());
  }
  stats.verdict = verdict_of(stats.towers, half);
  const FeedJournal::Counts counts = journal_.counts();
  stats.batches = counts.batches;
  stats.elements = counts.elements;
  stats.lost = maker_.lost();
  stats.wrapped = maker_.wrapped();
  return stats;
}

}  // namespace penstock
