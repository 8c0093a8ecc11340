#include "towers/servers/served_strategy.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include <penstock/error.h>
#include <penstock/log.h>

#include "towers/gpu/gpu.h"
#include "towers/servers/division.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<int> divided(const VariableStore& store, std::size_t servers) {
  std::vector<std::uint64_t> bytes;
  for (const Variable* variable : store.of(0)) bytes.push_back(variable->value.nbytes());
  return divide_by_bytes(bytes, static_cast<int>(servers));
}

constexpr std::chrono::milliseconds kLookForRun{200};

void take_least(Pushes& least, const Pushes& other) {
  std::ranges::transform(least, other, least.begin(),
                         [](std::uint64_t a, std::uint64_t b) { return std::min(a, b); });
}

}  // namespace

/// Takes values into a tower's variables, or into the optimizers' state.
class ServedStrategy::Taker final : public Takers {
 public:
  explicit Taker(std::vector<Array*> into) : into_(std::move(into)) {}
  explicit Taker(const HostSide& side) {
    for (Variable* variable : side.variables()) into_.push_back(&variable->value);
  }
  float* place(std::uint32_t variable, std::size_t count) override {
    if (variable >= into_.size() || into_[variable] == nullptr || into_[variable]->size() != count)
      throw Error(ErrorCode::internal, "a server gives " + std::to_string(count) +
                                           " values of variable " + std::to_string(variable));
    return into_[variable]->data();
  }

 private:
  std::vector<Array*> into_;
};

ServedStrategy::ServedStrategy(VariableStore& store, const StrategyOptions& options)
    : store_(store),
      options_(options),
      job_(*options.served),
      sync_(options.kind == StrategyKind::sync_replicas),
      server_of_(divided(store, std::max<std::size_t>(1, job_.servers.size()))) {
  if (job_.servers.empty())
    throw Error(ErrorCode::invalid_argument, "there are no parameter servers");
  if (job_.processes < 1 || job_.process < 0 || job_.process >= job_.processes)
    throw Error(ErrorCode::invalid_argument, "there is no process " + std::to_string(job_.process) +
                                                 " of " + std::to_string(job_.processes));
  const std::size_t remembered = options.update.optimizer->slots().size();
  for (const Variable* variable : store.of(0)) {
    std::vector<Array>& slots = slots_.emplace_back();
    for (std::size_t s = 0; s < remembered && variable->trainable && job_.process == 0; ++s)
      slots.emplace_back(variable->value.shape());
  }
  for (int t = 0; t < store.towers(); ++t) {
    Tower& mine = *towers_.emplace_back(
        new Tower{HostSide(store, t), Crew(servers()), 0, 0, 0,
                  std::vector<std::uint64_t>(job_.servers.size(), kHasNothing),
                  std::vector<TableRows*>(server_of_.size()),
                  std::vector<std::vector<float>>(server_of_.size())});
    for (std::size_t v = 0; v < server_of_.size(); ++v) {
      Variable& variable = *store.of(t)[v];
      if (!variable.by_rows || !variable.trainable) continue;
      mine.tables[v] = &variable.rows.emplace(
          [this, &mine, v](std::span<const std::int64_t> rows) { fetch_rows(mine, v, rows); });
    }
  }
}

ServedStrategy::~ServedStrategy() {
  pulse_.reset();
  for (int t = 0; t < store_.towers(); ++t)
    for (Variable* variable : store_.of(t)) variable->rows.reset();
  if (over_ || run_.empty()) return;
  fail(Error(ErrorCode::cancelled, job_.process == 0 ? "the chief ended before the run did"
                                                     : "it ended before the run did"));
  try {
    tell_all([this](ParameterServer& server, const Status& why) {
      if (job_.process == 0) {
        server.end(run_, why);
      } else {
        static_cast<void>(server.beat(who(), why));
      }
    });
  } catch (...) {  // servers that were not told find out themselves
  }
}

// Tells all servers at the same time. A lost server thus does not delay the others, which receive
// no sign of life any more.
void ServedStrategy::tell_all(const std::function<void(ParameterServer&, const Status&)>& tell) {
  const Status why = first_failure();
  at(0).crew.each([&](int s) { tell(server(s), why); });
}

bool ServedStrategy::draw(int tower) {
  Tower& mine = at(tower);
  return ++mine.drawn > mine.settled;
}

std::uint64_t ServedStrategy::local_step(int tower) const {
  const Tower& mine = *towers_[static_cast<std::size_t>(tower)];
  return sync_ ? mine.seen : mine.drawn - 1;
}

