// A process's place in a run of a job that is kept in etcd.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cluster/lobby.h"
#include "cluster/net/ending.h"
#include "cluster/net/etcd_client.h"
#include "cluster/net/etcd_members.h"
#include "cluster/net/etcd_txn.h"
#include "cluster/net/rendezvous.pb.h"
#include "cluster/rendezvous.h"

namespace penstock::cluster {

/// This process's membership in a run. It joins the run, and writes to it as long as no other
/// process has taken its place. Each write is a transaction that compares the revisions at which
/// the run began and at which this process joined. So a process that was frozen for longer than its
/// lease cannot write any more. One thread uses it until `join` has returned; after that any thread
/// may call `write`.
class EtcdRun {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `etcd` names etcd in errors. Any error in `ending` ends all waiting here.
  EtcdRun(EtcdClient& client, const Ending& ending, const Cluster& cluster,
          const RendezvousOptions& options, const std::string& job, std::string etcd);

  /// Takes a lease whose time to live is the peer timeout, rounded up to seconds. Throws
  /// Error{unavailable}.
  std::int64_t take_lease(Time until);
  /// See Rendezvous::join. The result may hold the reason why the run does not begin.
  wire::Begun join(const Facts& facts, std::int64_t lease, Time until);
  /// True if other processes know of this one.
  bool came() const noexcept { return came_.load(); }

  /// Writes a key of the run unless it exists. False if nothing was written because this process is
  /// no longer part of the run. Throws Error{unavailable} if etcd does not answer before `until`.
  bool write(const std::string& key, const std::string& value, Time until) const;
  /// Returns the error for a `write` that was refused.
  Status fenced() const;

  /// Returns "etcd at host:port".
  const std::string& etcd() const noexcept { return etcd_; }
  std::string value_key(const std::string& key) const { return keys_.value(run_, key); }
  std::string left_key() const { return keys_.left(run_, rank_); }
  std::string ended_key() const { return keys_.ended(run_); }
  std::string signs() const { return keys_.signs(run_); }

 private:
  class Patience;

  void ask(Time until, const std::function<grpc::Status()>& call) const;
  etcdserverpb::TxnResponse ask(const EtcdTxn& txn, Time until) const;
  void pause(const std::string& late_for) const;
  Status did_not_come(const std::string& who) const;
  etcdserverpb::RangeResponse ranks() const;
  wire::Begun gather();
  wire::Begun come();
  std::optional<wire::Begun> enter(const etcdserverpb::KeyValue& chief, Patience& patience);
  std::optional<wire::Begun> beginning();

  EtcdClient& client_;
  const Ending& ending_;
  const RendezvousOptions& options_;
  const int rank_;
  const int world_;
  const EtcdKeys keys_;
  const std::string etcd_;
  const std::chrono::seconds lease_time_;
  wire::JoinRequest request_;
  Time until_{};
  // Constant once the process has joined.
  std::int64_t lease_ = 0;
  std::string run_;             // the incarnation of its rank 0
  std::int64_t run_lease_ = 0;  // the lease of its rank 0
  std::int64_t fence_ = 0;      // revision at which the run began
  std::int64_t own_ = 0;        // revision at which this process joined
  std::atomic<bool> came_{false};
};

}  // namespace penstock::cluster
