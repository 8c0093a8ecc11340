#include "towers/gpu/nccl_sum.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/towers/peers.h>

#include "towers/gpu/gpu.h"

namespace penstock::towers {
namespace {

using Clock = std::chrono::steady_clock;

class NcclSum final : public BucketSum {
 public:
  NcclSum(VariableStore& store, std::size_t buckets, const StrategyOptions& options,
          std::function<void(const Status&)> on_error)
      : store_(store), timeout_s_(options.timeout_s), on_error_(std::move(on_error)) {
    std::map<DeviceId, std::size_t> known;
    for (int tower = 0; tower < store.towers(); ++tower) {
      Gpu& gpu = *store.gpu(tower);
      const auto [at, is_new] = known.emplace(gpu.device()->id(), ranks_.size());
      if (is_new) ranks_.emplace_back(gpu.device());
      ranks_[at->second].towers.push_back(tower);
      rank_of_.push_back(at->second);
      std::vector<Event>& reached = reached_.emplace_back();
      for (std::size_t b = 0; b < buckets; ++b) reached.emplace_back(gpu.device());
    }
    exchanges_.resize(ranks_.size());
    if (options.peers != nullptr) {
      connect_with(*options.peers);
    } else if (ranks_.size() > 1 || options.nccl_alone) {
      connect();
    }
    watcher_ = start_thread("watching NCCL", [this](const std::stop_token& stop) { watch(stop); });
  }
  ~NcclSum() override {
    watcher_.request_stop();
    watcher_.join();
    if (failed_) return;  // communicators were aborted
    for (const Rank& rank : ranks_) rank.stream.view().synchronize();
    for (void* communicator : communicators_) static_cast<void>(nccl_->destroy(communicator));
  }
  NcclSum(const NcclSum&) = delete;
  NcclSum& operator=(const NcclSum&) = delete;

  void reached(int tower, std::size_t bucket) override {
    store_.gpu(tower)->stream().record(reached_[static_cast<std::size_t>(tower)][bucket]);
  }

  void add_up(const Bucket& bucket, std::size_t number,
              const std::vector<std::vector<Share>>& shares) EXCLUDES(mutex_) override {
    for (Rank& rank : ranks_) add_up_on(rank, bucket, number, shares);
    {
      const MutexLock lock(mutex_);
      if (failed_) return;
      calling_ = true;
      for (Exchange& exchange : exchanges_) exchange = {Clock::now(), false};
    }
    begun_.notify_all();
    Status outcome;  // set without the mutex: NCCL's first call waits
    try {
      reduce(bucket);
    } catch (...) {
      outcome = status_from_current_exception();
    }
    const MutexLock lock(mutex_);
    calling_ = false;
    if (failed_) return abort_all();
    if (!outcome.ok()) throw Error(outcome.error());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Rank& rank = ranks_[r];
      const float* sums = values(rank.towers.front(), bucket.begin);
      for (std::size_t i = 1; i < rank.towers.size(); ++i)
        rank.stream.view().copy({values(rank.towers[i], bucket.begin), sums,
                                 (bucket.end - bucket.begin) * sizeof(float)});
      rank.stream.view().record(rank.done);
      exchanges_[r].enqueued = true;
    }
  }

  void follow(int tower) override {
    store_.gpu(tower)->stream().wait(ranks_[rank_of_[static_cast<std::size_t>(tower)]].done);
  }

  // Streams may wait for other ranks within NCCL, where only an abort reaches them. An abort frees
  // the communicators, so a call that uses them must end first.
  void fail() noexcept EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    if (std::exchange(failed_, true)) return;
    if (!calling_) abort_all();
    begun_.notify_all();
  }

 private:
  struct Rank {
    explicit Rank(const DevicePtr& device) : stream(device, "exchange"), done(device) {}
    std::vector<int> towers{};
    Stream stream;
    Event done;  // for the newest bucket
  };
  /// A rank's exchange of the newest bucket.
  struct Exchange {
    std::optional<Clock::time_point> since{};  // when it was begun, while it is running
    bool enqueued = false;                     // true if the rank's `done` is recorded for it
  };

