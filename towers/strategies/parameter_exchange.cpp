#include <penstock/towers/parameter_exchange.h>

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <utility>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/report.h>
#include <penstock/towers/peers.h>

#include "towers/strategies/own_sum.h"

namespace penstock::towers {

class ParameterExchange::Impl {
 public:
  Impl(std::vector<OwnTower> towers, const ParameterExchangeOptions& options)
      : timeout_s_(options.timeout_s),
        peers_(options.peers),
        sum_(std::move(towers), options),
        buckets_(sum_.buckets()),
        towers_(sum_.towers()) {
    for (const OwnBucket& bucket : buckets_) in_bucket_.push_back(bucket.last - bucket.first);
    for (Tower& tower : towers_) tower.ready.resize(sum_.parameters().size());
    reached_.assign(buckets_.size(), std::vector<char>(towers_.size()));
    found_.assign(sum_.parameters().size(), 0);
    has_gradient_.assign(sum_.parameters().size(), 0);
    if (buckets_.empty()) return;
    thread_ = start_thread("the exchange of gradients",
                           [this](const std::stop_token& stop) { add_up_all(stop); });
  }

  void share_values() { sum_.share_values(); }

  void begin(int tower, std::int64_t rows) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!error_.ok()) throw Error(error_.error());
    Tower& me = of(tower);
    if (me.open || me.steps != me.waited)
      refuse_exchange("tower " + std::to_string(tower) + " begins a step within another");
    me.left = in_bucket_;
    me.ready.assign(me.ready.size(), 0);
    me.rows = rows;
    me.open = true;
  }

  void ready(int tower, std::size_t parameter) EXCLUDES(mutex_) {
    Tower& me = of(tower);
    if (!me.open)
      refuse_exchange("a gradient of tower " + std::to_string(tower) + " outside of a step");
    if (std::exchange(me.ready.at(parameter), char{1}) != 0)
      refuse_exchange("the gradient of " + sum_.parameters()[parameter].name +
                      " was told to be final before");
    // Buckets are numbered from the last parameter to the first.
    const auto bucket = static_cast<std::size_t>(
        std::ranges::partition_point(
            buckets_, [&](const OwnBucket& other) { return other.first > parameter; }) -
        buckets_.begin());
    if (--me.left[bucket] == 0) reach(tower, bucket);
  }

  void push(int tower) EXCLUDES(mutex_) {
    Tower& me = of(tower);
    if (!me.open)
      refuse_exchange("tower " + std::to_string(tower) + " ends a step that it did not begin");
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      if (me.left[b] > 0) reach(tower, b);
    const MutexLock lock(mutex_);
    me.open = false;
    ++me.steps;
    if (steps_ < me.steps && ++pushed_ == towers_.size()) all_pushed_ = Clock::now();
  }

  void wait(int tower) EXCLUDES(mutex_) {
    Tower& me = of(tower);
    {
      MutexLock lock(mutex_);
      const auto limit = std::chrono::duration<double>(timeout_s_);
      auto until = Clock::now() + limit;
      while (steps_ < me.steps && !buckets_.empty() && error_.ok()) {
        if (Clock::now() < until) {
          done_.wait_until(mutex_, until);
          continue;
        }
        until = Clock::now() + limit;
        const Status error = missing();
        if (error.ok()) continue;  // the sum handles its own errors
        lock.unlock();
        fail(error);
        lock.lock();
      }
      if (!error_.ok()) throw Error(error_.error());
      me.waited = me.steps;
    }
    sum_.follow(tower);
  }

  bool has_gradient(std::size_t parameter) const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return has_gradient_.at(parameter) != 0;
  }

  void fail(const Status& error) noexcept EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (error_.ok()) error_ = error;
      done_.notify_all();
      reached_changed_.notify_all();
    }
    if (peers_ != nullptr) peers_->fail(error);
  }

  StrategyStats stats() const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    StrategyStats stats;
    stats.exchange_s = std::chrono::duration<double>(exchanging_).count();
    stats.exposed_s = std::chrono::duration<double>(exposed_).count();
    return stats;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Tower {
    // The exchange's thread reads `ready` and `rows` once the tower has reached the bucket.
    std::vector<char> ready{};
    // For each bucket, the number of parameters that are not ready.
    std::vector<std::size_t> left{};
    std::int64_t rows = 0;
    bool open = false;
    std::uint64_t steps = 0, waited = 0;
  };

  Tower& of(int tower) { return towers_.at(static_cast<std::size_t>(tower)); }

  void reach(int tower, std::size_t bucket) EXCLUDES(mutex_) {
    Tower& me = of(tower);
    me.left[bucket] = 0;
    sum_.reached(tower, bucket);
    const MutexLock lock(mutex_);
    reached_[bucket][static_cast<std::size_t>(tower)] = 1;
    reached_changed_.notify_one();
  }

  void add_up_all(const std::stop_token& stop) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    for (;;) {
      while (error_.ok() && !reached_by_all() && !stop.stop_requested())
        reached_changed_.wait(mutex_, stop);
      if (!error_.ok() || !reached_by_all()) return;
      const std::size_t now = next_;
      lock.unlock();
      const Clock::time_point begin = Clock::now();
      try {
        add_up(now);
      } catch (...) {
        return fail(status_from_current_exception());
      }
      const Clock::time_point end = Clock::now();
      lock.lock();
      exchanging_ += end - begin;
      if (pushed_ == towers_.size() && all_pushed_ < end)
        exposed_ += end - std::max(begin, all_pushed_);
      set_report_exposed(std::chrono::duration<double>(exposed_).count());
      reached_[now].assign(towers_.size(), 0);
      next_ = now + 1 == buckets_.size() ? 0 : now + 1;
      if (next_ > 0) continue;
      pushed_ = 0;
      ++steps_;
      has_gradient_ = found_;
      done_.notify_all();
    }
  }

  bool reached_by_all() const REQUIRES(mutex_) {
    return std::ranges::all_of(reached_[next_], [](char reached) { return reached != 0; });
  }

  void add_up(std::size_t bucket) {
    const auto [first, last] = buckets_[bucket];
    std::vector<std::int64_t> rows;
    for (std::size_t p = first; p < last; ++p)
      for (const Tower& tower : towers_) rows.push_back(tower.ready[p] != 0 ? tower.rows : 0);
    const std::vector<char> found = sum_.add_up(bucket, rows);
    std::ranges::copy(found, found_.begin() + static_cast<std::ptrdiff_t>(first));
  }

  /// Returns an error that names the towers that keep the others waiting; success if the sum itself
  /// is not finished.
  Status missing() const REQUIRES(mutex_) {
    std::string names;
    for (std::size_t t = 0; t < towers_.size(); ++t)
      if (reached_[next_][t] == 0) names += (names.empty() ? "" : ", ") + std::to_string(t);
    if (names.empty()) return {};
    return Status(ErrorCode::no_progress, "tower " + names + " has not come to the exchange in " +
                                              std::to_string(timeout_s_) + " s");
  }

  const double timeout_s_;
  Peers* const peers_;
  OwnSum sum_;
  const std::vector<OwnBucket>& buckets_;
  std::vector<std::size_t> in_bucket_;  // parameters in each bucket
  std::vector<Tower> towers_;           // each used by its tower
  // `has_gradient_` of the current step; used by the exchange's thread.
  std::vector<char> found_;

  mutable Mutex mutex_;
  StoppableCondVar reached_changed_;
  CondVar done_;
  std::vector<std::vector<char>> reached_ GUARDED_BY(mutex_);  // for each bucket and tower
  std::vector<char> has_gradient_ GUARDED_BY(mutex_);
  std::size_t next_ GUARDED_BY(mutex_) = 0;     // the bucket to be added up
  std::uint64_t steps_ GUARDED_BY(mutex_) = 0;  // steps of which all buckets were added up
  std::size_t pushed_ GUARDED_BY(mutex_) = 0;   // towers whose pass of this step has ended
  Clock::time_point all_pushed_ GUARDED_BY(mutex_){};
  Clock::duration exchanging_ GUARDED_BY(mutex_){0};
  Clock::duration exposed_ GUARDED_BY(mutex_){0};
  Status error_ GUARDED_BY(mutex_);

  Thread thread_;
};

ParameterExchange::ParameterExchange(std::vector<OwnTower> towers,
                                     const ParameterExchangeOptions& options)
    : impl_(std::make_unique<Impl>(std::move(towers), options)) {}
ParameterExchange::~ParameterExchange() = default;

void ParameterExchange::share_values() {
  impl_->share_values();
}
void ParameterExchange::begin(int tower, std::int64_t rows) {
  impl_->begin(tower, rows);
}
void ParameterExchange::ready(int tower, std::size_t parameter) {
  impl_->ready(tower, parameter);
}
void ParameterExchange::push(int tower) {
  impl_->push(tower);
}
void ParameterExchange::wait(int tower) {
  impl_->wait(tower);
}
bool ParameterExchange::has_gradient(std::size_t parameter) const {
  return impl_->has_gradient(parameter);
}
void ParameterExchange::fail(const Status& error) noexcept {
  impl_->fail(error);
}
StrategyStats ParameterExchange::stats() const {
  return impl_->stats();
}

}  // namespace penstock::towers
