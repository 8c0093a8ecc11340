// A rank's side of a rendezvous that is kept in etcd.
#include <algorithm>
#include <atomic>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "cluster/etcd_address.h"
#include "cluster/net/credentials.h"
#include "cluster/net/ending.h"
#include "cluster/net/etcd_client.h"
#include "cluster/net/etcd_members.h"
#include "cluster/net/etcd_run.h"
#include "cluster/net/limits.h"
#include "cluster/net/open.h"
#include "cluster/net/poll_value.h"
#include "cluster/net/verdict.h"

namespace penstock::cluster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class EtcdRendezvous final : public Rendezvous {
 public:
  EtcdRendezvous(const Cluster& cluster, const RendezvousOptions& options,
                 const EtcdAddress& address)
      : options_(options),
        rank_(cluster.rank),
        world_(cluster.world),
        client_(address.members, options.tls,
                std::clamp(options.peer_timeout / (2 * static_cast<int>(address.members.size())),
                           milliseconds(100), milliseconds(5000))),
        run_(client_, ending_, cluster, options_, address.job,
             "etcd at " + address.members.front()) {}

  ~EtcdRendezvous() override {
    try {
      if (run_.came()) {
        tell_failure();
        leave();
      }
    } catch (...) {  // other ranks find out by the signs of life
    }
    stop_.request_stop();
    wake_.notify_all();
    client_.hang_up();
    if (beats_.joinable()) beats_.join();
    if (watch_.joinable()) watch_.join();
    if (lease_ != 0) static_cast<void>(client_.revoke(lease_));
  }

  void join(const Facts& facts) override {
    const Clock::time_point until = Clock::now() + options_.join_timeout;
    lease_ = run_.take_lease(until);
    heard_ = Clock::now();
    beats_ = start_thread("signs of life", [this] { live(stop_.get_token()); });
    const wire::Begun begun = run_.join(facts, lease_, until);
    if (begun.verdict().ended()) throw Error(status_of(begun.verdict()).error());
    members_.emplace(world_, run_.signs(), begun.revision(), options_.peer_timeout);
    watch_ = start_thread("others' signs of life", [this] { follow(stop_.get_token()); });
  }

  void put(const std::string& key, const std::string& value) override {
    const Status room = room_for(key, value);
    if (!room.ok()) throw Error(room.error());
    // An unreachable etcd may come back soon; otherwise the missing signs of life end this.
    const auto until = Clock::now() + options_.peer_timeout + milliseconds(1000);
    if (!run_.write(run_.value_key(key), value, until)) throw Error(why_fenced().error());
  }

  std::string get(const std::string& key, milliseconds timeout) override {
    EtcdTxn txn;
    txn.get(run_.value_key(key));
    return poll_value(key, timeout, pause(), [&]() -> std::optional<std::string> {
      etcdserverpb::TxnResponse reply;
      const grpc::Status sent = client_.txn(txn.request(), reply);
      if (sent.ok())
        if (const etcdserverpb::KeyValue* found = read_by(reply, 0)) return found->value();
      const Status ended = ending_.status();
      if (!ended.ok()) throw Error(ended.error());
      return std::nullopt;
    });
  }

  Status status() const override { return ending_.status(); }
  void watch(const void* watcher, std::function<void(const Status&)> told) override {
    ending_.watch(watcher, std::move(told));
  }
  void unwatch(const void* watcher) noexcept override { ending_.unwatch(watcher); }