  void connect() {
    nccl_ = &store_.gpu(0)->nccl();
    std::vector<int> devices;
    for (const Rank& rank : ranks_) devices.push_back(leader(rank).device()->id().index);
    std::vector<void*> made(devices.size());
    check_made(nccl_->init_all(made.data(), static_cast<int>(devices.size()), devices.data()));
    communicators_ = std::move(made);
  }

  /// Process p's devices are the ranks after those of the processes before it.
  void connect_with(Peers& peers) {
    nccl_ = &store_.gpu(0)->nccl();
    struct Told {
      Nccl::UniqueId id{};
      std::size_t ranks = 0;
    } mine{.id = {}, .ranks = ranks_.size()};
    if (peers.rank() == 0) check_made(nccl_->unique_id(&mine.id));
    std::vector<Told> all(static_cast<std::size_t>(peers.size()));
    peers.gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    int first = 0, count = 0;
    for (const Told& told : all) {
      if (&told - all.data() < peers.rank()) first += static_cast<int>(told.ranks);
      count += static_cast<int>(told.ranks);
    }
    std::vector<void*> made(ranks_.size());
    check_made(nccl_->group_start());
    int status = Nccl::kSuccess;
    for (std::size_t r = 0; r < ranks_.size() && status == Nccl::kSuccess; ++r) {
      leader(ranks_[r]).enter(ranks_[r].stream);
      status = nccl_->init_rank(&made[r], count, all.front().id, first + static_cast<int>(r));
    }
    const int ended = nccl_->group_end();
    check_made(status != Nccl::kSuccess ? status : ended);
    communicators_ = std::move(made);
  }

  void check_made(int status) const {
    if (status != Nccl::kSuccess)
      throw Error(ErrorCode::unavailable,
                  "NCCL makes no communicators: " + std::string(nccl_->error_string(status)));
  }

  Gpu& leader(const Rank& rank) const { return *store_.gpu(rank.towers.front()); }
  float* values(int tower, std::size_t at) const { return store_.gradients(tower).data() + at; }

  void add_up_on(Rank& rank, const Bucket& bucket, std::size_t number,
                 const std::vector<std::vector<Share>>& shares) const {
    const StreamView stream = rank.stream;
    Gpu& gpu = leader(rank);
    for (const int tower : rank.towers) {
      stream.wait(reached_[static_cast<std::size_t>(tower)][number]);
      for (const Share& share : shares[static_cast<std::size_t>(tower)]) {
        const auto count = static_cast<std::int64_t>(share.end - share.begin);
        if (share.weight == 0) {
          gpu.run(FillPlan{values(tower, share.begin), 0}, count, stream);
        } else if (share.weight != 1) {
          gpu.run(ScalePlan{values(tower, share.begin), share.weight}, count, stream);
        }
      }
      if (tower != rank.towers.front())
        gpu.run(
            AddPlan{values(rank.towers.front(), bucket.begin), values(tower, bucket.begin), 1, 1},
            static_cast<std::int64_t>(bucket.end - bucket.begin), stream);
    }
  }

