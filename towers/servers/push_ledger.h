// A record of pushes that have arrived, and of their verdicts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "towers/servers/parameter_server.h"

namespace penstock::towers {

/// A ledger of pushes. Each replica's pushes are processed in the order of their numbers, each
/// once, even if calls are repeated. With async the ledger also decides which pushes count. A push
/// older than `max_staleness` updates does not, and no more than `max_steps` count in all. Has no
/// threads, and is not synchronised.
class PushLedger {
 public:
  /// `max_steps` 0 and `max_staleness` -1 mean no limit.
  PushLedger(Pushes done, std::uint64_t max_steps, int max_staleness);

  /// True if the push was settled. Throws Error{invalid_argument} if the push before it was not.
  bool is_settled(int replica, std::uint64_t number) const;
  /// Returns the verdict of a settled push; `repeated` if it is not the replica's last one.
  PushVerdict verdict_of(int replica, std::uint64_t number) const;
  void settle(int replica, std::uint64_t number, PushVerdict verdict);
  /// Counts a repeated call.
  void count_repeated() noexcept { ++figures_.repeated; }

  // For async.
  struct Decision {
    PushVerdict verdict = PushVerdict::applied;
    std::uint64_t staleness = 0;
  };
  /// Decides on the replica's next push, after `step` updates. Nothing if the decision depends on
  /// pushes that other replicas have yet to make, and that were promised to count.
  std::optional<Decision> decide(int replica, std::uint64_t number, std::uint64_t seen,
                                 std::uint64_t step) const;
  /// Promises this decision for the push.
  void promise(int replica, std::uint64_t number, const Decision& decision);
  /// Settles a push that arrived, as it was decided.
  void make_good(int replica, std::uint64_t number, const Decision& decision);
  /// Records that the replica pushes no more; its promise is free for others.
  void release(int replica);

  const Pushes& settled() const noexcept { return settled_; }
  /// Returns the fields applied, dropped, repeated and staleness.
  ServerFigures& figures() noexcept { return figures_; }

 private:
  struct Promise {
    std::uint64_t number = 0;
    Decision decision{};
  };
  static std::size_t at(int replica) { return static_cast<std::size_t>(replica); }
  std::uint64_t promised_but_to(int replica) const;

  const std::uint64_t max_steps_;
  const int max_staleness_;
  Pushes settled_;                                // by replica: the last settled number
  std::vector<PushVerdict> last_;                 // by replica: the verdict of that push
  std::vector<std::optional<Promise>> promises_;  // by replica
  ServerFigures figures_;
};

}  // namespace penstock::towers
