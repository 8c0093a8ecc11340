// The ways in which a process begins a run on parameter servers, or enters one.
#include <algorithm>
#include <chrono>
#include <thread>

#include <penstock/error.h>
#include <penstock/log.h>

#include "towers/gpu/gpu.h"
#include "towers/servers/served_strategy.h"

namespace penstock::towers {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookForRun{200};

void take_least(Pushes& least, const Pushes& other) {
  std::ranges::transform(least, other, least.begin(),
                         [](std::uint64_t a, std::uint64_t b) { return std::min(a, b); });
}

}  // namespace

std::string ServedStrategy::start(const Start& start) {
  max_steps_ = start.max_steps;
  all_needed_ = start.all_needed;
  verdict_first_ = !sync_ && servers() > 1 && (start.max_steps > 0 || options_.max_staleness >= 0);
  const std::string position = job_.process == 0 ? begin_run(start) : enter_run(start);
  for (int t = 0; t < store_.towers() && !over_; ++t) pull(t);
  return position;
}

void ServedStrategy::check_position(const ServedPosition& position) const {
  const auto refuse = [](const std::string& what, std::size_t was, std::size_t is) {
    throw Error(ErrorCode::invalid_argument, "the checkpoint is of a run with " +
                                                 std::to_string(was) + " " + what + ", not " +
                                                 std::to_string(is));
  };
  if (position.feeds.size() != static_cast<std::size_t>(job_.processes))
    refuse("processes", position.feeds.size(), static_cast<std::size_t>(job_.processes));
  for (const KeptFeed& feed : position.feeds)
    if (feed.pushes.size() != static_cast<std::size_t>(store_.towers()))
      refuse("towers in each process", feed.pushes.size(),
             static_cast<std::size_t>(store_.towers()));
  // Each server resumes from its own state, because with async some have a push that others lack.
  if (position.heads.size() != job_.servers.size() &&
      std::ranges::any_of(position.heads, [&](const SnapshotHead& head) {
        return head.pushes != position.heads.front().pushes;
      }))
    refuse("parameter servers", position.heads.size(), job_.servers.size());
}

Beginning ServedStrategy::beginning_for(const Start& start, int server) const {
  Beginning beginning;
  beginning.run = run_;
  beginning.facts = start.facts;
  beginning.server = server;
  beginning.processes = job_.processes;
  beginning.replicas = job_.processes * store_.towers();
  beginning.strategy = std::string(name_of(options_.kind));
  beginning.aggregate = options_.aggregate;
  beginning.max_staleness = options_.max_staleness;
  beginning.max_steps = start.max_steps;
  beginning.combine = options_.combine == Combine::sum ? "sum" : "average";
  beginning.optimizer = options_.update.optimizer->describe();
  beginning.schedule = options_.update.schedule.describe();
  beginning.planned_steps = start.planned_steps;
  beginning.clip_norm = options_.update.clip_norm;
  beginning.batches = start.batches;
  beginning.all_needed = start.all_needed;
  beginning.step = step_;
  for (std::size_t v = 0; v < server_of_.size(); ++v) {
    const Variable& variable = *store_.of(0)[v];
    if (server_of_[v] == server)
      beginning.variables.push_back({static_cast<std::uint32_t>(v), variable.name,
                                     variable.value.shape(), variable.trainable,
                                     variable.by_rows && variable.trainable});
  }
  if (start.position) {
    const auto& heads = start.position->heads;
    const SnapshotHead& head =
        heads.size() == job_.servers.size() ? heads[static_cast<std::size_t>(server)] : heads[0];
    beginning.step = head.step;
    beginning.pushes = head.pushes;
    beginning.feeds = start.position->feeds;
  } else {
    beginning.pushes.assign(static_cast<std::size_t>(beginning.replicas), 0);
    const Pushes none(static_cast<std::size_t>(store_.towers()), 0);
    beginning.feeds.assign(static_cast<std::size_t>(job_.processes), {"", none});
  }
  if (server != 0) beginning.feeds.clear();
  beginning.servers = job_.addresses;
  beginning.servers.resize(job_.servers.size());
  return beginning;
}

