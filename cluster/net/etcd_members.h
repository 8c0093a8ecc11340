// The meaning of etcd's keys for one run of a job. There are no threads or sockets here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/lobby.h"
#include "cluster/net/etcd.pb.h"

namespace penstock::cluster {

/// The keys of a job and of its runs. A run ends with the lease of its rank 0. All keys of a run
/// are attached to that lease, except the keys of the other ranks, which are attached to their own.
class EtcdKeys {
 public:
  explicit EtcdKeys(const std::string& job) : job_("/penstock/" + job + "/") {}

  /// Holds the process that is rank 0 (a JoinRequest). The key's creation revision is the fencing
  /// token, which every write compares.
  std::string chief() const { return job_ + "chief"; }
  // `run` is the incarnation of the run's rank 0.
  std::string begun(const std::string& run) const { return job_ + run + "/begun"; }
  std::string value(const std::string& run, const std::string& key) const {
    return job_ + run + "/values/" + key;
  }
  /// Returns the folder that ranks watch.
  std::string signs(const std::string& run) const { return job_ + run + "/signs/"; }
  std::string rank(const std::string& run, int rank) const {
    return signs(run) + "rank/" + std::to_string(rank);
  }
  std::string left(const std::string& run, int rank) const {
    return signs(run) + "left/" + std::to_string(rank);
  }
  std::string ended(const std::string& run) const { return signs(run) + "ended"; }
  /// Returns the first key after all keys that begin with `prefix`, which ends with '/'.
  static std::string behind(std::string prefix) {
    ++prefix.back();
    return prefix;
  }

 private:
  const std::string job_;
};

/// The membership of a run that has begun with all its ranks. Not synchronised.
class EtcdMembers {
 public:
  /// `signs`: see EtcdKeys. `revision` is one at which all ranks were there.
  EtcdMembers(int world, std::string signs, std::int64_t revision, Lobby::Duration patience);

  /// Applies the next response of a watch. Malformed keys and values are ignored and counted.
  void apply(const etcdserverpb::WatchResponse& response);
  /// Applies all keys under `signs`, for the case that etcd has dropped the history in between.
  void apply(const etcdserverpb::RangeResponse& now);
  /// Returns the revision at which a watch has to start.
  std::int64_t next_revision() const noexcept { return next_; }

  /// Returns success, or the error that ended the job, which names the rank.
  const Status& status() const noexcept { return lobby_.status(); }
  std::size_t refused() const noexcept { return refused_; }

 private:
  void take(std::string_view name, const std::string& value);
  std::optional<int> rank_in(std::string_view name, std::string_view folder);

  const int world_;
  const std::string signs_;
  std::int64_t next_;
  std::size_t refused_ = 0;
  Lobby lobby_;
};

/// True if every rank except 0 has left or has no key. `now` holds all keys under `signs`.
bool all_left(const etcdserverpb::RangeResponse& now, const std::string& signs, int world);

/// Returns the ranks that have joined a run that has not begun, from its keys under signs(run) +
/// "rank/". Malformed ones are left out.
Lobby lobby_of(const etcdserverpb::RangeResponse& ranks, int world);

}  // namespace penstock::cluster
