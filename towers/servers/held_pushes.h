// Pushes that wait for the update they belong to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <penstock/towers/strategy.h>

#include "towers/servers/shard.h"

namespace penstock::towers {

/// A store of pushes for sync_replicas. Server 0 names the pushes to combine, and their order; the
/// order of arrival does not matter. Memory is reused for each update. Not synchronised.
class HeldPushes {
 public:
  HeldPushes(const Shard& shard, Combine combine);

  /// Copies the push. It replaces a push of the same number from an earlier incarnation. Does
  /// nothing once an update was combined. REQUIRES: its pieces were checked.
  void keep(const Push& push);
  bool has(int replica, std::uint64_t number) const;
  void drop(int replica, std::uint64_t number);
  /// Combines the gradients of an update, once, even if called again. Throws Error{internal}, which
  /// names a contribution that is missing here.
  void combine(const std::vector<Contribution>& contributions);
  /// Returns the sums of squares of the combined gradients.
  std::vector<SquareSum> squares() const;
  /// Multiplies the combined gradients by `scale`, and applies them.
  void apply(Shard& shard, float scale);
  /// Forgets all pushes.
  void clear();

 private:
  struct Values {
    std::vector<float> values{};
    std::vector<std::int64_t> rows{};  // for a table
    bool there = false;
  };
  struct Held {
    int replica = 0;
    std::uint64_t number = 0;
    std::int64_t rows = 0;
    std::vector<Values> values{};  // by index in the shard
  };
  struct Combined {
    float* values = nullptr;
    std::size_t count = 0;
    const std::vector<std::int64_t>* rows = nullptr;
  };
  using HeldPtr = std::unique_ptr<Held>;

  std::vector<HeldPtr>::const_iterator find(int replica, std::uint64_t number) const;
  void combine_dense(std::size_t index, const std::vector<Held*>& of);
  void combine_rows(std::size_t index, const std::vector<Held*>& of);

  const Shard& shard_;
  const Combine combine_;
  std::vector<HeldPtr> held_, free_;
  bool is_combined_ = false;
  std::vector<std::optional<Combined>> combined_;  // by index; nothing: no gradient
  std::vector<std::vector<float>> table_values_;   // by index
  std::vector<std::vector<std::int64_t>> table_rows_;
};

}  // namespace penstock::towers
