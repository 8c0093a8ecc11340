// Other processes that train with this one.
#pragma once

#include <cstddef>
#include <span>

#include <penstock/error.h>

namespace penstock::towers {

/// The interface to the transport that connects processes. Each process has the same number n of
/// towers, a power of two: process r has towers r * n up to (r + 1) * n of all. All processes make
/// the same calls, in the same order. An error that ends one call ends all calls, now and later, in
/// every process.
class Peers {
 public:
  virtual ~Peers() = default;
  /// Returns the number of this process.
  virtual int rank() const noexcept = 0;
  /// Returns the number of processes.
  virtual int size() const noexcept = 0;

  /// Returns true if sums may be made in any order, so that other code than `sum` may make them.
  virtual bool any_order() const noexcept { return false; }

  // By the thread that exchanges gradients.
  /// Replaces the values by their sums over processes. Where the same bits are required for any
  /// division of towers among processes, it follows the rule for sums (tree_sum.h).
  virtual void sum(std::span<float> values) = 0;
  /// Fills `all` with the bytes of each process, one after the other. All have the same number of
  /// bytes.
  virtual void gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;

  // By the towers' threads, one at a time, or while no tower runs.
  /// Gathers as `gather` does, independently of the exchange that runs meanwhile.
  virtual void gather_between_towers(std::span<const std::byte> mine, std::span<std::byte> all) = 0;

  /// Ends all calls, in every process; the first error counts. Any thread may call it.
  virtual void fail(const Status& error) noexcept = 0;
};

}  // namespace penstock::towers
