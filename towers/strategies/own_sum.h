// Sums of gradients of towers of the user's own. There are no threads here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <penstock/towers/parameter_exchange.h>

#include "towers/strategies/own_gradients.h"

namespace penstock::towers {

/// Throws Error{invalid_argument}.
[[noreturn]] void refuse_exchange(const std::string& why);

/// The sum of gradients. The tower's thread calls `reached` and `follow`, and the exchange's thread
/// calls `add_up`. The rest may be called only while no tower is in a step. Errors are those of
/// ParameterExchange.
class OwnSum {
 public:
  /// Takes the towers, and compares their parameters with those of other processes.
  OwnSum(std::vector<OwnTower> towers, const ParameterExchangeOptions& options);

  std::size_t towers() const noexcept { return gradients_.size(); }
  /// Returns the parameters of tower 0.
  const std::vector<OwnParameter>& parameters() const noexcept { return parameters_; }
  /// Returns the buckets, from the last parameter to the first, in the order of backward passes.
  const std::vector<OwnBucket>& buckets() const noexcept { return buckets_; }
  void share_values();

  void reached(int tower, std::size_t bucket) {
    if (adds()) gradients_[static_cast<std::size_t>(tower)].reached(bucket);
  }
  /// Combines the gradients of a bucket. `rows` holds, for each parameter of the bucket and each
  /// tower of this process, the number of rows that its gradient is the mean over; 0: it has none.
  /// Returns which of the parameters have a gradient on any tower. All towers get the combined
  /// gradient of these.
  std::vector<char> add_up(std::size_t bucket, std::span<const std::int64_t> rows);
  void follow(int tower) {
    if (adds()) gradients_[static_cast<std::size_t>(tower)].follow();
  }

 private:
  /// False if there is nothing to add up, because there is one tower alone.
  bool adds() const noexcept { return gradients_.size() > 1 || options_.peers != nullptr; }
  void compare_with_peers() const;
  std::vector<std::vector<std::int64_t>> with_peers(const OwnBucket& bucket,
                                                    std::span<const std::int64_t> rows) const;
  template <typename T>
  void add_up(const OwnBucket& bucket, const std::vector<std::vector<std::int64_t>>& rows,
              const std::vector<char>& found);
  void add_peers(std::span<float> values) const;
  void add_peers(std::span<double> values) const;

  const ParameterExchangeOptions options_;
  const std::vector<OwnParameter> parameters_;
  const std::vector<OwnBucket> buckets_;
  std::vector<OwnGradients> gradients_;  // one for each tower
};

}  // namespace penstock::towers
