#include "staging/feed_impl.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "staging/batch_spans.h"

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
                                    std::vector<PullTimes>& pulls, int first) {
  const auto count = static_cast<int>(sources.size());
  int number = 0;
  for (BatchSourcePtr& source : sources) {
    const int line = (number++ - first % count + count) % count;  // 0: this process's first tower
    source = std::make_unique<StampedSource>(std::move(source), line, clock, pulls);
  }
  return sources;
}

std::vector<BatchSource*> views_of(const std::vector<BatchSourcePtr>& sources) {
  std::vector<BatchSource*> views;
  for (const BatchSourcePtr& source : sources) views.push_back(source.get());
  return views;
}

constexpr Rank kFeederRank{-1, 1};  // before all streams

}  // namespace

Feed::Impl::Tower::Tower(Impl& of, int which, DevicePtr device, const Spec& batches,
                         std::shared_ptr<StagingPool> pool)
    : feed(of),
      number(which),
      name("tower " + std::to_string(of.first_ + which) + " " + device->id().to_string()),
      ledger(of.timeline_, number, of.now()),
      area(std::make_shared<StagingState>(std::move(device), batches, of.room_,
                                          staging_options(of.options_), std::move(pool))) {}

void Feed::Impl::Tower::finished(const BatchTimes& times) noexcept {
  ledger.finished(times);
  if (feed.gains_) feed.gains_->finished(number, times);
  note_spans(name, times);
}

Feed::Impl::Returning::Returning(TowersReturn& returns,
                                 const std::vector<std::unique_ptr<Tower>>& towers)
    : returns_(returns) {
  std::vector<StagingState*> areas;
  for (const auto& tower : towers) areas.push_back(tower->area.state_.get());
  returns_.set(std::move(areas));
}

Feed::Impl::Impl(Parts parts)
    : options_(std::move(parts.options)),
      room_(parts.room),
      wanted_(parts.wanted),
      made_everywhere_(std::move(parts.made_everywhere)),
      all_(options_.towers_held.of > 0 ? options_.towers_held.of
                                       : static_cast<int>(parts.devices.size())),
      first_(options_.towers_held.of > 0 ? options_.towers_held.first : 0),
      clock_(parts.devices.at(0)->backend().time()),
      sources_(stamped(std::move(parts.sources), clock_, pulls_, first_)),
      returns_(parts.returns ? std::move(parts.returns) : std::make_shared<TowersReturn>(clock_)),
      maker_(views_of(sources_), options_, all_, parts.rules),
      journal_(all_, options_.run.exact_state),
      queue_(clock_, static_cast<int>(parts.devices.size())),
      turns_(options_.watchdog_s),
      last_end_(options_.run.epochs) {
  FeedState& state = parts.state;
  maker_.resume_at(state.position);
  looked_ns_ = now();
  for (DevicePtr& device : parts.devices) {
    auto pool = parts.pools.empty() ? nullptr : std::move(parts.pools[towers_.size()]);
    towers_.push_back(std::make_unique<Tower>(*this, towers(), std::move(device), parts.batches,
                                              std::move(pool)));
  }
  returning_.emplace(*returns_, towers_);
  if (options_.in_turn) make_gains();
  for (const auto& tower : towers_) tower->ends = state.position.epoch;
  for (const FeedJournal::Event& event : state.events) {
    for (const FeedJournal::Part& part : event.parts) {
      if (!part.given || !is_here(part.tower)) continue;
      Tower& tower = named(part.tower);
      ++tower.taken;
      if (event.end) ++tower.ends;
    }
  }
  // Sources may be past the last epoch that is wanted now. Then they are not used.
  bool over = true;
  for (int t = 0; t < towers(); ++t) over = over && ended(first_ + t);
  start_journal(std::move(state), over);
  // From here on, reapers may call this object: set `dying_` before an exception leaves.
  for (const auto& tower : towers_) tower->area.state_->observe(tower.get());
  observed_ = observe_run([this] { return stats(); });
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
                        .lines = static_cast<int>(sources_.size()),
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
  threads_.push_back(clock_.start(kFeederRank, [this] { guarded([this] { fill_queue(); }); }));
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
  observed_.reset();
  cancel();
  threads_.clear();
  MutexLock lock(fail_mutex_);
  dying_ = true;  // reapers may still try to tell the other towers
}

