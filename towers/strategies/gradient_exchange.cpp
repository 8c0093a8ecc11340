#include "towers/strategies/gradient_exchange.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/report.h>
#include <penstock/towers/peers.h>

#include "towers/gpu/nccl_sum.h"
#include "towers/tree_sum.h"

namespace penstock::towers {
namespace {

/// Sums for towers that share memory. Each gradient is weighted, then `sum_by_tree` adds up all,
/// and adds the sums of other processes, which are branches of the same tree.
class HostSum final : public BucketSum {
 public:
  HostSum(VariableStore& store, Peers* peers) : peers_(peers) {
    for (int tower = 0; tower < store.towers(); ++tower)
      gradients_.push_back(store.gradients(tower).data());
  }

  void add_up(const Bucket& bucket, std::size_t /*number*/,
              const std::vector<std::vector<Share>>& shares) override {
    constexpr std::size_t kBlock = 4096;  // fits in the first-level cache
    for (std::size_t at = bucket.begin; at < bucket.end; at += kBlock) {
      const std::size_t end = std::min(at + kBlock, bucket.end);
      for (std::size_t tower = 0; tower < gradients_.size(); ++tower)
        for (const Share& share : shares[tower])
          scale(gradients_[tower], std::max(at, share.begin), std::min(end, share.end),
                share.weight);
      sum_by_tree<float>(gradients_, at, end);
      if (peers_ == nullptr) give(at, end);
    }
    if (peers_ == nullptr) return;
    peers_->sum({gradients_.front() + bucket.begin, bucket.end - bucket.begin});
    give(bucket.begin, bucket.end);
  }

 private:
  static void scale(float* values, std::size_t begin, std::size_t end, float weight) {
    for (std::size_t i = begin; i < end && weight != 1; ++i)
      values[i] = weight == 0 ? 0 : values[i] * weight;
  }

  void give(std::size_t begin, std::size_t end) {
    const float* total = gradients_.front();
    for (std::size_t tower = 1; tower < gradients_.size(); ++tower)
      std::copy(total + begin, total + end, gradients_[tower] + begin);
  }

  Peers* const peers_;
  std::vector<float*> gradients_;  // one for each tower
};

std::unique_ptr<BucketSum> make_sum(VariableStore& store, std::size_t buckets,
                                    const StrategyOptions& options,
                                    std::function<void(const Status&)> on_error) {
  std::vector<Gpu*> gpus;
  for (int tower = 0; tower < store.towers(); ++tower)
    if (Gpu* gpu = store.gpu(tower)) gpus.push_back(gpu);
  const bool alone = store.towers() == 1 && options.peers == nullptr;
  if (alone && (gpus.empty() || !options.nccl_alone))
    return nullptr;  // variables are stored where they are updated
  if (gpus.empty()) return std::make_unique<HostSum>(store, options.peers);
  if (static_cast<int>(gpus.size()) < store.towers())
    throw Error(ErrorCode::invalid_argument,
                "towers that exchange gradients must be all on GPUs, or all on the host");
  if (options.peers != nullptr && !options.peers->any_order())
    return make_relayed_sum(store, buckets, *options.peers);
  return make_nccl_sum(store, buckets, options, std::move(on_error));
}

}  // namespace

std::vector<Bucket> buckets_of(const VariableStore& store, std::size_t bytes) {
  const std::span<Variable* const> variables = store.of(0);
  std::vector<Bucket> buckets;
  for (std::size_t v = variables.size(); v-- > 0;) {
    const std::size_t begin = store.offset(v);
    const std::size_t end = begin + variables[v]->value.size();
    if (!buckets.empty() && (buckets.back().end - begin) * sizeof(float) <= bytes) {
      buckets.back().first = v;
      buckets.back().begin = begin;
    } else {
      buckets.push_back({v, v + 1, begin, end});
    }
  }
  return buckets;
}

GradientExchange::GradientExchange(VariableStore& store, const StrategyOptions& options)
    : store_(store),
      combine_(options.combine),
      peers_(options.peers),
      timeout_s_(options.timeout_s),
      exchanged_(options.exchanged),
      buckets_(buckets_of(store, options.bucket_bytes)),
      towers_(static_cast<std::size_t>(store.towers())),
      has_gradient_(store.of(0).size()),
      reached_(buckets_.size(), std::vector<char>(towers_.size())),
      sum_(
          make_sum(store, buckets_.size(), options, [this](const Status& error) { fail(error); })) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    std::size_t& count = trainable_.emplace_back();
    for (std::size_t v = buckets_[b].first; v < buckets_[b].last; ++v) {
      if (!store.of(0)[v]->trainable) continue;
      ++count;
      for (int tower = 0; tower < store.towers(); ++tower)
        store.of(tower)[v]->when_final = [this, tower, b] { on_final(tower, b); };
    }
  }
  if (sum_ != nullptr && !buckets_.empty())
    thread_ = start_thread("the exchange of gradients",
                           [this](const std::stop_token& stop) { add_up_all(stop); });
}

