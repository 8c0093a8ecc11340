#include "towers/gpu/nccl_collective.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace penstock::towers {
namespace {

using Clock = std::chrono::steady_clock;

class NcclCollective final : public Collective {
 public:
  NcclCollective(const std::vector<Gpu*>& towers, double timeout_s)
      : nccl_(towers.front()->nccl()),
        timeout_s_(timeout_s),
        host_(make_host_collective(static_cast<int>(towers.size()), timeout_s)) {
    std::map<DeviceId, std::size_t> known;
    for (Gpu* gpu : towers) {
      const auto [at, is_new] = known.emplace(gpu->device()->id(), ranks_.size());
      const std::size_t me = towers_.size();
      towers_.push_back({gpu, at->second, Event(gpu->device())});
      if (is_new)
        ranks_.push_back({me, Event(gpu->device())});
      else
        alone_ = false;
    }
    std::vector<int> devices;
    for (const Rank& rank : ranks_)
      devices.push_back(towers_[rank.leader].gpu->device()->id().index);
    communicators_.resize(devices.size());
    ensure(nccl_.init_all(communicators_.data(), static_cast<int>(devices.size()), devices.data()),
           "makes no communicators");
    watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }
  ~NcclCollective() override {
    watcher_.request_stop();
    watcher_.join();
    if (error_) return;  // communicators were aborted
    for (const Rank& rank : ranks_) towers_[rank.leader].gpu->stream().synchronize();
    for (void* communicator : communicators_) static_cast<void>(nccl_.destroy(communicator));
  }
  NcclCollective(const NcclCollective&) = delete;
  NcclCollective& operator=(const NcclCollective&) = delete;

  int size() const noexcept override { return host_->size(); }
  void barrier(int tower) override { host_->barrier(tower); }
  void sum(int tower, std::span<double> values) override { host_->sum(tower, values); }
  void fail(const Error& error) noexcept override {
    const std::lock_guard lock(mutex_);
    give_up(error);
  }

  void sum(int tower, std::span<float> values) override {
    Tower& me = towers_[static_cast<std::size_t>(tower)];
    me.values = values;
    me.gpu->stream().record(me.reached);
    host_->barrier(tower);  // names who does not enqueue, before anything waits for it
    Rank& rank = ranks_[me.rank];
    const bool leads = towers_.data() + rank.leader == &me;
    if (leads) lead(rank, me);
    if (alone_) return;
    host_->barrier(tower);
    if (!leads) {
      me.gpu->stream().wait(rank.done);
      me.gpu->stream().copy(
          {values.data(), towers_[rank.leader].values.data(), values.size_bytes()});
      me.gpu->stream().record(me.reached);
    }
    host_->barrier(tower);
    if (leads) wait_for_others(me);  // its next step writes what they copy
  }

 private:
  struct Tower {
    Gpu* gpu;
    std::size_t rank;
    Event reached;
    std::span<float> values{};  // by the tower, between barriers
  };
  struct Rank {
    std::size_t leader;
    Event done;
    std::optional<Clock::time_point> since{};  // when the exchange under way was begun
    bool enqueued = false;                     // `done` is of this one
  };

  void wait_for_others(const Tower& leader) {
    for (const Tower& other : towers_)
      if (&other != &leader && other.rank == leader.rank) leader.gpu->stream().wait(other.reached);
  }

