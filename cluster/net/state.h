// Rank 0's state of a job, and its answers to the other ranks.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "cluster/lobby.h"
#include "cluster/net/rendezvous.pb.h"

namespace penstock::cluster {

/// A lobby and a key-value store. Requests may come from any process and hold anything. Calls
/// return at once; a client that waits asks again. Thread-safe.
class RendezvousState {
 public:
  RendezvousState(int world, Lobby::Duration patience)
      : world_(world), lobby_(world, patience), said_(static_cast<std::size_t>(world)) {}

  wire::JoinReply join(const wire::JoinRequest& request) EXCLUDES(mutex_);
  wire::BeatReply beat(const wire::BeatRequest& request) EXCLUDES(mutex_);
  wire::PutReply put(const wire::PutRequest& request) EXCLUDES(mutex_);
  wire::GetReply get(const wire::GetRequest& request) EXCLUDES(mutex_);
  /// True once every rank that joined has left or is lost, so the server is no longer needed.
  bool all_left() EXCLUDES(mutex_);
  bool knows(int rank, const std::string& incarnation) EXCLUDES(mutex_);
  /// Returns each rank's last status text.
  std::vector<std::string> said() EXCLUDES(mutex_);

 private:
  const int world_;
  Mutex mutex_;
  Lobby lobby_ GUARDED_BY(mutex_);
  std::map<std::string, std::string, std::less<>> values_ GUARDED_BY(mutex_);
  std::size_t stored_bytes_ GUARDED_BY(mutex_) = 0;
  std::vector<std::string> said_ GUARDED_BY(mutex_);
};

}  // namespace penstock::cluster
