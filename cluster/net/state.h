// Rank 0's state of a job, and its answers to the other ranks.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/lobby.h"
#include "cluster/net/rendezvous.pb.h"

namespace penstock::cluster {

/// A lobby and a key-value store. Requests may come from any process and hold anything. Calls
/// return at once; a client that waits asks again. Thread-safe.
class RendezvousState {
 public:
  RendezvousState(int world, Lobby::Duration patience)
      : world_(world), lobby_(world, patience), said_(static_cast<std::size_t>(world)) {}

  wire::JoinReply join(const wire::JoinRequest& request);
  wire::BeatReply beat(const wire::BeatRequest& request);
  wire::PutReply put(const wire::PutRequest& request);
  wire::GetReply get(const wire::GetRequest& request);
  /// True once every rank that joined has left or is lost, so the server is no longer needed.
  bool all_left();
  bool knows(int rank, const std::string& incarnation);
  /// Returns each rank's last status text.
  std::vector<std::string> said();

 private:
  const int world_;
  std::mutex mutex_;
  // Guarded by mutex_.
  Lobby lobby_;
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t stored_bytes_ = 0;
  std::vector<std::string> said_;
};

}  // namespace penstock::cluster
