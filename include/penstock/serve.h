// Input workers: the worker's side of `RunOptions::workers`, which makes elements for runs of other
// processes.
#pragma once

#include <penstock/language.h>  // IWYU pragma: keep

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <penstock/dataset.h>
#include <penstock/file_system.h>
#include <penstock/workers.h>

namespace penstock {

/// The options of a worker.
struct ServeOptions {
  /// "host:port" to listen on; with port 0 the system chooses a free one. Beyond loopback,
  /// `security` is needed.
  std::string address = "127.0.0.1:0";
  /// "etcd://host:port/prefix": runs that follow it find this worker. Empty: you tell runs the
  /// address.
  std::string announce{};
  /// The address for `announce`, if others reach the worker at another one than `address`.
  std::string public_address{};
  /// Threads that compute, for each run that is served; 0: as many as the process may use.
  int threads = 0;
  /// Bytes for everything in flight; 0: a quarter of the container's memory, at most 2 GiB. Each
  /// run has a fixed share of it, of 1 MiB at least, whether there are other runs or not.
  std::uint64_t memory_bytes = 0;
  /// Bytes of these that keep elements for other runs of the same graph, seed and epoch. Each
  /// element is made once, for the run that asks first. It must leave 1 MiB for each run. 0: every
  /// run has its own elements made.
  std::uint64_t cache_bytes = 0;
  /// Runs at once; the worker refuses more.
  int most_runs = 4;
  /// The credentials of the worker.
  WorkerSecurity security{};
};

/// The statistics of a worker.
struct ServeStats {
  int runs = 0;                        ///< connected now
  std::uint64_t groups = 0;            ///< answered, of all runs so far
  std::uint64_t elements = 0;          ///< of these groups
  std::uint64_t refused = 0;           ///< runs of another graph or program, and unknown clients
  std::uint64_t cache_hits = 0;        ///< elements that had been made for another run
  std::uint64_t cache_misses = 0;      ///< elements that were asked for first
  std::uint64_t cache_evicted = 0;     ///< elements that made room for others
  std::uint64_t cache_bytes = 0;       ///< of ServeOptions::cache_bytes, in use
  std::uint64_t cache_peak_bytes = 0;  ///< the most so far
};

/// A worker. Nothing is lost when it ends. Thread-safe. The destructor ends all links at once.
class InputServer {
 public:
  virtual ~InputServer() = default;

  /// Returns "host:port", with the port that was chosen.
  virtual std::string address() const = 0;
  /// Refuses new work, and tells runs and gRPC's health service so. Work that it has is answered.
  virtual void drain() noexcept = 0;
  /// Returns true once it was drained and nothing is in flight.
  virtual bool drained() const noexcept = 0;
  /// Returns the statistics so far.
  virtual ServeStats stats() const = 0;
};

/// Serves runs of `dataset` by this same program, which called `Dataset::iterate` with
/// `RunOptions::workers` elsewhere. Build ids and graphs are compared.
///
///     auto worker = ps::serve(dataset, {.address = "127.0.0.1:7070"});
///     while (!stopped) std::this_thread::sleep_for(100ms);
///
/// Throws Error{invalid_argument} if the address is not loopback and `security` is incomplete.
/// Throws Error{resource_exhausted} for less memory than its runs need, Error{unavailable} if it
/// can't listen there, and Error{not_found} where gRPC's module is missing.
std::unique_ptr<InputServer> serve(Dataset dataset, ServeOptions options = {});

/// Returns the file system of that name ("pread", "io_uring", "mmap") for the files below `folder`
/// alone, which relative paths count from. An absolute path begins with the folder, as it is given
/// or without links. Links are followed as long as they stay below it. Everything else is
/// Error{not_found}, and nothing outside is looked at, also while others change the folder. Nothing
/// can be written. Throws Error{not_found} if there is no such folder, and Error{invalid_argument}
/// for another name.
FileSystemPtr files_below(const std::string& name, const std::string& folder);

/// A callback that makes a dataset of a graph's text. It throws Error to refuse one. Several
/// threads call it.
using MakeDataset = std::function<Dataset(const std::string& graph)>;
/// Serves any graph that a run sends as text; `graph` makes a dataset of it. Throws as the other
/// `serve` does.
std::unique_ptr<InputServer> serve(MakeDataset graph, ServeOptions options = {});

}  // namespace penstock
