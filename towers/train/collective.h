// Operations that towers carry out together: waiting for each other, and sums.
#pragma once

#include <memory>
#include <span>

#include <penstock/error.h>

namespace penstock::towers {

class Peers;

/// A group of ranks. Every rank makes the same calls in the same order, each from its own thread.
/// An error that ends one call ends all calls, now and later. This is the interface to other
/// libraries: tests replace it, and NCCL could.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int size() const noexcept = 0;
  /// Returns when every rank has called it. Throws the error given to `fail`, or
  /// Error{no_progress}, which names the ranks that did not come in time.
  virtual void barrier(int rank) = 0;
  /// Replaces the values by their sums over ranks, the same bits on each. All ranks must give as
  /// many values.
  virtual void sum(int rank, std::span<double> values) = 0;
  /// Ends every call with `error`; the first error counts.
  virtual void fail(const Status& error) noexcept = 0;
};

/// Returns a group of ranks that share memory. Each rank adds up its part of the values for all
/// ranks by `sum_by_tree`, so the sums do not depend on timing. `timeout_s` is how long a rank
/// waits for the others. If `peers` is not null, sums include these other processes; barriers do
/// not.
std::unique_ptr<Collective> make_host_collective(int ranks, double timeout_s = 600,
                                                 Peers* peers = nullptr);

}  // namespace penstock::towers