  void lead(Rank& rank, const Tower& me) {
    wait_for_others(me);
    for (const Tower& other : towers_) {
      if (&other == &me || other.rank != me.rank) continue;
      if (other.values.size() != me.values.size())
        throw Error(ErrorCode::invalid_argument, "towers add up " +
                                                     std::to_string(other.values.size()) + " and " +
                                                     std::to_string(me.values.size()) + " values");
      me.gpu->run(AddPlan{me.values.data(), other.values.data(), 1, 1},
                  static_cast<std::int64_t>(me.values.size()));
    }
    me.gpu->enter();
    {
      const std::lock_guard lock(mutex_);
      if (error_) throw Error(*error_);
      rank.since = Clock::now();
      rank.enqueued = false;
    }
    begun_.notify_all();
    // Not under the mutex: NCCL's first call waits for the other ranks.
    const int status =
        nccl_.all_reduce(me.values.data(), me.values.data(), me.values.size(), Nccl::kFloat,
                         Nccl::kSum, communicators_[me.rank], me.gpu->stream().state().native());
    const std::lock_guard lock(mutex_);
    if (error_) throw Error(*error_);
    if (status != Nccl::kSuccess && status != Nccl::kInProgress) {
      give_up(Error(ErrorCode::unavailable, name_of(me.rank) + ": " + nccl_.error_string(status)));
      throw Error(*error_);
    }
    me.gpu->stream().record(rank.done);
    rank.enqueued = true;
  }

  /// Looks after exchanges that are under way.
  void watch(const std::stop_token& stop) {
    constexpr auto kEvery = std::chrono::milliseconds(20);
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested() && !error_) {
      std::optional<Error> found;
      bool busy = false;
      for (std::size_t r = 0; r < ranks_.size() && !found; ++r) {
        Rank& rank = ranks_[r];
        int state = Nccl::kSuccess;
        if (nccl_.async_error(communicators_[r], &state) == Nccl::kSuccess &&
            state != Nccl::kSuccess && state != Nccl::kInProgress) {
          found =
              Error(ErrorCode::unavailable, name_of(r) + " reported: " + nccl_.error_string(state));
        } else if (rank.since && rank.enqueued && rank.done.view().done()) {
          rank.since.reset();
        } else if (rank.since &&
                   std::chrono::duration<double>(Clock::now() - *rank.since).count() > timeout_s_) {
          found = Error(ErrorCode::no_progress, name_of(r) + ": its exchange did not end in " +
                                                    std::to_string(timeout_s_) + " s");
        }
        busy = busy || rank.since.has_value();
      }
      if (found) {
        give_up(*found);
        return;
      }
      if (busy) {
        begun_.wait_for(lock, stop, kEvery, [] { return false; });
      } else {
        begun_.wait(lock, stop, [this] { return error_ || any_begun(); });
      }
    }
  }

  /// With mutex_ held. Others may be waiting within NCCL, where only an abort reaches them.
  void give_up(const Error& error) noexcept {
    if (error_) return;
    error_ = error;
    for (void* communicator : communicators_) static_cast<void>(nccl_.abort(communicator));
    host_->fail(error);
    begun_.notify_all();
  }

  bool any_begun() const {
    for (const Rank& rank : ranks_)
      if (rank.since) return true;
    return false;
  }

  std::string name_of(std::size_t rank) const {
    return "NCCL rank " + std::to_string(rank) + " (" +
           towers_[ranks_[rank].leader].gpu->device()->id().to_string() + ")";
  }
  void ensure(int status, const char* what) const {
    if (status != Nccl::kSuccess)
      throw Error(ErrorCode::unavailable,
                  "NCCL " + std::string(what) + ": " + nccl_.error_string(status));
  }

  const Nccl& nccl_;
  const double timeout_s_;
  const std::unique_ptr<Collective> host_;
  std::vector<Tower> towers_;
  bool alone_ = true;  // no two towers share a device
  std::vector<void*> communicators_;

  std::mutex mutex_;
  std::condition_variable_any begun_;
  std::vector<Rank> ranks_;     // `since` and `enqueued`: guarded by mutex_
  std::optional<Error> error_;  // guarded by mutex_ while watched; for good
  std::jthread watcher_;
};

}  // namespace

std::unique_ptr<Collective> make_nccl_collective(const std::vector<Gpu*>& towers,
                                                 double timeout_s) {
  return std::make_unique<NcclCollective>(towers, timeout_s);
}

}  // namespace penstock::towers
