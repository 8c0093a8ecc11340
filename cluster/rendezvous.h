// The place where the ranks of a job meet and hear of each other's failures.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <penstock/error.h>

#include "cluster/clock_offset.h"
#include "cluster/cluster.h"
#include "cluster/lobby.h"

namespace penstock::cluster {

/// Names of PEM files: all three, or none.
struct TlsFiles {
  /// The certificate of this process, for both directions.
  std::string certificate{};
  std::string key{};  ///< the certificate's key
  /// The authority whose certificates are trusted.
  std::string authority{};

  bool given() const noexcept { return !certificate.empty(); }
};

struct RendezvousOptions {
  TlsFiles tls{};
  /// A secret that all processes of the job share. A process with another token is refused. Empty:
  /// no token is required.
  std::string token{};
  /// A rank that gives no sign of life for longer counts as lost.
  std::chrono::milliseconds peer_timeout{10'000};
  /// How long ranks wait for each other at the start.
  std::chrono::milliseconds join_timeout{300'000};
};

/// A rank's connection to the others. Thread-safe. A thread of its own gives the signs of life, so
/// a long step does not make a rank count as lost. The destructor tells the other ranks that this
/// rank has ended well, or that it failed.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  /// Waits until all ranks have joined with the same facts. Throws Error{no_progress} that names
  /// the ranks that did not join in time, Error{invalid_argument} that names the odd rank,
  /// Error{unavailable} if rank 0 is not reached in time, or the error that ended the job.
  virtual void join(const Facts& facts) = 0;
  /// Stores a value that other ranks can get, such as an address; at most 1 MiB. The first value of
  /// a key counts.
  virtual void put(const std::string& key, const std::string& value) = 0;
  /// Waits for the key, and returns its value. Throws Error{no_progress}, which names the key,
  /// after `timeout`, or the error that ended the job.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  /// Returns success, or the error that ended the job, which names the rank.
  virtual Status status() const = 0;
  /// Registers a callback for the error that ends the job. It is called once, from a thread of the
  /// rendezvous, or at once if the job has ended. `told` must not throw, and must not call `watch`
  /// or `unwatch`.
  virtual void watch(const void* watcher, std::function<void(const Status&)> told) = 0;
  /// Removes the callback. It is not running any more when this returns.
  virtual void unwatch(const void* watcher) noexcept = 0;
  /// Sends this rank's status text to rank 0 with the signs of life. The last text counts. A text
  /// of more than 16 KiB is dropped.
  virtual void say(std::string what) = 0;
  /// Returns each rank's last status text, on rank 0; empty if there is none yet.
  virtual std::vector<std::string> said() const = 0;
  /// Returns the offset of rank 0's steady clock.
  virtual ClockOffset clock() const = 0;
  /// Reports that this rank failed, which ends the job.
  virtual void fail(const Status& error) noexcept = 0;
  /// Returns the number of attempts by strangers that were refused; on rank 0 only.
  virtual std::size_t refused() const noexcept = 0;
};

/// Opens the rendezvous at `cluster.rendezvous`; rank 0 listens there. REQUIRES:
/// `cluster.trains()`. Throws Error{invalid_argument} if that address is not loopback and TLS files
/// or a token are missing, Error{unavailable} if it cannot listen, and Error{not_found} if the
/// module is missing.
std::unique_ptr<Rendezvous> open_rendezvous(const Cluster& cluster,
                                            const RendezvousOptions& options);

}  // namespace penstock::cluster
