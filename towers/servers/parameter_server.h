// A parameter server, as training processes see it. This is the interface between its rules and the
// code that connects processes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/error.h>
#include <penstock/shape.h>

namespace penstock::towers {

/// Values of one variable: all of them, or some rows. The caller that passes a piece keeps its
/// memory alive.
struct Piece {
  /// The variable's number among those of all servers.
  std::uint32_t variable = 0;
  /// [row_count, …] for some rows, or all values.
  const float* values = nullptr;
  std::size_t count = 0;  ///< number of values
  /// Null: all rows; else different rows, in rising order. A piece without rows is left out.
  const std::int64_t* rows = nullptr;
  std::size_t row_count = 0;
};

/// A receiver of a server's values. The thread that asked calls it, once for each variable.
class Takers {
 public:
  virtual ~Takers() = default;
  /// Returns memory for `count` floats of the variable; null if the values are not wanted.
  virtual float* place(std::uint32_t variable, std::size_t count) = 0;
  /// The same for values that do not change while `values` is held. It copies them, unless an
  /// implementation can do without.
  virtual void share(std::uint32_t variable, const std::shared_ptr<const float>& values,
                     std::size_t count) {
    if (float* to = place(variable, count)) std::copy_n(values.get(), count, to);
  }
};

/// A process that trains; the chief is 0. `incarnation` tells apart the processes that came one
/// after the other under one number.
struct Trainee {
  int process = 0;
  std::string incarnation{};
};

struct ServedVariable {
  std::uint32_t number = 0;
  std::string name{};
  Shape shape{};
  bool trainable = true;
  /// Pushed and pulled by rows only; `pull` and `push` never give it as a whole.
  bool by_rows = false;
};

/// Pushes made so far. A replica is one of all towers. Its pushes have the numbers 1, 2, …, one for
/// each batch that it was given.
using Pushes = std::vector<std::uint64_t>;  // by replica

/// The position of a process's input after its replicas had made these pushes.
struct KeptFeed {
  std::string position{};  ///< Feed::save; empty: the beginning
  Pushes pushes{};         ///< by the process's own replicas
};

/// The beginning of a run, sent by the chief. Servers have no options of their own.
struct Beginning {
  /// A name that no other run has.
  std::string run{};
  /// Facts that all processes have in common.
  std::map<std::string, std::string> facts{};
  /// The number of the server that receives this.
  int server = 0;
  int processes = 1;
  /// In all processes together; each has as many.
  int replicas = 1;
  /// "async", "sync_replicas", or "none". With "none" other code adds up gradients, and the server
  /// only waits for the end.
  std::string strategy{};
  int aggregate = 0;       ///< for sync_replicas
  int max_staleness = -1;  ///< for async
  /// The number of updates; 0: as many as are pushed.
  std::uint64_t max_steps = 0;
  std::string combine{};                ///< "average" or "sum"
  std::string optimizer{}, schedule{};  ///< as text
  std::uint64_t planned_steps = 0;      ///< for schedules
  float clip_norm = 0;
  /// The number of all batches of each replica, and thus of its pushes; 0: unknown.
  std::uint64_t batches = 0;
  /// True if a lost process ends the run.
  bool all_needed = false;
  std::uint64_t step = 0;                   ///< updates made so far
  std::vector<ServedVariable> variables{};  ///< this server's
  Pushes pushes{};                          ///< of each replica, done before
  std::vector<KeptFeed> feeds{};            ///< of each process; for server 0 only
  std::vector<std::string> servers{};       ///< addresses of all; for server 0 only
};

/// The state of a run that a process enters.
struct Entered {
  std::string run{};
  std::uint64_t step = 0;
  /// For each of all replicas: the pushes that count here in any case. A replica need not repeat
  /// the pushes up to the least such number over all servers.
  Pushes pushes{};
  KeptFeed feed{};  ///< set by server 0 only
  /// True if the run ended before the process could enter it. There is nothing left to push then.
  bool finished = false;
};

enum class PushVerdict {
  applied,
  dropped,  ///< too old, or without rows
  /// It had arrived before; nothing was done.
  repeated,
  pending,  ///< sync_replicas: kept until `commit`
  /// The run has made all its updates; the push does not count.
  finished
};

/// The value of `have` for a process that has no values yet.
inline constexpr std::uint64_t kHasNothing = UINT64_MAX;

/// A replica's contribution to a server for one batch.
struct Push {
  int replica = 0;
  std::uint64_t number = 0;  ///< one more than the previous push's
  /// The update of server 0 after which it was computed.
  std::uint64_t seen = 0;
  std::int64_t rows = 0;  ///< in the batch
  /// Gradients, and values of variables that get none.
  std::vector<Piece> pieces{};
  /// The update of this server that the replica's values include.
  std::uint64_t have = kHasNothing;
  /// async: the verdict of `commit` at server 0; nothing if it was not asked.
  std::optional<PushVerdict> decided{};
};

struct Pushed {
  PushVerdict verdict = PushVerdict::applied;
  std::uint64_t step = 0;       ///< updates made so far
  std::uint64_t staleness = 0;  ///< updates since `seen`
};

/// A push that is part of an update. Server 0 decides on the contributions and their order.
struct Contribution {
  int replica = 0;
  std::uint64_t number = 0;
  std::int64_t rows = 0;
};
struct Update {
  std::uint64_t step = 0;  ///< updates made before
  std::vector<Contribution> contributions{};
  /// The factor that clips the gradients.
  float scale = 1;
};

struct SquareSum {
  std::uint32_t variable = 0;
  double squares = 0;
};

/// The head of a snapshot: its state apart from values and optimizers' state, all as of one moment.
struct SnapshotHead {
  std::uint64_t step = 0;
  Pushes pushes{};  ///< contained in the values, or dropped
  /// One for each process, at or before these pushes; set by server 0 only.
  std::vector<KeptFeed> feeds{};
};

struct ServerFigures {
  std::uint64_t step = 0, applied = 0, dropped = 0, repeated = 0;
  /// Element i: how many applied pushes were i updates old.
  std::vector<std::uint64_t> staleness{};
  /// sync_replicas: pushes that are in no update yet.
  std::uint64_t pending = 0;
  std::uint64_t rows = 0;    ///< of all pushes so far, dropped ones included; server 0's
  std::uint64_t losses = 0;  ///< how often a process was lost
  /// Processes that are lost, or never came.
  std::vector<int> lost{};
  /// sync_replicas with `all_needed`: true if a snapshot now has the same bits as in any other run.
  /// While the chief does not push, this becomes true, and remains so.
  bool fixed = false;
  /// True if all processes but the chief have left or are lost.
  bool others_ended = false;
  /// Processes whose replicas have all left.
  int left = 0;
  /// Milliseconds since the last loss of a process that still has batches to do; kNobody: there is
  /// no such process.
  std::uint64_t lost_ms = kNobody;
  static constexpr std::uint64_t kNobody = UINT64_MAX;
};

/// A parameter server. Thread-safe. Every call throws the error that ended the run, which names the
/// process at fault. Every call throws Error{unavailable}, which names the server, if the server
/// was not reached in time. It throws Error{cancelled} for a process that was replaced by another
/// one, or counts as lost. A call that broke may be repeated; it takes effect once.
class ParameterServer {
 public:
  virtual ~ParameterServer() = default;
  /// Returns the first error that was thrown because other processes were lost, or because this
  /// process counts as lost. For servers whose calls go to another process.
  virtual Status loss() const { return {}; }