GradientExchange::~GradientExchange() {
  for (int tower = 0; tower < store_.towers(); ++tower)
    for (Variable* variable : store_.of(tower)) variable->when_final = nullptr;
}

void GradientExchange::begin(int tower, std::int64_t rows) {
  Tower& me = towers_[static_cast<std::size_t>(tower)];
  {
    const MutexLock lock(mutex_);
    if (!error_.ok()) throw Error(error_.error());
  }
  me.left = trainable_;
  me.rows = rows;
  me.begun = true;
}

void GradientExchange::on_final(int tower, std::size_t bucket) {
  Tower& me = towers_[static_cast<std::size_t>(tower)];
  if (me.begun && --me.left[bucket] == 0) reach(tower, bucket);
}

void GradientExchange::reach(int tower, std::size_t bucket) {
  towers_[static_cast<std::size_t>(tower)].left[bucket] = 0;
  if (sum_ == nullptr) return;
  sum_->reached(tower, bucket);
  const MutexLock lock(mutex_);
  reached_[bucket][static_cast<std::size_t>(tower)] = 1;
  reached_changed_.notify_one();
}

void GradientExchange::finish(int tower, std::int64_t rows) {
  Tower& me = towers_[static_cast<std::size_t>(tower)];
  if (!me.begun) begin(tower, rows);
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (me.left[b] > 0 || trainable_[b] == 0) reach(tower, b);
  me.begun = false;
  const std::span<Variable* const> variables = store_.of(tower);
  if (sum_ == nullptr || buckets_.empty()) {
    for (Variable* variable : variables) variable->has_gradient &= rows > 0;
    return;
  }
  const std::uint64_t mine = ++me.steps;
  {
    MutexLock lock(mutex_);
    if (steps_ < mine && ++finishing_ == towers_.size()) all_finish_ = Clock::now();
    const auto limit = std::chrono::duration<double>(timeout_s_);
    auto until = Clock::now() + limit;
    while (steps_ < mine && error_.ok()) {
      if (Clock::now() < until) {
        done_.wait_until(mutex_, until);
        continue;
      }
      error_ = missing();
      if (!error_.ok()) done_.notify_all();
      until = Clock::now() + limit;
    }
    if (!error_.ok()) {
      const Status error = error_;
      lock.unlock();
      sum_->fail();
      throw Error(error.error());
    }
  }
  sum_->follow(tower);
  for (std::size_t v = 0; v < variables.size(); ++v)
    variables[v]->has_gradient = has_gradient_[v] != 0;
}

void GradientExchange::fail(const Status& error) noexcept {
  {
    const MutexLock lock(mutex_);
    if (error_.ok()) error_ = error;
    done_.notify_all();
    reached_changed_.notify_all();
  }
  if (sum_ != nullptr) sum_->fail();
}

StrategyStats GradientExchange::stats() const {
  const MutexLock lock(mutex_);
  StrategyStats stats;
  stats.exchange_s = std::chrono::duration<double>(exchanging_).count();
  stats.exposed_s = std::chrono::duration<double>(exposed_).count();
  return stats;
}

