// Gradients of one tower of the user's own, for sums on the host.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <penstock/towers/parameter_exchange.h>

namespace penstock::towers {

/// Parameters that are exchanged in one piece: [first, last).
struct OwnBucket {
  std::size_t first, last;
};

/// The host's access to a tower's gradients: in their own memory, or for a tower on a device in
/// pinned memory, to and from which each bucket is copied. The tower's thread calls `reached` and
/// `follow`; the exchange's thread calls the rest.
class OwnGradients {
 public:
  OwnGradients(OwnTower tower, std::span<const OwnBucket> buckets);
  OwnGradients(OwnGradients&&) noexcept;
  ~OwnGradients();

  const std::vector<OwnParameter>& parameters() const noexcept { return tower_.parameters; }
  /// Marks the bucket as made by the work enqueued on the tower's stream so far.
  void reached(std::size_t bucket);
  /// Copies the bucket to the host, and waits for it.
  void fetch(std::size_t bucket);
  /// Returns the values of a parameter, in its dtype. REQUIRES: fetched.
  void* on_host(std::size_t parameter) const { return host_[parameter]; }
  /// Copies the bucket back.
  void give(std::size_t bucket);
  /// Orders the tower's further work on its stream after all buckets given back.
  void follow();

  /// Copy values to or from the host, and wait. No tower may be computing.
  void read_value(std::size_t parameter, std::span<std::byte> to) const;
  void write_value(std::size_t parameter, std::span<const std::byte> from) const;

 private:
  struct OnDevice;

  OwnTower tower_;
  std::vector<OwnBucket> buckets_;
  std::vector<void*> host_;              // of each parameter
  std::unique_ptr<OnDevice> on_device_;  // null: host memory
};

std::size_t bytes_of(const OwnParameter& parameter);

}  // namespace penstock::towers
