// A strategy for towers whose variables are on parameter servers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/towers/strategy.h>

#include "towers/servers/crew.h"
#include "towers/servers/pulse.h"
#include "towers/servers/served_job.h"
#include "towers/servers/served_position.h"
#include "towers/strategies/host_side.h"

namespace penstock::towers {

/// The strategies async and sync_replicas, for the processes of a ServedJob. Each tower of all
/// processes is a replica. At the beginning the chief gives the values of its tower 0 to the
/// servers. The optimizers' state is on the servers; the chief has it only after it has fetched it.
/// For each batch of a tower, the tower's thread runs:
///
///     if (strategy.draw(tower) && strategy.ready(tower)) { …; strategy.update(tower, rows); }
///
/// For tables (Variable::by_rows), the rows that a step reads are pulled when it reads them, and
/// their gradients are pushed. Whole tables are given only at the beginning, and fetched only by
/// `keep`.
class ServedStrategy final : public Strategy {
 public:
  /// `options.served` must not be null, and must outlive this object.
  ServedStrategy(VariableStore& store, const StrategyOptions& options);
  /// Tells the servers that this process ends, and why, unless `end` or `leave_run` was called.
  ~ServedStrategy() override;

  struct Start {
    /// Facts that all processes have in common.
    std::map<std::string, std::string> facts{};
    std::uint64_t max_steps = 0;      ///< updates by all; 0: no limit
    std::uint64_t planned_steps = 0;  ///< for schedules
    /// All batches of each tower; 0: unknown.
    std::uint64_t batches = 0;
    /// True if a lost process ends the run.
    bool all_needed = false;
    /// For the chief: the checkpoint's position.
    std::optional<ServedPosition> position{};
  };
  /// Begins the run, or enters it, and gives every tower its values. Returns the position of this
  /// process's input. If the run ends while this process waits for it, the strategy is `finished`
  /// afterwards. Throws the servers' errors, Error{no_progress} if they or the chief did not come
  /// in time, and Error{invalid_argument} for a position of other processes or servers.
  std::string start(const Start& start);

  /// Reports that the tower was given a batch. False if it had pushed this one already.
  bool draw(int tower);
  /// Waits until the tower may compute, and brings it the values. False if the run has made all its
  /// updates. Throws the error given to `fail`, and Error{no_progress}.
  bool ready(int tower);
  void update(int tower, std::int64_t rows) EXCLUDES(mutex_) override;
  /// Returns the update that the tower's values include; with async, by its own count.
  std::uint64_t local_step(int tower) const;
  /// Returns how many batches each tower of this process has drawn at least. In a job in which all
  /// are needed, that is also the number of updates that it takes part in. No tower may be in a
  /// step.
  std::uint64_t drawn() const;
  std::uint64_t drawn(int tower) const { return towers_[static_cast<std::size_t>(tower)]->drawn; }
  /// True if the run has made all its updates.
  bool finished() const noexcept { return finished_; }
  /// Reports the position of this process's input. `draw` must have been called for all batches
  /// that it gave.
  void keep_feed(const std::string& position);
  /// Reports that the process pushes no more. It is not told of the run's end afterwards.
  void leave_run();

  // Called by the chief, while no tower is in a step.
  /// Fetches the values and the optimizers' state, as of one moment. In a job in which all are
  /// needed, waits until this is the same state in each run of the job. Throws Error{no_progress}.
  ServedPosition keep();
  ServerFigures figures() EXCLUDES(mutex_);
  /// Tells all servers how the run ended.
  void end(const Status& why);

  void fail(const Status& error) noexcept EXCLUDES(mutex_) override;
  /// Returns the first failure that this process knows of, from a call or a sign of life. If
  /// several servers are lost, a later one may have ended because of the first.
  Status first_failure() const EXCLUDES(mutex_);
  bool synchronous() const noexcept override { return false; }
  /// As far as this process knows.
  std::uint64_t step() const override { return step_; }
  StrategyStats stats() const EXCLUDES(mutex_) override;
  Slots slots(std::size_t variable) override;
  void restore(std::uint64_t step) override { step_ = step; }

 private:
  class Taker;
  struct Tower {
    HostSide side;
    Crew crew;
    // Batches given so far, which is also the number of the current push.
    std::uint64_t drawn = 0;
    std::uint64_t settled = 0;  // pushes that count already
    std::uint64_t seen = 0;
    std::vector<std::uint64_t> have{};  // one for each server
    std::vector<TableRows*> tables{};   // by variable; null: not a table
    // By variable: gradients of the rows of the step.
    std::vector<std::vector<float>> of_rows{};
  };

  ParameterServer& server(int s) const { return *job_.servers[static_cast<std::size_t>(s)]; }
  int servers() const noexcept { return static_cast<int>(job_.servers.size()); }
  int replica(int tower) const noexcept { return job_.process * store_.towers() + tower; }
  Trainee who() const { return {job_.process, job_.incarnation}; }
  Tower& at(int tower) { return *towers_[static_cast<std::size_t>(tower)]; }
  void throw_if_failed() const EXCLUDES(mutex_);
  void check_position(const ServedPosition& position) const;
  Beginning beginning_for(const Start& start, int server) const;
  std::string begin_run(const Start& start);
  std::string enter_run(const Start& start);
  void begin_pulse() EXCLUDES(mutex_);
  void come_too_late(const Entered& run);
  void wait_until_fixed();
  /// Calls `tell` for all servers, then throws its first error. No tower may be in a step.
  void tell_all(const std::function<void(ParameterServer&, const Status& error)>& tell);
  void give_values(int server);
  void take_settled(const Pushes& all);
  void pull(int tower);
  void note(std::uint64_t step) noexcept;
  void fetch_rows(Tower& mine, std::size_t variable, std::span<const std::int64_t> rows);
  /// Returns the tower's gradient; for a table, that of the rows that the step read.
  static std::span<float> gradient_of(Tower& mine, std::size_t variable);
  void clip(Tower& mine) const;
  std::vector<Piece> pieces_for(Tower& mine, int server, bool whole) const;

  VariableStore& store_;
  const StrategyOptions options_;
  const ServedJob& job_;
  const bool sync_;
  const std::vector<int> server_of_;            // one for each variable
  std::vector<std::vector<Array>> slots_;       // of each variable; set by the chief
  std::vector<std::unique_ptr<Tower>> towers_;  // each used by its tower
  // async: server 0 decides before the servers get the push.
  bool verdict_first_ = false;
  bool all_needed_ = false;
  std::uint64_t max_steps_ = 0;
  std::string run_;
  std::atomic<std::uint64_t> step_ = 0;
  std::atomic<bool> finished_ = false;
  // True if the servers need not be told of an end.
  bool over_ = false;

  mutable Mutex mutex_;
  Status error_ GUARDED_BY(mutex_);
  StrategyStats stats_ GUARDED_BY(mutex_);

  std::unique_ptr<Pulse> pulse_;
};

}  // namespace penstock::towers