void ServedStrategy::note(std::uint64_t step) noexcept {
  std::uint64_t known = step_;
  while (known < step && !step_.compare_exchange_weak(known, step)) {
  }
  if (max_steps_ > 0 && step >= max_steps_) finished_ = true;
}

void ServedStrategy::pull(int tower) {
  Tower& mine = at(tower);
  Taker taker(mine.side);
  mine.crew.each([&](int s) {
    std::uint64_t& have = mine.have[static_cast<std::size_t>(s)];
    have = server(s).pull(who(), have, taker);
  });
  mine.side.give(false);
  if (!sync_) mine.seen = mine.have.front();
  note(mine.have.front());
}

bool ServedStrategy::ready(int tower) {
  throw_if_failed();
  if (finished_) return false;
  if (!sync_) return true;
  const auto until = Clock::now() + std::chrono::duration<double>(options_.timeout_s);
  bool finished = false;
  std::uint64_t step = 0;
  while (!server(0).take(who(), replica(tower), std::chrono::milliseconds(1000), step, finished)) {
    throw_if_failed();
    if (Clock::now() >= until)
      throw Error(ErrorCode::no_progress, "no update was completed in time: too few replicas push");
  }
  if (finished) {
    finished_ = true;
    return false;
  }
  at(tower).seen = step;
  note(step);
  pull(tower);
  return true;
}

std::vector<Piece> ServedStrategy::pieces_for(Tower& mine, int server, bool whole) const {
  std::vector<Piece> pieces;
  for (std::size_t v = 0; v < server_of_.size() && whole; ++v) {
    const Variable& variable = *mine.side.variables()[v];
    if (server_of_[v] != server || (variable.trainable && !variable.has_gradient)) continue;
    const std::span<const float> from =
        variable.trainable ? gradient_of(mine, v) : variable.value.values();
    Piece piece{static_cast<std::uint32_t>(v), from.data(), from.size(), nullptr, 0};
    if (const TableRows* table = mine.tables[v]) {
      piece.rows = table->rows().data();
      piece.row_count = table->rows().size();
      if (piece.row_count == 0) continue;
    }
    pieces.push_back(piece);
  }
  return pieces;
}

std::span<float> ServedStrategy::gradient_of(Tower& mine, std::size_t variable) {
  return mine.tables[variable] != nullptr ? std::span<float>(mine.of_rows[variable])
                                          : mine.side.variables()[variable]->gradient.values();
}

void ServedStrategy::fetch_rows(Tower& mine, std::size_t variable,
                                std::span<const std::int64_t> rows) {
  throw_if_failed();
  std::vector<float>& values = mine.of_rows[variable];
  values.resize(rows.size() *
                static_cast<std::size_t>(mine.side.variables()[variable]->value.row_size()));
  server(server_of_[variable])
      .pull_rows(who(), static_cast<std::uint32_t>(variable), {rows.begin(), rows.end()},
                 values.data(), values.size());
  mine.side.give_rows(variable, rows, values);
}

/// As Updater::clip. Rows of a table that the step did not read have zero gradients.
void ServedStrategy::clip(Tower& mine) const {
  const float clip_norm = options_.update.clip_norm;
  if (clip_norm <= 0) return;
  const auto has_gradient = [&](std::size_t v) {
    return mine.side.variables()[v]->trainable && mine.side.variables()[v]->has_gradient;
  };
  double squares = 0;
  for (std::size_t v = 0; v < server_of_.size(); ++v)
    if (has_gradient(v)) squares += sum_of_squares(gradient_of(mine, v));
  const float scale = clip_scale(std::sqrt(squares), clip_norm);
  if (scale == 1) return;
  for (std::size_t v = 0; v < server_of_.size(); ++v)
    if (has_gradient(v))
      for (float& value : gradient_of(mine, v)) value *= scale;
}

