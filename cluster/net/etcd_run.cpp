#include "cluster/net/etcd_run.h"

#include <thread>
#include <utility>

#include "cluster/net/open.h"
#include "cluster/net/verdict.h"

namespace penstock::cluster {
namespace {

using etcdserverpb::KeyValue;
using etcdserverpb::RangeResponse;
using etcdserverpb::TxnResponse;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

wire::JoinRequest request_in(const KeyValue& entry) {
  wire::JoinRequest request;
  if (!request.ParseFromString(entry.value())) request.Clear();
  return request;
}

}  // namespace

/// A wait for another process's keys to disappear. If they are still there after its lease would
/// have ended, that process lives.
class EtcdRun::Patience {
 public:
  explicit Patience(milliseconds most) : most_(most) {}
  /// True if this same key has been seen for too long.
  bool ended_with(const KeyValue& seen) {
    if (seen.key() != key_ || seen.create_revision() != revision_) {
      key_ = seen.key();
      revision_ = seen.create_revision();
      since_ = Clock::now();
    }
    return Clock::now() - since_ > most_;
  }

 private:
  const milliseconds most_;
  std::string key_;
  std::int64_t revision_ = 0;
  Time since_{};
};

EtcdRun::EtcdRun(EtcdClient& client, const Ending& ending, const Cluster& cluster,
                 const RendezvousOptions& options, const std::string& job, std::string etcd)
    : client_(client),
      ending_(ending),
      options_(options),
      rank_(cluster.rank),
      world_(cluster.world),
      keys_(job),
      etcd_(std::move(etcd)),
      lease_time_((options.peer_timeout + milliseconds(999)) / milliseconds(1000)) {
  request_.set_rank(rank_);
  request_.set_world(world_);
  request_.set_incarnation(new_incarnation());
}

void EtcdRun::ask(Time until, const std::function<grpc::Status()>& call) const {
  for (;;) {
    const grpc::Status sent = call();
    if (sent.ok()) return;
    const Status ended = ending_.status();
    if (!ended.ok()) throw Error(ended.error());
    if (!may_pass(sent))
      throw Error(ErrorCode::unavailable, etcd_ + " rejected a request: " + sent.error_message());
    if (Clock::now() >= until)
      throw Error(ErrorCode::unavailable, etcd_ + " was not reached: " + sent.error_message());
    std::this_thread::sleep_for(milliseconds(20));
  }
}

TxnResponse EtcdRun::ask(const EtcdTxn& txn, Time until) const {
  TxnResponse reply;
  ask(until, [&] { return client_.txn(txn.request(), reply); });
  return reply;
}

std::int64_t EtcdRun::take_lease(Time until) {
  etcdserverpb::LeaseGrantResponse reply;
  ask(until, [&] { return client_.grant(lease_time_, reply); });
  if (reply.id() == 0)
    throw Error(ErrorCode::unavailable, etcd_ + " granted no lease: " + reply.error());
  return reply.id();
}

wire::Begun EtcdRun::join(const Facts& facts, std::int64_t lease, Time until) {
  for (const auto& [name, value] : facts) (*request_.mutable_facts())[name] = value;
  lease_ = lease;
  until_ = until;
  return rank_ == 0 ? gather() : come();
}

/// Waits a moment. Throws if there is no time left.
void EtcdRun::pause(const std::string& late_for) const {
  const Status ended = ending_.status();
  if (!ended.ok()) throw Error(ended.error());
  if (Clock::now() >= until_) throw Error(did_not_come(late_for).error());
  std::this_thread::sleep_for(milliseconds(20 + world_ / 2));
}

Status EtcdRun::did_not_come(const std::string& who) const {
  return {ErrorCode::no_progress, who + " did not join the rendezvous within " +
                                      std::to_string(options_.join_timeout.count()) + " ms"};
}

RangeResponse EtcdRun::ranks() const {
  etcdserverpb::RangeRequest request;
  request.set_key(keys_.signs(run_) + "rank/");
  request.set_range_end(EtcdKeys::behind(request.key()));
  request.set_count_only(true);
  RangeResponse reply;
  ask(until_, [&] { return client_.range(request, reply); });
  if (reply.count() < world_ && Clock::now() < until_) return reply;
  request.set_count_only(false);
  ask(until_, [&] { return client_.range(request, reply); });
  return reply;
}

/// For rank 0: begins a run, waits for all ranks, and decides whether the run begins.
wire::Begun EtcdRun::gather() {
  run_ = request_.incarnation();
  run_lease_ = lease_;
  const std::string me = request_.SerializeAsString();
  EtcdTxn first;
  first.created_at(keys_.chief(), 0)
      .put(keys_.chief(), me, lease_)
      .put(keys_.rank(run_, 0), me, lease_)
      .otherwise_get(keys_.chief());
  Patience patience(lease_time_ + seconds(3));
  for (; fence_ == 0; pause("the end of the job's earlier run")) {
    const TxnResponse reply = ask(first, until_);
    const KeyValue* const found = reply.succeeded() ? nullptr : read_by(reply, 0);
    if (reply.succeeded()) {
      fence_ = reply.header().revision();
    } else if (found != nullptr && request_in(*found).incarnation() == run_) {
      fence_ = found->create_revision();  // the answer to an earlier attempt was lost
    } else if (found != nullptr && patience.ended_with(*found)) {
      throw Error(second_process(rank_).error());
    }
  }
  own_ = fence_;
  came_ = true;
  for (;; std::this_thread::sleep_for(milliseconds(20 + world_ / 2))) {
    const Status ended = ending_.status();
    if (!ended.ok()) throw Error(ended.error());
    const RangeResponse reply = ranks();
    const Lobby lobby = lobby_of(reply, world_);
    if (!lobby.complete() && Clock::now() < until_) continue;
    wire::Begun begun;
    begun.set_revision(reply.header().revision());
    *begun.mutable_verdict() =
        verdict_of(lobby.complete() ? lobby.status() : did_not_come(lobby.missing()));
    if (!write(keys_.begun(run_), begun.SerializeAsString(), Clock::now() + options_.peer_timeout))
      throw Error(fenced().error());
    return begun;
  }
}

/// For all other ranks: joins the first run that admits this process, and waits until it begins.
wire::Begun EtcdRun::come() {
  EtcdTxn chief;
  chief.get(keys_.chief());
  Patience patience(lease_time_ + seconds(3));
  for (;;) {
    const TxnResponse reply = ask(chief, until_);
    const KeyValue* const found = read_by(reply, 0);
    if (found != nullptr) {
      const int world = request_in(*found).world();
      // A difference may stem from an earlier run.
      if (world != world_ && patience.ended_with(*found))
        throw Error(other_world(rank_, world_, world).error());
      if (world == world_)
        if (const std::optional<wire::Begun> begun = enter(*found, patience)) return *begun;
    }
    pause(found == nullptr ? "rank 0" : "the end of the job's earlier run");
  }
}

/// Returns nothing if that run began without this process, or has ended.
std::optional<wire::Begun> EtcdRun::enter(const KeyValue& chief, Patience& patience) {
  run_ = request_in(chief).incarnation();
  run_lease_ = chief.lease();
  fence_ = chief.create_revision();
  const std::string mine = keys_.rank(run_, rank_);
  EtcdTxn txn;
  txn.created_at(keys_.chief(), fence_)
      .created_at(keys_.begun(run_), 0)
      .created_at(mine, 0)
      .put(mine, request_.SerializeAsString(), lease_)
      .otherwise_get(mine);
  const TxnResponse reply = ask(txn, until_);
  const KeyValue* const found = reply.succeeded() ? nullptr : read_by(reply, 0);
  if (reply.succeeded()) {
    own_ = reply.header().revision();
  } else if (found == nullptr) {
    return std::nullopt;
  } else if (request_in(*found).incarnation() == request_.incarnation()) {
    own_ = found->create_revision();
  } else if (patience.ended_with(*found)) {
    throw Error(second_process(rank_).error());
  } else {
    return std::nullopt;
  }
  came_ = true;
  std::optional<wire::Begun> begun = beginning();
  if (!begun) came_ = false;
  return begun;
}

/// Waits for rank 0's decision. Rank 0 names the ranks that did not come, and may have started to
/// wait later than this process.
std::optional<wire::Begun> EtcdRun::beginning() {
  constexpr seconds kForRank0{2};
  EtcdTxn look;
  look.get(keys_.chief()).get(keys_.begun(run_));
  for (;;) {
    const TxnResponse now = ask(look, until_ + kForRank0);
    const KeyValue* const chief = read_by(now, 0);
    if (chief == nullptr || chief->create_revision() != fence_) return std::nullopt;
    const KeyValue* const entry = read_by(now, 1);
    wire::Begun begun;
    if (entry != nullptr && begun.ParseFromString(entry->value())) {
      const bool without_me = !begun.verdict().ended() && own_ > begun.revision();
      return without_me ? std::nullopt : std::optional(begun);
    }
    const Status ended = ending_.status();
    if (!ended.ok()) throw Error(ended.error());
    if (Clock::now() >= until_ + kForRank0) {
      const std::string missing = lobby_of(ranks(), world_).missing();
      throw Error(did_not_come(missing.empty() ? "rank 0's answer" : missing).error());
    }
    std::this_thread::sleep_for(milliseconds(20 + world_ / 2));
  }
}

bool EtcdRun::write(const std::string& key, const std::string& value, Time until) const {
  const std::string mine = keys_.rank(run_, rank_);
  EtcdTxn txn;
  txn.created_at(keys_.chief(), fence_)
      .created_at(mine, own_)
      .created_at(key, 0)
      .put(key, value, run_lease_)
      .otherwise_get(keys_.chief())
      .otherwise_get(mine);
  const TxnResponse reply = ask(txn, until);
  if (reply.succeeded()) return true;
  const KeyValue* const chief = read_by(reply, 0);
  const KeyValue* const own = read_by(reply, 1);
  return chief != nullptr && chief->create_revision() == fence_ && own != nullptr &&
         own->create_revision() == own_;
}

Status EtcdRun::fenced() const {
  return {ErrorCode::unavailable,
          "this process, rank " + std::to_string(rank_) +
              ", is out of the job: its keys in etcd, or those of rank 0, are gone"};
}

}  // namespace penstock::cluster
