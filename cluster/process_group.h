// Operations that the ranks of a job compute together.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cluster/cluster.h"
#include "cluster/rendezvous.h"

namespace penstock::cluster {

/// The way in which values are added up.
enum class Exchange {
  /// By the rule for sums (towers/tree_sum.h) over ranks: the bits do not depend on how many values
  /// are added at once. Each rank adds up a part of the values for all ranks.
  ordered,
  /// Around a ring: the bits are the same on all ranks, but depend on how many values are added at
  /// once.
  ring,
};
/// Returns "ordered" or "ring".
std::string_view name_of(Exchange exchange) noexcept;
/// Returns the exchange of this name. Throws Error{invalid_argument}, which lists the names, for an
/// unknown one.
Exchange parse_exchange(std::string_view name);

/// The way in which values are compressed for sending.
enum class Compress {
  none,
  /// Halves the bytes: each rank's values, and the sums, are rounded to bfloat16. Values are added
  /// in float, by the rule for sums. So the bits depend on how towers are divided among ranks.
  bf16,
};
/// Returns "none" or "bf16".
std::string_view name_of(Compress compress) noexcept;
/// Returns the compression of this name. Throws Error{invalid_argument}, which lists the names, for
/// an unknown one.
Compress parse_compress(std::string_view name);

/// The transport that carries values.
enum class Transport {
  gloo,  ///< plain TCP
  grpc,  ///< with TLS and the job's token, if given; slower
};
/// Returns "gloo" or "grpc".
std::string_view name_of(Transport transport) noexcept;
/// Returns the transport of this name. Throws Error{invalid_argument}, which lists the names, for
/// an unknown one.
Transport parse_transport(std::string_view name);

struct ProcessGroupOptions {
  std::string name = "gradients";  ///< tells the groups of a job apart
  Exchange exchange = Exchange::ordered;
  Compress compress = Compress::none;  ///< bf16 overrides `exchange`
  Transport transport = Transport::gloo;
  /// For gRPC. Other ranks connect to this host's name in the list of members, or else to the
  /// address from which it reaches the rendezvous. The certificate must name that host or address.
  TlsFiles tls{};
  std::string token{};
  /// For Gloo. The network interface that carries values. They are not encrypted, so anything on
  /// that network can read them. Empty: loopback.
  std::string interface {};
  /// Must be set if `interface` is, because Gloo has no TLS.
  bool insecure = false;
  /// After a call broke, how long to wait for the name of the rank that was lost.
  std::chrono::milliseconds named_within{15'000};
  /// The time limit of one call. It includes the other ranks' time before they make the call; rank
  /// 0 may evaluate meanwhile. The rendezvous detects lost ranks sooner.
  std::chrono::milliseconds timeout{3'600'000};
};

/// The ranks of a job as a group. All ranks make the same calls in the same order, one call at a
/// time; `fail` may be called at any time. An error that ends one call ends all later calls too.
/// Calls throw the error that ended the job, which names the lost rank, Error{unavailable} if that
/// rank is unknown, or the error given to `fail`. The destructor waits until the other ranks are
/// done with the group too, unless an error has ended the job.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// Replaces the values by their sums over ranks. All ranks give as many values, and get the same
  /// bits.
  virtual void sum(std::span<float> values) = 0;
  /// Gathers the bytes of all ranks, concatenated by rank. REQUIRES: all.size() = mine.size() *
  /// size(), and all ranks give as many bytes.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  /// Ends the job, the waiting call and all later ones with `error`. The first error counts.
  virtual void fail(const Status& error) noexcept = 0;
};

/// Connects each rank with all others. `rendezvous` must have joined, and must outlive the group.
/// From here on SIGPIPE is ignored if the process has no handler for it, because Gloo writes to
/// peers that may be gone. Throws Error{invalid_argument} for an interface without `insecure`,
/// Error{not_found} if the interface does not exist or the module is missing, and what
/// `Rendezvous::get` throws.
std::unique_ptr<ProcessGroup> open_process_group(Rendezvous& rendezvous, const Cluster& cluster,
                                                 const ProcessGroupOptions& options);

}  // namespace penstock::cluster
