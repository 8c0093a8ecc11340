#include "towers/servers/shard_server.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <penstock/error.h>
#include <penstock/log.h>

#include "towers/servers/served_run.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace {

using Clock = std::chrono::steady_clock;

/// Logs a warning of `gone`.
void warn(const std::string& warning) {
  if (!warning.empty()) log(LogLevel::warning, warning);
}

}  // namespace

ShardServer::ShardServer(ShardServerOptions options) : options_(std::move(options)) {}

ShardServer::~ShardServer() {
  stop(Error(ErrorCode::cancelled, "the parameter server ends"));
}

void ShardServer::look() {
  std::vector<std::string> warnings;
  {
    const MutexLock lock(mutex_);
    if (!run_ || run_->ended) return;
    for (const int process : run_->roster.look(options_.now()))
      warnings.push_back(gone(*run_, process));
    changed_.notify_all();
  }
  for (const std::string& warning : warnings) warn(warning);
}

std::string ShardServer::gone(Run& run, int process) {
  const std::string& why = run.roster.why_lost(process);
  if (process == 0) {
    end_locked(run, Error(ErrorCode::unavailable, "the chief was lost: " + why));
    return {};
  }
  if (run.beginning.all_needed) {
    end_locked(run, Error(ErrorCode::unavailable, name_of_process(process) + " was lost: " + why));
    return {};
  }
  if (run.beginning.server != 0) return {};
  for (int r = run.roster.first_replica(process); r < run.roster.first_replica(process + 1); ++r)
    run.drop_out(r);
  return name_of_process(process) + " is lost: " + why;
}

void ShardServer::stop(const Status& why) noexcept {
  const MutexLock lock(mutex_);
  if (run_) end_locked(*run_, why);
  stopped_ = why;
  changed_.notify_all();
}

void ShardServer::end_locked(Run& run, const Status& why) noexcept {
  if (!run.ended) run.ended = why;
  changed_.notify_all();
}

bool ShardServer::begun() {
  const MutexLock lock(mutex_);
  return run_ != nullptr;
}

std::optional<Status> ShardServer::ended(std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  const MutexLock lock(mutex_);
  while (!(run_ && run_->ended) && Clock::now() < until) changed_.wait_until(mutex_, until);
  return run_ ? run_->ended : std::nullopt;
}

void ShardServer::wait_until_known(std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  const MutexLock lock(mutex_);
  while (run_ && !run_->all_know() && Clock::now() < until) changed_.wait_until(mutex_, until);
}

ShardServer::Run& ShardServer::run_of(const std::string& run) {
  if (!run_ || run_->beginning.run != run)
    throw Error(ErrorCode::cancelled, "this parameter server has another run, or none");
  if (run_->ended && !run_->ended->ok()) throw Error(run_->ended->error());
  return *run_;
}

ShardServer::Run& ShardServer::heard_in(const Trainee& who) {
  if (!run_ || !run_->ready) throw Error(ErrorCode::cancelled, "this parameter server has no run");
  if (run_->ended && !run_->ended->ok()) {
    run_->note_told(who.process);
    changed_.notify_all();
    throw Error(run_->ended->error());
  }
  run_->roster.hear(who, options_.now());
  return *run_;
}

void ShardServer::begin(const Beginning& beginning, const Trainee& chief) {
  const MutexLock lock(mutex_);
  if (!stopped_.ok()) throw Error(stopped_.error());
  if (run_ && run_->beginning.run == beginning.run) return;  // repeated
  if (run_ && !run_->ended)
    throw Error(ErrorCode::unavailable, "an earlier run has not ended on this parameter server");
  run_ = std::make_shared<Run>(beginning, chief, options_);
}

void ShardServer::give(const std::string& run, int slot, const Piece& values) {
  const MutexLock lock(mutex_);
  Run& mine = run_of(run);
  if (mine.ready)
    throw Error(ErrorCode::invalid_argument, "values may be given before the run is ready only");
  mine.hear_chief(options_.now());
  mine.shard.give(slot, values);
}

void ShardServer::ready(const std::string& run) {
  std::vector<std::string> others;
  {
    const MutexLock lock(mutex_);
    Run& mine = run_of(run);
    if (mine.ready) return;
    if (mine.leads_others()) others = mine.beginning.servers;
  }
  std::vector<std::unique_ptr<ParameterServer>> connected;
  for (std::size_t s = 1; s < others.size(); ++s) connected.push_back(options_.connect(others[s]));
  const MutexLock lock(mutex_);
  Run& mine = run_of(run);
  if (mine.ready) return;
  mine.others = std::move(connected);
  mine.hear_chief(options_.now());
  mine.ready = true;
  changed_.notify_all();
}