  void fail(const Status& error) noexcept EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    if (own_error_.ok()) own_error_ = error;
    urgent_ = true;
    wake_.notify_all();
  }

  void say(std::string what) EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    said_ = std::move(what);
  }
  std::vector<std::string> said() const EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    return heard_of_;
  }
  /// Ranks communicate through etcd, which does not carry rank 0's clock.
  ClockOffset clock() const override { return rank_ == 0 ? ClockOffset{0, 0} : ClockOffset{}; }

  std::size_t refused() const noexcept override { return refused_.load(); }

 private:
  milliseconds pause() const { return milliseconds(20 + world_ / 2); }

  /// Returns why a write was refused. The name of a lost rank becomes known a moment later.
  Status why_fenced() const {
    const Status ended = ending_.status();
    return ended.ok() ? run_.fenced() : ended;
  }

  void tell_failure() EXCLUDES(mutex_) {
    Status failure;
    {
      const MutexLock lock(mutex_);
      failure = own_error_;
    }
    if (failure.ok() || told_) return;
    wire::BeatRequest last;
    last.set_rank(rank_);
    *last.mutable_failed() = verdict_of(failure);
    static_cast<void>(run_.write(run_.ended_key(), last.SerializeAsString(), Clock::now()));
    told_ = true;
  }

  std::string said_key(int rank) const {
    return run_.value_key("said by rank " + std::to_string(rank));
  }

  /// Each text replaces the one before.
  void tell_what_was_said(milliseconds limit) EXCLUDES(mutex_) {
    std::string said;
    {
      const MutexLock lock(mutex_);
      if (said_.size() > kMostBytesSaid) return;
      said.swap(said_);
    }
    if (said.empty()) return;
    EtcdTxn txn;
    etcdserverpb::TxnResponse reply;
    static_cast<void>(client_.txn(txn.put(said_key(rank_), said, lease_).request(), reply, limit));
  }

  /// Reads as many texts as it can until `due`, because the next sign of life is more important.
  void hear_what_was_said(milliseconds limit, Clock::time_point due) EXCLUDES(mutex_) {
    constexpr int kAtOnce = 64;  // a transaction has at most 128 parts
    std::vector<std::string> heard(static_cast<std::size_t>(world_));
    for (int first = 0; first < world_ && Clock::now() + limit < due; first += kAtOnce) {
      const int last = std::min(first + kAtOnce, world_);
      EtcdTxn txn;
      for (int rank = first; rank < last; ++rank) txn.get(said_key(rank));
      etcdserverpb::TxnResponse reply;
      if (!client_.txn(txn.request(), reply, limit).ok()) return;
      for (int rank = first; rank < last; ++rank)
        if (const etcdserverpb::KeyValue* found = read_by(reply, rank - first))
          heard[static_cast<std::size_t>(rank)] = found->value();
    }
    const MutexLock lock(mutex_);
    heard_of_ = std::move(heard);
  }

  /// Gives signs of life until the end.
  void live(const std::stop_token& stop) noexcept EXCLUDES(mutex_) {
    const milliseconds interval = std::max(milliseconds(5), options_.peer_timeout / 5);
    const milliseconds limit = std::max(milliseconds(1), interval / 4);
    while (!stop.stop_requested()) {
      const Clock::time_point due = Clock::now() + interval;
      try {
        const bool answered = beat();
        if (run_.came()) tell_failure();
        if (run_.came() && answered) {
          tell_what_was_said(limit);
          if (rank_ == 0) hear_what_was_said(limit, due);
        }
      } catch (...) {  // out of memory, or etcd is unreachable: as a missing answer
      }
      const MutexLock lock(mutex_);
      while (!urgent_ && !stop.stop_requested() && Clock::now() < due)
        wake_.wait_until(mutex_, stop, due);
      urgent_ = false;
    }
  }

  /// True if etcd answered.
  bool beat() {
    etcdserverpb::LeaseKeepAliveResponse reply;
    const grpc::Status sent = client_.keep_alive(lease_, reply);
    if (sent.ok()) {
      heard_ = Clock::now();
      if (reply.ttl() > 0) return true;
      ending_.end(
          {ErrorCode::unavailable, "this process, rank " + std::to_string(rank_) +
                                       ", was declared lost: its lease in etcd has expired"});
      return true;
    }
    client_.hang_up();  // the watch moves to a member that answers
    if (Clock::now() - heard_ <= options_.peer_timeout) return false;
    ending_.end({ErrorCode::unavailable, run_.etcd() + " was lost: no answer for " +
                                             std::to_string(options_.peer_timeout.count()) +
                                             " ms: " + sent.error_message()});
    return false;
  }

  /// Follows the other ranks' signs until the end.
  void follow(const std::stop_token& stop) noexcept EXCLUDES(mutex_) {
    while (!stop.stop_requested() && ending_.status().ok()) {
      try {
        etcdserverpb::WatchCreateRequest request;
        request.set_key(run_.signs());
        request.set_range_end(EtcdKeys::behind(request.key()));
        request.set_start_revision(members_->next_revision());
        static_cast<void>(
            client_.watch(request, stop, [&](const etcdserverpb::WatchResponse& response) {
              if (response.canceled() && response.compact_revision() > 0) {
                look_again();
              } else {
                members_->apply(response);
              }
              refused_ = members_->refused();
              if (!members_->status().ok()) ending_.end(members_->status());
              return !response.canceled() && members_->status().ok();
            }));
      } catch (...) {  // out of memory: try again
      }
      const Clock::time_point again = Clock::now() + pause();
      const MutexLock lock(mutex_);
      while (!stop.stop_requested() && Clock::now() < again) wake_.wait_until(mutex_, stop, again);
    }
  }

  /// Reads all signs, because etcd has dropped the history that this process missed.
  void look_again() {
    etcdserverpb::RangeResponse now;
    if (client_.range(all_signs(), now).ok()) members_->apply(now);
  }

  etcdserverpb::RangeRequest all_signs() const {
    etcdserverpb::RangeRequest request;
    request.set_key(run_.signs());
    request.set_range_end(EtcdKeys::behind(request.key()));
    return request;
  }

  /// Reports that this rank has ended well. The run's values are attached to the lease of rank 0,
  /// so rank 0 stays until all others have left.
  void leave() {
    const Clock::time_point until = Clock::now() + options_.peer_timeout;
    static_cast<void>(run_.write(run_.left_key(), "", Clock::now()));
    if (rank_ != 0) return;
    for (; Clock::now() < until; std::this_thread::sleep_for(pause())) {
      etcdserverpb::RangeResponse now;
      if (client_.range(all_signs(), now).ok() && all_left(now, run_.signs(), world_)) return;
    }
  }

  const GrpcLife grpc_;
  const RendezvousOptions options_;
  const int rank_;
  const int world_;
  EtcdClient client_;
  Ending ending_;
  EtcdRun run_;
  std::int64_t lease_ = 0;
  Clock::time_point heard_;             // used by the thread `beats_`
  std::optional<EtcdMembers> members_;  // used by the thread `watch_`
  std::atomic<std::size_t> refused_{0};
  std::atomic<bool> told_{false};
  mutable Mutex mutex_;
  StoppableCondVar wake_;
  Status own_error_ GUARDED_BY(mutex_);
  std::string said_ GUARDED_BY(mutex_);                   // not sent yet
  std::vector<std::string> heard_of_ GUARDED_BY(mutex_);  // on rank 0
  bool urgent_ GUARDED_BY(mutex_) = false;
  std::stop_source stop_;
  Thread beats_;
  Thread watch_;
};

}  // namespace

std::unique_ptr<Rendezvous> open_etcd(const Cluster& cluster, const RendezvousOptions& options) {
  quiet_grpc();
  const EtcdAddress address =
      parse_etcd_address(cluster.rendezvous, "--rendezvous " + cluster.rendezvous);
  for (const std::string& member : address.members) check_exposure(member, options, Server::etcd);
  return std::make_unique<EtcdRendezvous>(cluster, options, address);
}

}  // namespace penstock::cluster
