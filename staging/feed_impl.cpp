#include "staging/feed_impl.h"

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

std::vector<BatchSource*> views_of(const std::vector<BatchSourcePtr>& sources) {
  std::vector<BatchSource*> views;
  for (const BatchSourcePtr& source : sources) views.push_back(source.get());
  return views;
}

constexpr Rank kFeederRank{-1, 1};  // before every stream

}  // namespace

Feed::Impl::Tower::Tower(Impl& of, int number, DevicePtr device, const Spec& batches,
                         std::int64_t rows)
    : feed(of),
      ledger(of.timeline_, number, of.now()),
      area(std::move(device), batches, rows, staging_options(of.options_)) {}

Feed::Impl::Impl(std::vector<BatchSourcePtr> sources, const Spec& batches, std::int64_t rows,
                 std::vector<DevicePtr> devices, FeedOptions options)
    : options_(std::move(options)),
      clock_(devices.at(0)->clock()),
      sources_(std::move(sources)),
      maker_(views_of(sources_), options_, static_cast<int>(devices.size()), rows) {
  looked_ns_ = now();
  for (DevicePtr& device : devices) {
    if (&device->clock() != &clock_)
      throw Error(ErrorCode::invalid_argument, "a feed's devices share one clock");
    towers_.push_back(std::make_unique<Tower>(*this, towers(), std::move(device), batches, rows));
  }
  for (const auto& tower : towers_) tower->area.state_->observe(tower.get());
  if (options_.in_turn) {
    threads_.push_back(clock_.start(kFeederRank, [this] { guarded([this] { feed_in_turn(); }); }));
    return;
  }
  threads_.push_back(clock_.start(kFeederRank, [this] { guarded([this] { lay_table(); }); }));
  for (int t = 0; t < towers(); ++t) {
    threads_.push_back(clock_.start(kFeederRank, [this, t] { guarded([this, t] { serve(t); }); }));
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
  fail(Error(ErrorCode::cancelled, "the feed was cancelled"));
}

void Feed::Impl::fail(const Error& error) noexcept {
  MutexLock alive(fail_mutex_);
  if (dying_) return;
  for (const BatchSourcePtr& source : sources_) source->cancel();
  for (const auto& tower : towers_) tower->area.fail(error);
  MutexLock lock(table_mutex_);
  closing_ = true;
  clock_.notify(table_changed_);
}

void Feed::Impl::guarded(const std::function<void()>& body) noexcept {
  try {
    body();
  } catch (...) {
    fail(status_from_current_exception().error());
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
    if (!batch) tower.ends.fetch_add(1, std::memory_order_acq_rel);
    return batch;
  } catch (const Error& error) {
    // Misuse and what passes leave the feed as it is.
    if (error.code() != ErrorCode::out_of_range && error.code() != ErrorCode::unavailable)
      tower.area.fail(error);
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

void Feed::Impl::make(Step& step) {
  const std::int64_t begin = now();
  maker_.next(step);
  timeline_.add(FeederTimeline::Doing::upstream, -1, begin, now());
  look_for_culprit();
}

// Once a second, and only if somebody had to wait: looking allocates.
void Feed::Impl::look_for_culprit() {
  constexpr std::int64_t kEvery = 1'000'000'000;
  if (now() - looked_ns_ < kEvery) return;
  looked_ns_ = now();
  bool asked = false;
  for (const auto& tower : towers_) asked = asked || tower->ledger.has_blame_to_give();
  if (!asked) return;
  Stats stats = sources_[0]->stats();
  std::string who;
  {
    MutexLock lock(culprit_mutex_);
    who = culprit(looked_at_, stats);
    looked_at_ = std::move(stats);
  }
  for (const auto& tower : towers_) tower->ledger.blame(who);
}

void Feed::Impl::feed_in_turn() {
  std::vector<StagingPermit> permits;
  Step step;
  for (std::uint64_t ends = 1;;) {
    // Room first, so that nothing is made before it is of use.
    for (int t = 0; t < towers(); ++t) permits.push_back(reserve(t));
    make(step);
    if (step.error || step.end) {
      permits.clear();
      if (step.last) last_end_.store(ends, std::memory_order_release);
      for (const auto& tower : towers_) {
        if (step.error) {
          tower->area.put_error(*step.error);
        } else {
          tower->area.put_end();
        }
      }
      if (step.last || step.error) return;
      ++ends;
      continue;
    }
    for (int t = 0; t < towers(); ++t) {
      const auto at = static_cast<std::size_t>(t);
      put(t, std::move(permits[at]), step.shares[at]);
    }
    permits.clear();
  }
}

void Feed::Impl::lay(Share share) {
  MutexLock lock(table_mutex_);
  while (table_.size() >= towers_.size() && !closing_) clock_.wait(table_mutex_, table_changed_);
  table_.push_back({std::move(share), false, {}});
  clock_.notify(table_changed_);
}

void Feed::Impl::lay_table() {
  Step step;
  for (std::uint64_t ends = 1;;) {
    make(step);
    if (!step.end && !step.error) {
      for (Share& share : step.shares) {
        if (!share.pieces.empty() || share.padded_rows > 0) lay(std::move(share));
      }
      continue;
    }
    if (step.last) last_end_.store(ends, std::memory_order_release);
    ++ends;
    // One for each tower, all at once: each takes one, and nobody goes on before all have.
    MutexLock lock(table_mutex_);
    ends_on_table_ = towers();
    ++rounds_of_ends_;
    for (int t = 0; t < towers(); ++t) table_.push_back({{}, true, step.error});
    clock_.notify(table_changed_);
    if (step.last || step.error) return;
    while (ends_on_table_ > 0 && !closing_) clock_.wait(table_mutex_, table_changed_);
    if (closing_) return;
  }
}

void Feed::Impl::serve(int number) {
  StagingArea& area = tower_at(number).area;
  for (std::uint64_t ends = 0; ends < last_end_.load(std::memory_order_acquire);) {
    StagingPermit permit = reserve(number);
    Dish dish;
    {
      MutexLock lock(table_mutex_);
      while (table_.empty() && !closing_) clock_.wait(table_mutex_, table_changed_);
      if (closing_) return;
      dish = table_.pop_front();
      ends_on_table_ -= dish.end ? 1 : 0;
      clock_.notify(table_changed_);
      const std::uint64_t round = rounds_of_ends_;
      while (dish.end && ends_on_table_ > 0 && rounds_of_ends_ == round && !closing_)
        clock_.wait(table_mutex_, table_changed_);
    }
    if (dish.error) {
      area.put_error(*dish.error);
      return;
    }
    if (dish.end) {
      ++ends;
      area.put_end();
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
    MutexLock lock(culprit_mutex_);
    who = culprit(looked_at_, stats.run);
  }
  for (const auto& tower : towers_) {
    stats.towers.push_back(tower->ledger.stats(who));
    stats.towers.back().device = tower->area.device().id().to_string();
  }
  stats.lost = maker_.lost();
  stats.wrapped = maker_.wrapped();
  return stats;
}

}  // namespace penstock
