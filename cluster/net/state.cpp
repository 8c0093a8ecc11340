#include "cluster/net/state.h"

#include <chrono>

#include "cluster/net/limits.h"
#include "cluster/net/verdict.h"

namespace penstock::cluster {
namespace {

Lobby::Time now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

wire::JoinReply RendezvousState::join(const wire::JoinRequest& request) {
  wire::JoinReply reply;
  const MutexLock lock(mutex_);
  if (request.world() != world_) {
    *reply.mutable_refused() = verdict_of(other_world(request.rank(), request.world(), world_));
    return reply;
  }
  const Status joined = lobby_.join(request.rank(), request.incarnation(),
                                    Facts(request.facts().begin(), request.facts().end()), now());
  lobby_.look(now());
  *reply.mutable_refused() = verdict_of(joined);
  *reply.mutable_verdict() = verdict_of(lobby_.status());
  reply.set_complete(lobby_.complete());
  reply.set_missing(lobby_.missing());
  return reply;
}

wire::BeatReply RendezvousState::beat(const wire::BeatRequest& request) {
  const MutexLock lock(mutex_);
  if (request.has_failed() && request.failed().ended())
    lobby_.fail(request.rank(), request.incarnation(), status_of(request.failed()).error());
  lobby_.beat(request.rank(), request.incarnation(), now());
  if (!request.said().empty() && request.said().size() <= kMostBytesSaid &&
      lobby_.knows(request.rank(), request.incarnation()))
    said_[static_cast<std::size_t>(request.rank())] = request.said();
  if (request.leaving()) lobby_.leave(request.rank(), request.incarnation());
  lobby_.look(now());
  wire::BeatReply reply;
  *reply.mutable_verdict() = verdict_of(lobby_.status());
  reply.set_steady_ns(std::chrono::nanoseconds(now().time_since_epoch()).count());
  return reply;
}

wire::PutReply RendezvousState::put(const wire::PutRequest& request) {
  wire::PutReply reply;
  const MutexLock lock(mutex_);
  const Status room = room_for(request.key(), request.value(), stored_bytes_);
  *reply.mutable_refused() = verdict_of(room);
  if (room.ok() && values_.emplace(request.key(), request.value()).second)
    stored_bytes_ += request.key().size() + request.value().size();
  return reply;
}

wire::GetReply RendezvousState::get(const wire::GetRequest& request) {
  wire::GetReply reply;
  const MutexLock lock(mutex_);
  lobby_.look(now());
  *reply.mutable_verdict() = verdict_of(lobby_.status());
  const auto found = values_.find(request.key());
  reply.set_found(found != values_.end());
  if (reply.found()) reply.set_value(found->second);
  return reply;
}

bool RendezvousState::knows(int rank, const std::string& incarnation) {
  const MutexLock lock(mutex_);
  return lobby_.knows(rank, incarnation);
}

std::vector<std::string> RendezvousState::said() {
  const MutexLock lock(mutex_);
  return said_;
}

bool RendezvousState::all_left() {
  const MutexLock lock(mutex_);
  return lobby_.all_left(now());
}

}  // namespace penstock::cluster