void ShardServer::check_facts(const Run& run, const Trainee& who,
                              const std::map<std::string, std::string>& facts) {
  for (const auto& [name, chiefs] : run.beginning.facts) {
    const auto mine = facts.find(name);
    const std::string& here = mine != facts.end() ? mine->second : "unknown";
    if (here != chiefs)
      throw Error(ErrorCode::invalid_argument, name_of_process(who.process) + " has another " +
                                                   name + " than the chief: " + here + ", not " +
                                                   chiefs);
  }
}

bool ShardServer::is_open() const {
  return run_ && run_->ready && !run_->ended;
}

Entered ShardServer::enter(const Trainee& who, const std::map<std::string, std::string>& facts,
                           std::chrono::milliseconds limit) {
  const Roster::Time asked = options_.now();
  const auto until = Clock::now() + limit;
  const MutexLock lock(mutex_);
  // A run that was already over may be followed by another, so wait for that. The end of a run that
  // is still open concerns this process.
  const std::shared_ptr<Run> over = run_ && run_->ended ? run_ : nullptr;
  for (bool in_time = true;; in_time = changed_.wait_until(mutex_, until)) {
    if (!stopped_.ok()) throw Error(stopped_.error());
    if (run_ && run_ != over && run_->ended && !run_->ended->ok())
      throw Error(run_->ended->error());
    if (run_ && run_->ended && (run_ != over || (!in_time && run_->ended->ok()))) {
      run_->note_told(who.process);
      changed_.notify_all();
      return {.run = run_->beginning.run, .step = run_->shard.step(), .finished = true};
    }
    if (is_open()) {
      check_facts(*run_, who, facts);
      run_->roster.check(who);
      if (run_->roster.chief_lives(who.process, asked, options_.now())) break;
    }
    if (!in_time)
      throw Error(ErrorCode::no_progress,
                  (is_open() ? "the chief gave no sign of life to this parameter server in "
                             : "no run has begun on this parameter server in ") +
                      std::to_string(limit.count()) + " ms");
  }
  Run& run = *run_;
  if (run.roster.enter(who, options_.now()))
    for (int r = run.roster.first_replica(who.process);
         r < run.roster.first_replica(who.process + 1); ++r)
      run.come_back(r);
  changed_.notify_all();
  Entered entered{run.beginning.run, run.shard.step(), run.received(), {}};
  if (run.beginning.server == 0)
    entered.feed = run.feeds[static_cast<std::size_t>(who.process)].at(
        run.pushes_of(who.process, entered.pushes));
  return entered;
}

Status ShardServer::beat(const Trainee& who, const Status& failed) {
  std::string warning;
  {
    const MutexLock lock(mutex_);
    if (run_ && !run_->ready && who.process == 0) run_->hear_chief(options_.now());
    if (run_ && !run_->ready) return {};
    Run& run = heard_in(who);
    if (who.process == 0) changed_.notify_all();  // entering processes wait for this
    if (failed.ok()) return {};
    if (who.process == 0) {
      end_locked(run, failed);
    } else if (run.roster.lose(who.process, failed.error().what(), options_.now())) {
      warning = gone(run, who.process);
      changed_.notify_all();
    }
  }
  warn(warning);
  return {};
}

void ShardServer::keep_feed(const Trainee& who, const KeptFeed& feed) {
  const MutexLock lock(mutex_);
  Run& run = heard_in(who);
  if (run.feeds.empty())
    throw Error(ErrorCode::invalid_argument, "server 0 keeps positions of inputs, no other does");
  run.feeds[static_cast<std::size_t>(who.process)].add(feed);
}

void ShardServer::leave(const Trainee& who, int replica) {
  const MutexLock lock(mutex_);
  Run& run = heard_in(who);
  run.roster.check_replica(who, replica);
  run.roster.leave(replica);
  run.drop_out(replica);
  changed_.notify_all();
}

SnapshotHead ShardServer::keep(const std::string& run) {
  MutexLock lock(mutex_);
  const std::shared_ptr<Run> mine = (static_cast<void>(run_of(run)), run_);
  if (mine->leads_others()) {
    // No update is made meanwhile, so that all servers keep the state after the same update.
    wait_while_updating(*mine);
    mine->updating = true;
    lock.unlock();
    Status error;
    try {
      for (const auto& other : mine->others) static_cast<void>(other->keep_here(run));
    } catch (...) {
      error = status_from_current_exception();
    }
    lock.lock();
    mine->updating = false;
    changed_.notify_all();
    if (!error.ok()) throw Error(error.error());
  }
  mine->shard.keep();
  return mine->head();
}

