// Input workers: processes that make elements for runs elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// The credentials between runs and workers. Beyond loopback all of them are needed.
struct WorkerSecurity {
  std::string certificate{};  ///< PEM file: of this process, for both directions
  std::string key{};          ///< PEM file: the certificate's key
  std::string authority{};    ///< PEM file: whose certificates are accepted
  std::string token{};        ///< a secret that the whole job shares; empty: none is asked for

  friend bool operator==(const WorkerSecurity&, const WorkerSecurity&) = default;
};

/// The encoding of answers' values.
enum class WorkerWire : std::uint8_t {
  none,  ///< uncompressed
  /// Compressed, where that makes them smaller. A worker that can't compress sends them as they
  /// are.
  lz4,
};

/// The workers of a run (`RunOptions::workers`). Every process makes the same bytes of an element.
/// A run with workers gives the same elements as one without, also when workers come, go, freeze or
/// die.
struct WorkerOptions {
  /// "host:port" each; or one "etcd://host:port/prefix", below which each key's value is such an
  /// address. A worker that appears there is used from then on. Empty: no workers.
  std::vector<std::string> addresses{};
  /// The pipeline as `penstock serve` reads it (docs/pipeline-toml.md). Empty: workers run this
  /// program, which called `serve` with the same dataset there.
  std::string graph{};
  /// Threads of this process that make elements next to the workers. -1: all of
  /// `RunOptions::threads`. 0: none, except for elements that can't be sent, and those that are
  /// made alone to find out whether the memory budget suffices.
  int local_threads = -1;
  /// A worker that is silent for this long is lost. Without local threads, a run that has no worker
  /// for this long ends with Error{unavailable}.
  std::chrono::milliseconds timeout{10'000};
  /// The credentials of this process.
  WorkerSecurity security{};
  /// The encoding of answers. An encoding that this build of Penstock lacks throws
  /// Error{invalid_argument}.
  WorkerWire wire = WorkerWire::none;
  /// Takes elements of workers on this machine from memory that both share. It needs workers of the
  /// same user on loopback, and no `security`. False: over TCP, too.
  bool shared_memory = true;
  /// Makes the run one of this many shards of the workers' dataset, as `Plan::shard` makes them. A
  /// sharded feed sets it.
  std::int64_t shards = 0;
  /// The number of the shard, from 0.
  std::int64_t shard = 0;
};

/// The work of a worker for a run.
struct WorkerStats {
  std::string address;     ///< "HOST:PORT"
  bool connected = false;  ///< now
  /// Why it is not connected, or is left out; empty: no problem is known.
  std::string problem;
  int threads = 0;             ///< of the worker
  std::uint64_t groups = 0;    ///< answered, and used
  std::uint64_t elements = 0;  ///< of these groups
  /// Elements of these that had been made for another run (`cache_bytes`).
  std::uint64_t shared = 0;
  std::uint64_t sent_bytes = 0;      ///< to the worker
  std::uint64_t received_bytes = 0;  ///< from the worker
  std::uint64_t unpacked_bytes = 0;  ///< of the same answers, uncompressed
  double busy_s = 0;                 ///< in which its threads worked for these groups
  /// Mean time from the request to the answer, less its work and waits.
  double round_trip_s = 0;
  /// The least of these times, for an answer of the usual size.
  double least_round_trip_s = 0;
  /// Groups that it may have at once; threads and bytes bound them.
  std::uint64_t groups_at_once = 0;
  /// Groups that were requested elsewhere too, because it took long.
  std::uint64_t hedged = 0;
  std::uint64_t lost = 0;  ///< groups that it held when it was lost
  std::uint64_t late = 0;  ///< answers that came after another's
  /// Groups that it could not make, and that this process made.
  std::uint64_t returned = 0;
};

}  // namespace penstock
