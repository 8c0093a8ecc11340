// Pushes to a server, and the updates they make.
#include <algorithm>
#include <cmath>
#include <utility>

#include <penstock/error.h>

#include "towers/servers/served_run.h"
#include "towers/servers/shard_server.h"
#include "towers/updater.h"

namespace penstock::towers {
namespace {

/// Returns the norm over all servers, summed in the order of variables, as one process would.
double norm_of(std::vector<SquareSum> sums) {
  std::ranges::sort(sums, {}, &SquareSum::variable);
  double all = 0;
  for (const SquareSum& one : sums) all += one.squares;
  return std::sqrt(all);
}

}  // namespace

Pushed ShardServer::push(const Trainee& who, const Push& push, Takers& taker) {
  const std::lock_guard lock(mutex_);
  Run& run = heard_in(who);
  run.roster.check_replica(who, push.replica);
  run.check(push);
  return run.synchronous() ? push_pending(run, push) : push_async(run, push, taker);
}

Pushed ShardServer::push_async(Run& run, const Push& push, Takers& taker) {
  Shard& shard = run.shard;
  const auto answer = [&](PushVerdict verdict, std::uint64_t staleness) {
    shard.give_changed(push.have, taker);
    return Pushed{verdict, shard.step(), staleness};
  };
  if (run.ledger.is_settled(push.replica, push.number)) {
    run.ledger.count_repeated();
    return answer(PushVerdict::repeated, 0);
  }
  std::optional<PushLedger::Decision> decision;
  if (run.beginning.server == 0) {
    decision = run.ledger.decide(push.replica, push.number, push.seen, shard.step());
    // Only replicas with a promise that theirs counts can block one that did not ask.
    if (!decision) decision = PushLedger::Decision{PushVerdict::finished, 0};
  } else {
    decision = PushLedger::Decision{push.decided.value_or(PushVerdict::applied), 0};
  }
  if (decision->verdict == PushVerdict::finished) return answer(PushVerdict::finished, 0);
  if (push.rows == 0) decision->verdict = PushVerdict::dropped;
  if (decision->verdict == PushVerdict::applied) {
    for (const Piece& piece : push.pieces) shard.apply(piece);
    shard.commit();
  }
  run.ledger.make_good(push.replica, push.number, *decision);
  run.rows += static_cast<std::uint64_t>(push.rows);
  run.arrived[static_cast<std::size_t>(push.replica)] = push.number;
  changed_.notify_all();
  return answer(decision->verdict, decision->staleness);
}

Pushed ShardServer::push_pending(Run& run, const Push& push) {
  const Pushed kept{PushVerdict::pending, run.shard.step(), 0};
  if (run.line && run.ledger.is_settled(push.replica, push.number)) {
    run.ledger.count_repeated();
    return {PushVerdict::repeated, run.shard.step(), 0};
  }
  // A push that is too old is dropped at its commit, so its values need not be kept.
  if (push.seen >= run.shard.step()) run.held->keep(push);
  std::uint64_t& arrived = run.arrived[static_cast<std::size_t>(push.replica)];
  arrived = std::max(arrived, push.number);
  return kept;
}

Pushed ShardServer::commit(const Trainee& who, int replica, std::uint64_t number,
                           std::uint64_t seen, std::int64_t rows) {
  if (rows < 0)
    throw Error(ErrorCode::invalid_argument,
                "replica " + std::to_string(replica) + " pushes less than no rows");
  Lock lock(mutex_);
  for (;;) {
    const std::shared_ptr<Run> keeps = run_;
    Run& run = heard_in(who);
    run.roster.check_replica(who, replica);
    if (run.beginning.server != 0)
      throw Error(ErrorCode::invalid_argument, "server 0 decides, no other does");
    if (run.updating) {
      changed_.wait(lock);
      continue;
    }
    if (run.ledger.is_settled(replica, number)) {
      run.ledger.count_repeated();
      return {run.ledger.verdict_of(replica, number), run.shard.step(), 0};
    }
    if (run.is_finished()) return {PushVerdict::finished, run.shard.step(), 0};
    if (run.line) return commit_counted(lock, run, {replica, number, rows});
    if (const auto decision = run.ledger.decide(replica, number, seen, run.shard.step())) {
      run.ledger.promise(replica, number, *decision);
      return {decision->verdict, run.shard.step(), decision->staleness};
    }
    changed_.wait(lock);
  }
}

Pushed ShardServer::commit_counted(Lock& lock, Run& run, const Contribution& contribution) {
  const int replica = contribution.replica;
  const std::optional<std::uint64_t> held = run.line->held(replica);
  if (!held)
    throw Error(ErrorCode::invalid_argument,
                "replica " + std::to_string(replica) + " pushes without a token");
  if (*held >= run.shard.step() && !run.held->has(replica, contribution.number))
    throw Error(ErrorCode::invalid_argument, "push " + std::to_string(contribution.number) +
                                                 " of replica " + std::to_string(replica) +
                                                 " is not here");
  const ReplicaTokens::Push what = run.line->push(replica);
  const bool dropped = what == ReplicaTokens::Push::dropped;
  const PushVerdict verdict = dropped ? PushVerdict::dropped : PushVerdict::applied;
  const std::uint64_t staleness = run.shard.step() - *held;
  run.ledger.settle(replica, contribution.number, verdict);
  run.rows += static_cast<std::uint64_t>(contribution.rows);
  if (dropped) {
    ++run.ledger.figures().dropped;
    run.held->drop(replica, contribution.number);
  } else {
    run.counted.push_back(contribution);
  }
  if (what == ReplicaTokens::Push::completed) make_update(lock, run);
  changed_.notify_all();
  return {verdict, run.shard.step(), staleness};
}

void ShardServer::make_update(Lock& lock, Run& run) {
  Update update{run.shard.step(), run.counted, 1};
  std::ranges::stable_sort(update.contributions, {}, &Contribution::replica);
  run.held->combine(update.contributions);
  std::vector<SquareSum> squares;
  const float clip_norm = run.beginning.clip_norm;
  if (clip_norm > 0) squares = run.held->squares();
  if (!run.others.empty()) {
    run.updating = true;
    lock.unlock();
    Status error;
    try {
      if (clip_norm > 0)
        for (const auto& other : run.others)
          std::ranges::copy(other->norms(run.beginning.run, update), std::back_inserter(squares));
      if (clip_norm > 0) update.scale = clip_scale(norm_of(squares), clip_norm);
      for (const auto& other : run.others) other->apply(run.beginning.run, update);
    } catch (...) {
      error = status_from_current_exception();
    }
    lock.lock();
    run.updating = false;
    if (!error.ok()) {
      end_locked(run, error);
      throw Error(error.error());
    }
  } else if (clip_norm > 0) {
    update.scale = clip_scale(norm_of(squares), clip_norm);
  }
  apply_here(run, update);
  run.counted.clear();
  run.line->updated();
}

void ShardServer::apply_here(Run& run, const Update& update) {
  run.held->apply(run.shard, update.scale);
  run.shard.commit();
  run.held->clear();
  run.ledger.figures().applied += update.contributions.size();
}

void ShardServer::check_update(const Run& run, const Update& update) {
  if (!run.synchronous() || run.line)
    throw Error(ErrorCode::invalid_argument, "updates are told to servers of sync_replicas only");
  if (update.step > run.shard.step())
    throw Error(ErrorCode::internal, "update " + std::to_string(update.step) +
                                         " comes before update " +
                                         std::to_string(run.shard.step()));
}

std::vector<SquareSum> ShardServer::norms(const std::string& run, const Update& update) {
  const std::lock_guard lock(mutex_);
  Run& mine = run_of(run);
  check_update(mine, update);
  if (update.step < mine.shard.step()) return {};  // a repeated call
  mine.held->combine(update.contributions);
  return mine.held->squares();
}

void ShardServer::apply(const std::string& run, const Update& update) {
  const std::lock_guard lock(mutex_);
  Run& mine = run_of(run);
  check_update(mine, update);
  if (update.step < mine.shard.step()) return;  // it is made already
  mine.held->combine(update.contributions);
  apply_here(mine, update);
}

void ShardServer::wait_while_updating(Lock& lock, const Run& run) {
  while (run.updating && !run.ended) changed_.wait(lock);
  if (run.ended && !run.ended->ok()) throw Error(run.ended->error());
}

}  // namespace penstock::towers
