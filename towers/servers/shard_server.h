// The rules of one parameter server.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "towers/servers/parameter_server.h"

namespace penstock::towers {

struct ShardServerOptions {
  /// A process without a sign of life for longer than this is lost.
  std::chrono::milliseconds peer_timeout{10'000};
  /// A process that has not come this long after the run began is lost.
  std::chrono::milliseconds join_timeout{300'000};
  /// The clock for signs of life; tests set their own.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Connects server 0 of sync_replicas to another server. May throw.
  std::function<std::unique_ptr<ParameterServer>(const std::string& address)> connect{};
};

/// A parameter server that holds one run after the other. Calls return without waiting for other
/// processes, except `enter`, `take`, and calls that wait for an update. The host of the server
/// must call `look` at intervals.
///
/// async: each push makes an update at once. sync_replicas: updates are made as ReplicaLine says.
/// Every push that was answered is either in the values, or dropped and counted. No push is in them
/// twice, even if calls are repeated.
class ShardServer final : public ParameterServer {
 public:
  explicit ShardServer(ShardServerOptions options = {});
  ~ShardServer() override;

  /// Finds lost processes. If the chief is lost, the run ends. Other processes' tokens are
  /// returned, if this is server 0.
  void look() EXCLUDES(mutex_);
  /// Ends a run that has not ended, and all waiting calls.
  void stop(const Status& why) noexcept EXCLUDES(mutex_);
  /// True if a chief has begun a run here.
  bool begun() EXCLUDES(mutex_);
  /// Waits until every process that needs to know has heard how the run ended, at most for `limit`.
  /// After an error, these are the processes that take part in the run. After a good end, they are
  /// those that have not entered it yet: they have nothing left to push, as in a job that resumed
  /// from a checkpoint near its end.
  void wait_until_known(std::chrono::milliseconds limit) EXCLUDES(mutex_);
  /// Returns how the run ended, if it ends within `limit`. Nothing if it continues, or none has
  /// begun.
  std::optional<Status> ended(std::chrono::milliseconds limit) EXCLUDES(mutex_);

  void begin(const Beginning& beginning, const Trainee& chief) EXCLUDES(mutex_) override;
  void give(const std::string& run, int slot, const Piece& values) EXCLUDES(mutex_) override;
  void ready(const std::string& run) EXCLUDES(mutex_) override;
  SnapshotHead keep(const std::string& run) EXCLUDES(mutex_) override;
  void snapshot(const std::string& run, int slot, Takers& taker) EXCLUDES(mutex_) override;
  ServerFigures figures(const std::string& run) EXCLUDES(mutex_) override;
  void end(const std::string& run, const Status& why) EXCLUDES(mutex_) override;
  Entered enter(const Trainee& who, const std::map<std::string, std::string>& facts,
                std::chrono::milliseconds limit) EXCLUDES(mutex_) override;
  Status beat(const Trainee& who, const Status& failed) EXCLUDES(mutex_) override;
  void keep_feed(const Trainee& who, const KeptFeed& feed) EXCLUDES(mutex_) override;
  Pushed push(const Trainee& who, const Push& push, Takers& taker) EXCLUDES(mutex_) override;
  Pushed commit(const Trainee& who, int replica, std::uint64_t number, std::uint64_t seen,
                std::int64_t rows) EXCLUDES(mutex_) override;
  bool take(const Trainee& who, int replica, std::chrono::milliseconds limit, std::uint64_t& step,
            bool& finished) EXCLUDES(mutex_) override;
  std::uint64_t pull(const Trainee& who, std::uint64_t have, Takers& taker)
      EXCLUDES(mutex_) override;
  void pull_rows(const Trainee& who, std::uint32_t variable, const std::vector<std::int64_t>& rows,
                 float* values, std::size_t count) EXCLUDES(mutex_) override;
  void leave(const Trainee& who, int replica) EXCLUDES(mutex_) override;
  std::vector<SquareSum> norms(const std::string& run, const Update& update)
      EXCLUDES(mutex_) override;
  void apply(const std::string& run, const Update& update) EXCLUDES(mutex_) override;
  SnapshotHead keep_here(const std::string& run) EXCLUDES(mutex_) override;

 private:
  struct Run;

  /// Returns the run of this name; throws the error that ended it.
  Run& run_of(const std::string& run) REQUIRES(mutex_);
  /// Returns the run that the process is in, and records a sign of life.
  Run& heard_in(const Trainee& who) REQUIRES(mutex_);
  /// True if processes may enter the run.
  bool is_open() const REQUIRES(mutex_);
  static void check_facts(const Run& run, const Trainee& who,
                          const std::map<std::string, std::string>& facts);
  void end_locked(Run& run, const Status& why) noexcept REQUIRES(mutex_);
  /// Handles a lost process. Returns the warning to be logged; empty if there is none.
  std::string gone(Run& run, int process) REQUIRES(mutex_);
  Pushed push_async(Run& run, const Push& push, Takers& taker) REQUIRES(mutex_);
  Pushed push_pending(Run& run, const Push& push) REQUIRES(mutex_);
  void wait_while_updating(const Run& run) REQUIRES(mutex_);
  Pushed commit_counted(Run& run, const Contribution& contribution) REQUIRES(mutex_);
  /// The mutex is free while other servers are asked.
  void make_update(Run& run) REQUIRES(mutex_);
  static void apply_here(Run& run, const Update& update);
  static void check_update(const Run& run, const Update& update);

  const ShardServerOptions options_;
  // Held while a push changes values, and while values are copied to and from callers.
  SlowMutex mutex_;
  CondVar changed_;
  // Calls that release the mutex keep their own pointer.
  std::shared_ptr<Run> run_ GUARDED_BY(mutex_);
  Status stopped_ GUARDED_BY(mutex_);
};

}  // namespace penstock::towers