  void reduce(const Bucket& bucket) {
    if (communicators_.empty()) return;
    std::optional<std::string> trouble;
    const auto note = [&](const std::string& who, int status) {
      if (status != Nccl::kSuccess && status != Nccl::kInProgress && !trouble)
        trouble = who + ": " + nccl_->error_string(status);
    };
    note("NCCL", nccl_->group_start());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Gpu& gpu = leader(ranks_[r]);
      gpu.enter(ranks_[r].stream);
      float* sums = values(ranks_[r].towers.front(), bucket.begin);
      note(name_of(r),
           nccl_->all_reduce(sums, sums, bucket.end - bucket.begin, Nccl::kFloat, Nccl::kSum,
                             communicators_[r], ranks_[r].stream.view().native()));
    }
    const int ended = nccl_->group_end();
    for (std::size_t r = 0; r < ranks_.size() && ended != Nccl::kSuccess; ++r) {
      int state = Nccl::kSuccess;
      if (nccl_->async_error(communicators_[r], &state) == Nccl::kSuccess) note(name_of(r), state);
    }
    note("NCCL", ended);
    if (trouble) throw Error(ErrorCode::unavailable, *trouble);
  }

  /// Called once. An abort may wait until the others are aborted too, so they all run at the same
  /// time.
  void abort_all() noexcept REQUIRES(mutex_) {
    std::vector<std::jthread> threads;
    for (void* communicator : communicators_) {
      const auto abort = [this, communicator] { static_cast<void>(nccl_->abort(communicator)); };
      try {
        threads.emplace_back(abort);
      } catch (...) {
        abort();
      }
    }
  }

  /// Watches running exchanges.
  void watch(const std::stop_token& stop) EXCLUDES(mutex_) {
    constexpr auto kEvery = std::chrono::milliseconds(20);
    MutexLock lock(mutex_);
    while (!stop.stop_requested() && !failed_) {
      if (const Status found = look(); !found.ok()) {
        lock.unlock();
        return on_error_(found);
      }
      if (is_busy()) {
        const Clock::time_point next = Clock::now() + kEvery;
        while (!failed_ && !stop.stop_requested() && Clock::now() < next)
          begun_.wait_until(mutex_, stop, next);
      } else {
        while (!failed_ && !stop.stop_requested() && !is_busy()) begun_.wait(mutex_, stop);
      }
    }
  }

  bool is_busy() const REQUIRES(mutex_) {
    return std::ranges::any_of(exchanges_,
                               [](const Exchange& exchange) { return exchange.since.has_value(); });
  }

  Status look() noexcept REQUIRES(mutex_) try {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Exchange& exchange = exchanges_[r];
      int state = Nccl::kSuccess;
      if (!communicators_.empty() &&
          nccl_->async_error(communicators_[r], &state) == Nccl::kSuccess &&
          state != Nccl::kSuccess && state != Nccl::kInProgress)
        return Error(ErrorCode::unavailable,
                     name_of(r) + " reported: " + nccl_->error_string(state));
      if (exchange.since && exchange.enqueued && ranks_[r].done.view().done()) {
        exchange.since.reset();
      } else if (exchange.since &&
                 std::chrono::duration<double>(Clock::now() - *exchange.since).count() >
                     timeout_s_) {
        return Error(ErrorCode::no_progress, name_of(r) + ": its exchange did not end in " +
                                                 std::to_string(timeout_s_) + " s");
      }
    }
    return {};
  } catch (...) {
    return status_from_current_exception();
  }

  std::string name_of(std::size_t rank) const {
    return "NCCL rank " + std::to_string(rank) + " (" +
           leader(ranks_[rank]).device()->id().to_string() + ")";
  }

  VariableStore& store_;
  const Nccl* nccl_ = nullptr;  // null: there are no communicators
  const double timeout_s_;
  const std::function<void(const Status&)> on_error_;
  std::vector<std::size_t> rank_of_;         // one for each tower
  std::vector<std::vector<Event>> reached_;  // one for each tower and bucket
  std::vector<void*> communicators_;
  std::vector<Rank> ranks_;

  SlowMutex mutex_;  // held while communicators are aborted, and while copies are enqueued
  StoppableCondVar begun_;
  std::vector<Exchange> exchanges_ GUARDED_BY(mutex_);  // one for each rank
  bool failed_ GUARDED_BY(mutex_) = false;
  // True while the exchange's thread uses the communicators.
  bool calling_ GUARDED_BY(mutex_) = false;
  Thread watcher_;
};

}  // namespace

std::unique_ptr<BucketSum> make_nccl_sum(VariableStore& store, std::size_t buckets,
                                         const StrategyOptions& options,
                                         std::function<void(const Status&)> on_error) {
  return std::make_unique<NcclSum>(store, buckets, options, std::move(on_error));
}

}  // namespace penstock::towers
