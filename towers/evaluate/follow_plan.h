// The rule that tells an evaluator when to evaluate which checkpoint. There are no clocks, files or
// threads here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::towers {

/// Times in seconds. Delay and throttle are those of Estimator's EvalSpec, where they are 120 and
/// 600. Estimator's checkpoints are made by the clock, ours on request. So here every checkpoint is
/// evaluated by default.
struct FollowOptions {
  double start_delay_s = 0;  ///< before the first evaluation
  /// The least time between the starts of two evaluations.
  double throttle_s = 0;
  /// Gives up after this time without a new checkpoint or a sign of the training process. Estimator
  /// waits for ever.
  double timeout_s = 3600;
};

/// The decision on the next action, from the contents of the checkpoint folder. With a throttle,
/// the newest checkpoint is evaluated and earlier ones are skipped. Without one, every checkpoint
/// that is kept is evaluated, the oldest first. Once training has ended, neither delay nor throttle
/// hold back the remaining ones.
///
///     FollowPlan plan({.throttle_s = 60}, now, std::nullopt);
///     plan.next({.kept = {{100, false}}}, now);  // {What::evaluate, 0}
///     plan.began(now);
///     plan.next({.kept = {{100, true}, {200, false}}}, now);  // {What::wait}
class FollowPlan {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Kept {
    std::uint64_t step = 0;
    bool evaluated = false;
  };
  struct Seen {
    std::vector<Kept> kept{};                  ///< oldest first
    std::optional<std::uint64_t> last_step{};  ///< set if training has ended: its last step
    /// True if the checkpoint of `last_step` was evaluated, whether it is kept or not.
    bool last_evaluated = false;
    bool trained_into = false;  ///< a process was seen training
  };
  enum class What { wait, evaluate, end, give_up };
  struct Next {
    What what = What::wait;
    std::size_t which = 0;  ///< index in `kept`

    friend bool operator==(const Next&, const Next&) = default;
  };

  /// `last_began` is when the last evaluation of an earlier evaluator began.
  FollowPlan(FollowOptions options, Time start, std::optional<Time> last_began);

  Next next(const Seen& seen, Time now);
  /// Records that an evaluation begins.
  void began(Time now) { last_began_ = now; }
  /// Returns the time in seconds since the training process last gave a sign.
  double quiet_s(Time now) const;

 private:
  std::optional<std::size_t> candidate(const Seen& seen) const;
  bool may_evaluate(Time now) const;

  const FollowOptions options_;
  const Time start_;
  std::optional<Time> last_began_;
  Time heard_;                           // last sign of the training process
  std::optional<std::uint64_t> newest_;  // step
};

}  // namespace penstock::towers