void ServedStrategy::update(int tower, std::int64_t rows) {
  throw_if_failed();
  Tower& mine = at(tower);
  mine.side.fetch();
  for (std::size_t v = 0; v < mine.tables.size(); ++v) {
    if (mine.tables[v] == nullptr) continue;
    if (mine.side.variables()[v]->has_gradient) mine.side.fetch_rows(v, mine.of_rows[v]);
    mine.tables[v]->end_step();
  }
  // An update is one push, so this process can clip it.
  if (!sync_) clip(mine);
  std::optional<PushVerdict> decided;
  if (verdict_first_)
    decided = server(0).commit(who(), replica(tower), mine.drawn, mine.seen, rows).verdict;
  Pushed first;
  if (decided != PushVerdict::finished) {
    Taker taker(mine.side);
    const bool whole = !decided || *decided == PushVerdict::applied;
    mine.crew.each([&](int s) {
      const auto at_server = static_cast<std::size_t>(s);
      const Push push{replica(tower),       mine.drawn, mine.seen, rows, pieces_for(mine, s, whole),
                      mine.have[at_server], decided};
      const Pushed pushed = server(s).push(who(), push, taker);
      if (!sync_) mine.have[at_server] = pushed.step;
      if (s == 0) first = pushed;
    });
  } else {
    first.verdict = PushVerdict::finished;
  }
  if (sync_) {
    first = server(0).commit(who(), replica(tower), mine.drawn, mine.seen, rows);
  } else {
    mine.seen = mine.have.front();
    mine.side.give(false);
  }
  note(first.step);
  if (first.verdict == PushVerdict::finished) finished_ = true;
  const MutexLock lock(mutex_);
  if (first.verdict == PushVerdict::applied) ++stats_.applied;
  if (first.verdict == PushVerdict::dropped) ++stats_.dropped;
}

void ServedStrategy::keep_feed(const std::string& position) {
  KeptFeed feed{position, {}};
  for (const auto& tower : towers_) feed.pushes.push_back(tower->drawn);
  server(0).keep_feed(who(), feed);
}

void ServedStrategy::leave_run() {
  if (over_) return;
  for (int s = 0; s < servers(); ++s)
    for (int t = 0; t < store_.towers(); ++t) server(s).leave(who(), replica(t));
  if (job_.process == 0) return;  // the chief keeps the run
  pulse_.reset();
  over_ = true;
}

std::uint64_t ServedStrategy::drawn() const {
  std::uint64_t least = UINT64_MAX;
  for (const auto& tower : towers_) least = std::min(least, tower->drawn);
  return least;
}

void ServedStrategy::wait_until_fixed() {
  const auto until = Clock::now() + std::chrono::duration<double>(options_.timeout_s);
  while (!figures().fixed) {
    if (Clock::now() >= until)
      throw Error(ErrorCode::no_progress,
                  "the other processes did not reach the chief's step in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

ServedPosition ServedStrategy::keep() {
  if (all_needed_) wait_until_fixed();
  ServedPosition position;
  // Server 0 first: the other servers are asked later, so they have all pushes that its positions
  // of inputs imply.
  const SnapshotHead first = server(0).keep(run_);
  position.feeds = first.feeds;
  for (int s = 0; s < servers(); ++s)
    position.heads.push_back(s == 0 || sync_ ? SnapshotHead{first.step, first.pushes, {}}
                                             : server(s).keep(run_));
  HostSide& side = at(0).side;
  const std::size_t remembered = options_.update.optimizer->slots().size();
  for (std::size_t slot = 0; slot <= remembered; ++slot) {
    std::vector<Array*> into;
    for (std::size_t v = 0; v < slots_.size(); ++v)
      into.push_back(slot == 0                  ? &side.variables()[v]->value
                     : slot <= slots_[v].size() ? &slots_[v][slot - 1]
                                                : nullptr);
    Taker taker(into);
    for (int s = 0; s < servers(); ++s) server(s).snapshot(run_, static_cast<int>(slot) - 1, taker);
  }
  side.give();
  for (std::size_t v = 0; v < server_of_.size(); ++v) store_.share(v);
  for (const auto& tower : towers_) {
    for (std::size_t s = 0; s < position.heads.size(); ++s) tower->have[s] = position.heads[s].step;
    if (!sync_) tower->seen = first.step;
  }
  note(first.step);
  return position;
}

ServerFigures ServedStrategy::figures() {
  throw_if_failed();
  ServerFigures figures = server(0).figures(run_);
  note(figures.step);
  const MutexLock lock(mutex_);
  stats_.applied = figures.applied;
  stats_.dropped = figures.dropped;
  stats_.staleness = figures.staleness;
  return figures;
}

void ServedStrategy::end(const Status& why) {
  pulse_.reset();
  over_ = true;
  tell_all([&](ParameterServer& server, const Status& /*error*/) { server.end(run_, why); });
}

void ServedStrategy::fail(const Status& error) noexcept {
  const MutexLock lock(mutex_);
  if (error_.ok()) error_ = error;
}

Status ServedStrategy::first_failure() const {
  const MutexLock lock(mutex_);
  return error_;
}

void ServedStrategy::throw_if_failed() const {
  const Status failure = first_failure();
  if (!failure.ok()) throw Error(failure.error());
}

StrategyStats ServedStrategy::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

Slots ServedStrategy::slots(std::size_t variable) {
  return {slots_.at(variable), nullptr};
}

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
    const MutexLock lock(mutex_);
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
