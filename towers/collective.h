// What towers do together: wait for each other, and add up.
#pragma once

#include <memory>
#include <span>

#include <penstock/error.h>

namespace penstock::towers {

/// A group of ranks. Every rank makes the same calls in the same order, each from a thread of its
/// own. Whatever ends one call with an error ends all, now and later. The seam to other libraries:
/// tests replace it, and so would NCCL.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int size() const noexcept = 0;
  /// Returns when every rank has come here. Throws what `fail` was given, or Error{no_progress}
  /// naming the ranks that did not come in time.
  virtual void barrier(int rank) = 0;
  /// Replaces the values by the sums over ranks, the same bits on each. All must give as many.
  virtual void sum(int rank, std::span<double> values) = 0;
  /// Ends every call with `error`; the first one counts.
  virtual void fail(const Status& error) noexcept = 0;
};

/// Ranks that share memory: each adds up its part of the values for all, in the order of ranks, so
/// that sums do not depend on who was faster. `timeout_s`: how long a rank waits for the others.
std::unique_ptr<Collective> make_host_collective(int ranks, double timeout_s = 600);

}  // namespace penstock::towers