void Feed::Impl::cancel() noexcept {
  if (cancelled_.exchange(true)) return;
  fail(cancelled_error_);
}

void Feed::Impl::fail(const Status& error) noexcept {
  MutexLock alive(fail_mutex_);
  if (dying_) return;
  given_up_.store(true);
  // The order matters: a cancelled source has no next epoch, which the feeder takes for the end. No
  // tower may receive that end.
  for (const auto& tower : towers_) tower->area.state_->fail(error);
  for (const BatchSourcePtr& source : sources_) source->cancel();
  queue_.close();
}

void Feed::Impl::guarded(const std::function<void()>& body) noexcept {
  try {
    body();
  } catch (...) {
    fail(status_from_current_exception());
  }
}

StagingPermit Feed::Impl::reserve(int tower) {
  const std::int64_t begin = now();
  if (options_.in_turn) turns_.set({tower, begin});
  StagingPermit permit = tower_at(tower).area.reserve();
  if (options_.in_turn) turns_.set({});
  timeline_.add(FeederTimeline::Doing::room, tower, begin, now());
  return permit;
}

void Feed::Impl::put(int tower, StagingPermit permit, Share& share) {
  const std::int64_t begin = now();
  if (options_.in_turn) turns_.set({tower, begin});
  tower_at(tower).area.state_->put(std::move(permit), share.pieces, share.padded_rows);
  if (options_.in_turn) turns_.set({});
  timeline_.add(FeederTimeline::Doing::room, tower, begin, now());
}

std::uint64_t Feed::Impl::make(Step& step) {
  const std::int64_t begin = now();
  pulls_.clear();
  const bool exact = options_.run.exact_state && !cant_save_;
  const bool save =
      !exact && !cant_save_ && maker_.has_position() && journal_.wants_position(begin);
  std::string position = save ? maker_.position().encode() : "";
  const std::uint64_t event = journal_.begin(begin);
  const auto known = journal_.known(event);
  const bool failed = known && known->error;
  maker_.next(step, failed ? known->pulls : StepMaker::kNone);
  check(step);
  if (failed && !step.error) step.error = left_out_;
  if (known && !failed && step.error) {
    // Towers already have parts of this step, so no other step may take its place.
    throw Error(step.error->code(),
                "the feed can't resume: this element was good when the state was saved: " +
                    step.error->cause(),
                step.error->where(), step.error->original());
  }
  if (step.error) journal_.set_error(event, step.pulls);
  if (was_refused(step)) journal_.stop(event + 1);
  if (step.stopped) {
    journal_.stop(event);  // a resumed run tries again, from before the error
  } else if (save) {
    journal_.set_position(std::move(position), begin);
  } else if (exact && maker_.has_position()) {
    journal_.set_position_behind(maker_.position().encode());
  }
  if (step.end) journal_.set_end(event);
  timeline_.add(FeederTimeline::Doing::upstream, -1, begin, now());
  for (std::size_t i = 0; gains_ && i < pulls_.size(); ++i) gains_->pulled(pulls_[i]);
  look();
  return event;
}

void Feed::Impl::check(Step& step) const {
  if (step.error || step.end || step.stopped) return;
  try {
    auto share = step.shares.begin() + first_;
    for (const auto& tower : towers_) {
      tower->area.state_->layout().check(share->pieces, share->padded_rows);
      ++share;
    }
  } catch (const Error& error) {
    if (towers() < all_) throw;
    step.error = error;
  }
}

std::string Feed::Impl::save() const {
  StateWriter writer;
  if (cant_save_) throw Error(*cant_save_);
  if (!journal_.save(writer) && towers() < all_)
    throw Error(ErrorCode::invalid_argument, "some towers were given a step that others were not");
  return encode(shape(), writer.bytes());
}

