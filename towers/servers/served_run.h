// A parameter server's state of a run.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "towers/servers/held_pushes.h"
#include "towers/servers/kept_feeds.h"
#include "towers/servers/push_ledger.h"
#include "towers/servers/replica_line.h"
#include "towers/servers/roster.h"
#include "towers/servers/shard.h"
#include "towers/servers/shard_server.h"

namespace penstock::towers {

/// The state of a run. Guarded by the server's mutex.
struct ShardServer::Run {
  /// Throws Error{invalid_argument} for an inconsistent beginning.
  Run(const Beginning& begun, const Trainee& chief, const ShardServerOptions& options);

  bool synchronous() const noexcept { return held != nullptr; }
  bool leads_others() const noexcept { return line.has_value() && beginning.servers.size() > 1; }
  /// Returns true if all updates were made, or the chief has ended the run.
  bool is_finished() const;
  void hear_chief(Roster::Time now) { roster.hear({0, chief_incarnation}, now); }
  /// These record that the replica pushes no more, and that it comes back.
  void drop_out(int replica);
  void come_back(int replica);

  /// Throws Error{invalid_argument}, which says what is wrong with a piece.
  void check(const Push& push) const;
  /// Returns for all replicas the pushes that need not be repeated in this run.
  const Pushes& received() const noexcept { return line ? ledger.settled() : arrived; }
  /// Returns the pushes that need not be repeated after a restart. Pushes of an update that is not
  /// made yet are not among them.
  Pushes contained() const;
  std::span<const std::uint64_t> pushes_of(int process, const Pushes& pushes) const;
  SnapshotHead head() const;
  /// See ServerFigures::fixed.
  bool is_fixed() const;
  ServerFigures figures(Roster::Time now);
  void note_told(int process);
  /// Returns true if every process that needs to know has heard how the run ended. After an error,
  /// these are the processes that take part. After a good end, these are the processes that have
  /// not entered the run yet.
  bool all_know() const;
  /// Returns true if the process has nothing left to do, as far as is known.
  bool is_done(int process) const;

  const Beginning beginning;
  const std::string chief_incarnation;
  Roster roster;
  Shard shard;
  PushLedger ledger;
  Pushes arrived;                       // by each replica
  std::unique_ptr<HeldPushes> held{};   // for sync_replicas
  std::optional<ReplicaLine> line{};    // for sync_replicas, on server 0
  std::vector<Contribution> counted{};  // of the next update
  std::uint64_t rows = 0;               // of all settled pushes
  std::vector<KeptFeeds> feeds{};       // one for each process; on server 0
  // For server 0; constant once ready.
  std::vector<std::unique_ptr<ParameterServer>> others{};
  bool ready = false;
  // True while other servers are asked; the mutex is free then.
  bool updating = false;
  std::optional<Status> ended{};
  // By process: it was told how the run ended.
  std::vector<char> told;
};

}  // namespace penstock::towers