void ServedStrategy::begin_pulse() {
  pulse_.reset();
  {
    const std::lock_guard lock(mutex_);
    error_ = {};
  }
  pulse_ =
      std::make_unique<Pulse>(who(), job_.beat_every, [this](const Status& why) { fail(why); });
}

std::string ServedStrategy::begin_run(const Start& start) {
  if (start.position) check_position(*start.position);
  run_ = job_.incarnation;
  begin_pulse();
  const auto until = Clock::now() + job_.join_timeout;
  for (int s = 0; s < servers(); ++s) {
    for (;;) {
      try {
        server(s).begin(beginning_for(start, s), who());
        break;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unavailable || Clock::now() >= until) throw;
      }
      std::this_thread::sleep_for(kLookForRun);  // until an earlier run is given up
    }
    pulse_->add(job_.servers[static_cast<std::size_t>(s)]);
  }
  for (int s = 0; s < servers(); ++s) give_values(s);
  for (int s = servers() - 1; s >= 0; --s) server(s).ready(run_);
  if (!start.position) return "";
  Pushes least = start.position->heads.front().pushes;
  for (const SnapshotHead& head : start.position->heads) take_least(least, head.pushes);
  const KeptFeed& mine = start.position->feeds.front();
  for (std::size_t t = 0; t < towers_.size(); ++t) towers_[t]->drawn = mine.pushes[t];
  take_settled(least);
  return mine.position;
}

void ServedStrategy::give_values(int s) {
  for (std::size_t v = 0; v < server_of_.size(); ++v) {
    if (server_of_[v] != s) continue;
    const Variable& variable = *store_.of(0)[v];
    const Array values = on_host(variable.gpu, variable.value);
    Piece piece{static_cast<std::uint32_t>(v), values.data(), values.size(), nullptr, 0};
    server(s).give(run_, -1, piece);
    for (std::size_t slot = 0; slot < slots_[v].size(); ++slot) {
      piece.values = slots_[v][slot].data();
      server(s).give(run_, static_cast<int>(slot), piece);
    }
  }
}

std::string ServedStrategy::enter_run(const Start& start) {
  const auto until = Clock::now() + job_.join_timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    begin_pulse();
    // Enter server 0 first: from then on an earlier incarnation can commit no push.
    Entered first = server(0).enter(who(), start.facts, left);
    pulse_->add(job_.servers.front());
    Pushes least = first.pushes;
    bool same = true, finished = first.finished;
    for (int s = 1; s < servers() && same && !finished; ++s) {
      const Entered other = server(s).enter(who(), start.facts, left);
      pulse_->add(job_.servers[static_cast<std::size_t>(s)]);
      finished = other.finished;
      same = other.run == first.run && other.pushes.size() == least.size();
      if (same && !finished) take_least(least, other.pushes);
    }
    if (finished) {
      come_too_late(first);
      return "";
    }
    if (same && first.feed.pushes.size() == towers_.size() &&
        least.size() == towers_.size() * static_cast<std::size_t>(job_.processes)) {
      run_ = first.run;
      step_ = first.step;
      for (std::size_t t = 0; t < towers_.size(); ++t) towers_[t]->drawn = first.feed.pushes[t];
      take_settled(least);
      return first.feed.position;
    }
    if (same)
      throw Error(ErrorCode::invalid_argument,
                  "the chief's job has another number of processes or towers than this process's");
    // One of the servers still has an earlier run.
    if (Clock::now() >= until)
      throw Error(ErrorCode::no_progress, "parameter servers have different runs");
    std::this_thread::sleep_for(kLookForRun);
  }
}

void ServedStrategy::come_too_late(const Entered& run) {
  log(LogLevel::info, "the run came to its end before this process could enter it");
  pulse_.reset();
  run_ = run.run;
  step_ = run.step;
  finished_ = true;
  over_ = true;
}

void ServedStrategy::take_settled(const Pushes& all) {
  for (int t = 0; t < store_.towers(); ++t)
    at(t).settled = all[static_cast<std::size_t>(replica(t))];
}

}  // namespace penstock::towers