// Often at first, so that short runs have figures, too; then once a second.
void Feed::Impl::look() {
  constexpr std::int64_t kEvery = 1'000'000'000;
  if (!std::has_single_bit(++made_) && now() - looked_ns_ < kEvery) return;
  looked_ns_ = now();
  Stats stats = own_source().stats();
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
  bool at_end = false;
  while (!maker_.over()) {
    // Waits for room first, so that no step is made before it can be used.
    for (int t = 0; t < towers(); ++t) permits.push_back(reserve(t));
    if (gains_) gains_->roomed(now());
    const std::uint64_t event = make(step);
    if (step.last) last_end_.store(maker_.ends(), std::memory_order_release);
    assign_elsewhere(event, step);
    for (int t = 0; t < towers(); ++t) {
      const auto at = static_cast<std::size_t>(t);
      const int number = first_ + t;
      const auto part = static_cast<std::size_t>(number);
      StagingState& area = *tower_at(t).area.state_;
      if (step.stopped) {
        area.put_stop();
      } else if (!journal_.part(event, part).given) {
        journal_.assign(event, part, number);
        if (step.error) {
          area.put_error(Status(*step.error), std::move(permits[at]));
        } else if (!step.end) {
          if (gains_) gains_->give(t);
          put(t, std::move(permits[at]), step.shares[part]);
        } else {  // any number of epochs may end without a step
          area.put_end(at_end ? std::optional(std::move(permits[at])) : std::nullopt);
        }
      }
    }
    at_end = step.end;
    if (gains_) gains_->close();
    permits.clear();
  }
}

// Puts one entry for each tower.
void Feed::Impl::tell_all(const Step& step, std::uint64_t event) {
  const Status error = step.error ? Status(*step.error) : Status();
  std::vector<Queued> told;
  for (int t = 0; t < towers(); ++t) {
    const auto at = static_cast<std::size_t>(t);
    if (step.stopped || !journal_.part(event, at).given)
      told.push_back({{}, event, at, t, step.end, step.stopped, error});
  }
  queue_.push_for_all(std::move(told));
}

void Feed::Impl::fill_queue() {
  Step step;
  while (!maker_.over()) {
    const std::uint64_t event = make(step);
    if (step.end || step.error || step.stopped) {
      if (step.last) last_end_.store(maker_.ends(), std::memory_order_release);
      tell_all(step, event);
      continue;
    }
    for (std::size_t part = 0; part < step.shares.size(); ++part) {
      Share& share = step.shares[part];
      const FeedJournal::Part known = journal_.part(event, part);
      if (known.given) continue;
      if (share.pieces.empty() && share.padded_rows == 0) {
        journal_.drop(event, part);
      } else {
        returns_->left();
        queue_.push({std::move(share), event, part, known.tower});
      }
    }
  }
}

void Feed::Impl::serve(int number) {
  Tower& tower = tower_at(number);
  StagingState& area = *tower.area.state_;
  std::uint64_t ends = tower.ends.load(std::memory_order_relaxed);
  while (ends < last_end_.load(std::memory_order_acquire)) {
    StagingPermit permit = reserve(number);
    Queued queued = queue_.take(number);
    if (queued.stop) return area.put_stop();
    journal_.assign(queued.event, queued.part, number);
    if (!queued.error.ok()) {
      area.put_error(queued.error, std::move(permit));
    } else if (queued.end) {
      ++ends;
      area.put_end();
    } else {
      put(number, std::move(permit), queued.share);
      returns_->arrived();
    }
  }
}

FeedStats Feed::Impl::stats() const {
  FeedStats stats;
  stats.run = own_source().stats();
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
  stats.slots = wanted_.slots;
  stats.made_everywhere = made_everywhere_;
  const int taken_at_once = options_.mode == FeedMode::per_tower ? towers() : 1;
  stats.host_slots_wanted = taken_at_once * (wanted_.slots + wanted_.ahead) + 1;
  return stats;
}

}  // namespace penstock
