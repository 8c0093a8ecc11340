#include "cluster/net/etcd_members.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "cluster/net/rendezvous.pb.h"
#include "cluster/net/verdict.h"

namespace penstock::cluster {
namespace {

// etcd's leases watch the time, so the lobby's patience never ends here.
constexpr Lobby::Time kNow{};

}  // namespace

EtcdMembers::EtcdMembers(int world, std::string signs, std::int64_t revision,
                         Lobby::Duration patience)
    : world_(world), signs_(std::move(signs)), next_(revision + 1), lobby_(world, patience) {
  // All facts were compared before, and the revisions in each write prove membership.
  for (int rank = 0; rank < world; ++rank) static_cast<void>(lobby_.join(rank, "", {}, kNow));
}

std::optional<int> EtcdMembers::rank_in(std::string_view name, std::string_view folder) {
  if (!name.starts_with(folder)) return std::nullopt;
  name.remove_prefix(folder.size());
  int rank = -1;
  const auto [rest, wrong] = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (wrong == std::errc() && rest == name.data() + name.size() && rank >= 0 && rank < world_)
    return rank;
  ++refused_;
  return std::nullopt;
}

void EtcdMembers::take(std::string_view name, const std::string& value) {
  if (const std::optional<int> rank = rank_in(name, "left/")) {
    lobby_.leave(*rank, "");
  } else if (name == "ended") {
    wire::BeatRequest last;
    if (last.ParseFromString(value) && last.failed().ended() && last.rank() >= 0 &&
        last.rank() < world_) {
      lobby_.fail(last.rank(), "", status_of(last.failed()).error());
    } else {
      ++refused_;
    }
  }
}

void EtcdMembers::apply(const etcdserverpb::WatchResponse& response) {
  std::vector<int> lost;
  std::int64_t next = next_;
  for (const etcdserverpb::Event& event : response.events()) {
    next = std::max(next, std::min(event.kv().mod_revision(), INT64_MAX - 1) + 1);
    std::string_view name = event.kv().key();
    if (!name.starts_with(signs_)) {
      ++refused_;
      continue;
    }
    name.remove_prefix(signs_.size());
    if (event.type() == etcdserverpb::Event::DELETE) {
      if (const std::optional<int> rank = rank_in(name, "rank/")) lost.push_back(*rank);
    } else {
      lobby_.lose(std::exchange(lost, {}));
      take(name, event.kv().value());
    }
  }
  lobby_.lose(lost);
  next_ = next;  // after everything that may run out of memory; that is then read again
}

void EtcdMembers::apply(const etcdserverpb::RangeResponse& now) {
  std::vector<bool> there(static_cast<std::size_t>(world_));
  for (const etcdserverpb::KeyValue& entry : now.kvs()) {
    std::string_view name = entry.key();
    if (!name.starts_with(signs_)) {
      ++refused_;
      continue;
    }
    name.remove_prefix(signs_.size());
    if (const std::optional<int> rank = rank_in(name, "rank/"))
      there[static_cast<std::size_t>(*rank)] = true;
    else
      take(name, entry.value());
  }
  std::vector<int> lost;
  for (int rank = 0; rank < world_; ++rank)
    if (!there[static_cast<std::size_t>(rank)]) lost.push_back(rank);
  lobby_.lose(lost);
  next_ = std::max(next_, std::min(now.header().revision(), INT64_MAX - 1) + 1);
}

bool all_left(const etcdserverpb::RangeResponse& now, const std::string& signs, int world) {
  std::set<std::string_view> names;
  for (const etcdserverpb::KeyValue& entry : now.kvs())
    if (entry.key().starts_with(signs))
      names.insert(std::string_view(entry.key()).substr(signs.size()));
  for (int rank = 1; rank < world; ++rank)
    if (names.contains("rank/" + std::to_string(rank)) &&
        !names.contains("left/" + std::to_string(rank)))
      return false;
  return true;
}

Lobby lobby_of(const etcdserverpb::RangeResponse& ranks, int world) {
  Lobby lobby(world, Lobby::Duration::max());
  for (const etcdserverpb::KeyValue& entry : ranks.kvs()) {
    wire::JoinRequest request;
    if (!request.ParseFromString(entry.value()) ||
        !entry.key().ends_with("/" + std::to_string(request.rank())))
      continue;
    static_cast<void>(lobby.join(request.rank(), request.incarnation(),
                                 Facts(request.facts().begin(), request.facts().end()), kNow));
  }
  return lobby;
}

}  // namespace penstock::cluster