SnapshotHead ShardServer::keep_here(const std::string& run) {
  const MutexLock lock(mutex_);
  Run& mine = run_of(run);
  mine.shard.keep();
  return mine.head();
}

void ShardServer::snapshot(const std::string& run, int slot, Takers& taker) {
  const MutexLock lock(mutex_);
  run_of(run).shard.snapshot(slot, taker);
}

ServerFigures ShardServer::figures(const std::string& run) {
  const MutexLock lock(mutex_);
  return run_of(run).figures(options_.now());
}

void ShardServer::end(const std::string& run, const Status& why) {
  const MutexLock lock(mutex_);
  if (!run_ || run_->beginning.run != run) return;
  run_->told.front() = 1;  // the chief knows
  end_locked(*run_, why);
}

std::uint64_t ShardServer::pull(const Trainee& who, std::uint64_t have, Takers& taker) {
  const MutexLock lock(mutex_);
  Run& run = heard_in(who);
  run.shard.give_changed(have, taker);
  return run.shard.step();
}

void ShardServer::pull_rows(const Trainee& who, std::uint32_t variable,
                            const std::vector<std::int64_t>& rows, float* values,
                            std::size_t count) {
  const MutexLock lock(mutex_);
  heard_in(who).shard.copy_rows(variable, rows, {values, count});
}

bool ShardServer::take(const Trainee& who, int replica, std::chrono::milliseconds limit,
                       std::uint64_t& step, bool& finished) {
  const MutexLock lock(mutex_);
  const auto until = Clock::now() + limit;
  for (;;) {
    Run& run = heard_in(who);
    run.roster.check_replica(who, replica);
    if (!run.line)
      throw Error(ErrorCode::invalid_argument, "server 0 of sync_replicas has tokens only");
    finished = run.is_finished();
    if (finished) return true;
    if (const auto held = run.line->held(replica)) {
      step = *held;
      return true;
    }
    if (!changed_.wait_until(mutex_, until)) return false;
  }
}

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
  const MutexLock lock(mutex_);
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
  const MutexLock lock(mutex_);
  for (;;) {
    const std::shared_ptr<Run> keeps = run_;
    Run& run = heard_in(who);
    run.roster.check_replica(who, replica);
    if (run.beginning.server != 0)
      throw Error(ErrorCode::invalid_argument, "server 0 decides, no other does");
    if (run.updating) {
      changed_.wait(mutex_);
      continue;
    }
    if (run.ledger.is_settled(replica, number)) {
      run.ledger.count_repeated();
      return {run.ledger.verdict_of(replica, number), run.shard.step(), 0};
    }
    if (run.is_finished()) return {PushVerdict::finished, run.shard.step(), 0};
    if (run.line) return commit_counted(run, {replica, number, rows});
    if (const auto decision = run.ledger.decide(replica, number, seen, run.shard.step())) {
      run.ledger.promise(replica, number, *decision);
      return {decision->verdict, run.shard.step(), decision->staleness};
    }
    changed_.wait(mutex_);
  }
}

Pushed ShardServer::commit_counted(Run& run, const Contribution& contribution) {
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
  if (what == ReplicaTokens::Push::completed) make_update(run);
  changed_.notify_all();
  return {verdict, run.shard.step(), staleness};
}

void ShardServer::make_update(Run& run) {
  Update update{run.shard.step(), run.counted, 1};
  std::ranges::stable_sort(update.contributions, {}, &Contribution::replica);
  run.held->combine(update.contributions);
  std::vector<SquareSum> squares;
  const float clip_norm = run.beginning.clip_norm;
  if (clip_norm > 0) squares = run.held->squares();
  if (!run.others.empty()) {
    run.updating = true;
    mutex_.unlock();
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
    mutex_.lock();
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
  const MutexLock lock(mutex_);
  Run& mine = run_of(run);
  check_update(mine, update);
  if (update.step < mine.shard.step()) return {};  // a repeated call
  mine.held->combine(update.contributions);
  return mine.held->squares();
}

void ShardServer::apply(const std::string& run, const Update& update) {
  const MutexLock lock(mutex_);
  Run& mine = run_of(run);
  check_update(mine, update);
  if (update.step < mine.shard.step()) return;  // it is made already
  mine.held->combine(update.contributions);
  apply_here(mine, update);
}

void ShardServer::wait_while_updating(const Run& run) {
  while (run.updating && !run.ended) changed_.wait(mutex_);
  if (run.ended && !run.ended->ok()) throw Error(run.ended->error());
}

}  // namespace penstock::towers