void GradientExchange::add_up_all(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  for (;;) {
    while (error_.ok() && !reached_by_all() && !stop.stop_requested())
      reached_changed_.wait(mutex_, stop);
    if (!error_.ok() || !reached_by_all()) return;
    const std::size_t now = next_;
    const std::uint64_t step = steps_;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    try {
      sum_->add_up(buckets_[now], now, shares_of(buckets_[now]));
    } catch (...) {
      return fail(status_from_current_exception());
    }
    const Clock::time_point end = Clock::now();
    if (exchanged_) exchanged_(step, begin, end);
    lock.lock();
    exchanging_ += end - begin;
    if (finishing_ == towers_.size() && all_finish_ < end)
      exposed_ += end - std::max(begin, all_finish_);
    set_report_exposed(std::chrono::duration<double>(exposed_).count());
    reached_[now].assign(towers_.size(), 0);
    next_ = now + 1 == buckets_.size() ? 0 : now + 1;
    if (next_ > 0) continue;
    finishing_ = 0;
    ++steps_;
    done_.notify_all();
  }
}

bool GradientExchange::reached_by_all() const {
  return std::ranges::all_of(reached_[next_], [](char reached) { return reached != 0; });
}

std::vector<std::vector<std::int64_t>> GradientExchange::rows_of(const Bucket& bucket) {
  const std::size_t variables = bucket.last - bucket.first;
  std::vector<std::int64_t> mine;
  for (std::size_t v = bucket.first; v < bucket.last; ++v)
    for (std::size_t t = 0; t < towers_.size(); ++t)
      mine.push_back(store_.of(static_cast<int>(t))[v]->has_gradient ? towers_[t].rows : 0);
  std::vector<std::int64_t> all(mine);
  const auto processes = static_cast<std::size_t>(peers_ == nullptr ? 1 : peers_->size());
  if (peers_ != nullptr) {
    all.resize(mine.size() * processes);
    peers_->gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  }
  std::vector<std::vector<std::int64_t>> rows(variables);
  for (std::size_t v = 0; v < variables; ++v)
    for (std::size_t p = 0; p < processes; ++p)
      for (std::size_t t = 0; t < towers_.size(); ++t)
        rows[v].push_back(all[(p * variables + v) * towers_.size() + t]);
  return rows;
}

std::vector<std::vector<Share>> GradientExchange::shares_of(const Bucket& bucket) {
  const std::size_t mine_from =
      peers_ == nullptr ? 0 : static_cast<std::size_t>(peers_->rank()) * towers_.size();
  const std::vector<std::vector<std::int64_t>> rows_of_all = rows_of(bucket);
  std::vector<std::vector<Share>> shares(towers_.size());
  for (std::size_t v = bucket.first; v < bucket.last; ++v) {
    if (!store_.of(0)[v]->trainable) continue;  // zeros, independent of the weight
    const std::vector<std::int64_t>& of_towers = rows_of_all[v - bucket.first];
    double rows = 0;
    int count = 0;
    for (const std::int64_t of_tower : of_towers) {
      if (of_tower <= 0) continue;
      rows += static_cast<double>(of_tower);
      ++count;
    }
    has_gradient_[v] = count > 0;
    const std::size_t begin = store_.offset(v);
    const std::size_t end = begin + store_.of(0)[v]->value.size();
    for (std::size_t t = 0; t < towers_.size(); ++t) {
      const std::int64_t of_tower = of_towers[mine_from + t];
      float weight = of_tower > 0 ? 1 : 0;
      if (of_tower > 0 && combine_ == Combine::average && count > 1)
        weight = static_cast<float>(static_cast<double>(of_tower) / rows);
      std::vector<Share>& mine = shares[t];
      if (!mine.empty() && mine.back().weight == weight) {
        mine.back().end = end;
      } else {
        mine.push_back({begin, end, weight});
      }
    }
  }
  return shares;
}

Status GradientExchange::missing() const {
  std::string names;
  for (std::size_t t = 0; t < towers_.size(); ++t)
    if (reached_[next_][t] == 0) names += (names.empty() ? "" : ", ") + std::to_string(t);
  if (names.empty()) return {};
  return Status(ErrorCode::no_progress, "tower " + names + " has not come to the exchange in " +
                                            std::to_string(timeout_s_) + " s");
}

}  // namespace penstock::towers