  // Called by the chief.
  /// Begins a run. Throws Error{unavailable} while an earlier run has not ended here.
  virtual void begin(const Beginning& beginning, const Trainee& chief) = 0;
  /// Gives values of a variable (slot -1), or its optimizer's state. Call it before `ready`.
  virtual void give(const std::string& run, int slot, const Piece& values) = 0;
  /// Reports that all values were given, so that other processes may enter.
  virtual void ready(const std::string& run) = 0;
  /// Keeps the current state for `snapshot`, and discards the state kept before. On server 0 with
  /// sync_replicas, all servers keep it, between two updates.
  virtual SnapshotHead keep(const std::string& run) = 0;
  /// Gives kept values to `taker`. For `slot` see `give`.
  virtual void snapshot(const std::string& run, int slot, Takers& taker) = 0;
  virtual ServerFigures figures(const std::string& run) = 0;
  /// Ends the run, successfully or with this error.
  virtual void end(const std::string& run, const Status& why) = 0;

  // Called by all training processes.
  /// Enters the run. Throws Error{no_progress} if the run has not begun within `limit`, and
  /// Error{invalid_argument} that names the fact that differs from the chief's. A run can be
  /// entered only while its chief gives signs of life; a process that enters again waits for one.
  virtual Entered enter(const Trainee& who, const std::map<std::string, std::string>& facts,
                        std::chrono::milliseconds limit) = 0;
  /// Gives a sign of life. Returns success while the run continues. `failed` is the error that ends
  /// this process; success if it is not ending.
  virtual Status beat(const Trainee& who, const Status& failed) = 0;
  /// Reports the position of the process's input. For server 0.
  virtual void keep_feed(const Trainee& who, const KeptFeed& feed) = 0;
  /// Pushes gradients of this server's variables. async: makes an update, and gives the values that
  /// have changed since `have` to `taker`. sync_replicas: keeps the push until `commit`, and gives
  /// nothing.
  virtual Pushed push(const Trainee& who, const Push& push, Takers& taker) = 0;
  /// Decides on a push. Call it on server 0. With sync_replicas, call it once all servers have the
  /// push. It counts or drops the push, and makes the update if the push completes one. With async,
  /// call it before the push, if there are several servers and `max_staleness` or `max_steps`
  /// limits the pushes that count. Its verdict then applies on all servers.
  virtual Pushed commit(const Trainee& who, int replica, std::uint64_t number, std::uint64_t seen,
                        std::int64_t rows) = 0;
  /// Waits for the replica's next token, and sets `step` to its step. For sync_replicas, on server
  /// 0. False if there was none within `limit`. True with `finished` if there is nothing left to
  /// do.
  virtual bool take(const Trainee& who, int replica, std::chrono::milliseconds limit,
                    std::uint64_t& step, bool& finished) = 0;
  /// Gives the values that have changed since update `have`. Returns the update that they include.
  virtual std::uint64_t pull(const Trainee& who, std::uint64_t have, Takers& taker) = 0;
  /// Copies these rows of a variable to `values`, one after the other.
  virtual void pull_rows(const Trainee& who, std::uint32_t variable,
                         const std::vector<std::int64_t>& rows, float* values,
                         std::size_t count) = 0;
  /// Reports that the replica pushes no more; its token goes to others. Call it on all servers.
  virtual void leave(const Trainee& who, int replica) = 0;

  // Called by server 0, with sync_replicas.
  /// Returns the sum of squares of each variable's gradient in the update, if it has one; for
  /// clipping.
  virtual std::vector<SquareSum> norms(const std::string& run, const Update& update) = 0;
  /// Makes an update of kept pushes, once, even if called again.
  virtual void apply(const std::string& run, const Update& update) = 0;
  /// As `keep`; server 0 asks the other servers for it.
  virtual SnapshotHead keep_here(const std::string& run) = 0;
};

}  // namespace penstock::towers
