// The processes that belong to a run, and their presence.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "towers/servers/parameter_server.h"

namespace penstock::towers {

/// The processes of a run, as their signs of life show them. A process without a sign of life for
/// `peer_timeout` is lost; it may come back as a new incarnation. A process that has not come
/// within `join_timeout` is lost too. The chief is present from the beginning. Has no clock, and is
/// not synchronised.
class Roster {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  Roster(int processes, int replicas, const Trainee& chief, Duration peer_timeout,
         Duration join_timeout, Time now);

  /// True if it is known at `now` that the chief lives, for a process that asked to enter at
  /// `asked`. A process that was here before may belong to a new chief and report the old one's
  /// death. So for such a process only a sign of life since `asked` counts.
  bool chief_lives(int process, Time asked, Time now) const;
  /// Throws Error{invalid_argument} for an unknown process, and Error{cancelled} for an incarnation
  /// that was lost or replaced.
  void check(const Trainee& who);
  /// Replaces an earlier incarnation. True if the process was lost before, or had left. Throws what
  /// `check` throws.
  bool enter(const Trainee& who, Time now);
  /// Records a sign of life. Throws Error{cancelled}, which says why the process may not continue,
  /// and Error{invalid_argument} for an unknown process.
  void hear(const Trainee& who, Time now);
  /// Throws Error{invalid_argument} unless the replica belongs to the process.
  void check_replica(const Trainee& who, int replica) const;
  /// Records that the replica pushes no more.
  void leave(int replica);
  /// Marks the process as lost. False if it was lost already, or has left.
  bool lose(int process, const std::string& why, Time now);
  /// Returns the processes that are lost now, but were not before.
  std::vector<int> look(Time now);

  int processes() const noexcept { return static_cast<int>(seats_.size()); }
  /// Return the first replica of a process, and the number of replicas of each process.
  int first_replica(int process) const noexcept { return process * each_; }
  int each() const noexcept { return each_; }
  bool lost(int process) const { return seat(process).lost; }
  bool left(int process) const { return seat(process).left == each_; }
  bool came(int process) const { return !seat(process).incarnation.empty(); }
  /// True if it has come, and has neither left nor been lost.
  bool takes_part(int process) const { return came(process) && !lost(process) && !left(process); }
  std::uint64_t losses() const noexcept { return losses_; }
  /// Returns the time since which a lost process counts as lost; for a process that never came, the
  /// beginning of the run.
  Time lost_since(int process) const { return seat(process).since; }
  const std::string& why_lost(int process) const { return seat(process).why; }

 private:
  struct Seat {
    std::string incarnation{};  // empty: has not come yet
    // The last few earlier ones, which may not come back.
    std::vector<std::string> earlier{};
    Time heard{};
    Time since{};  // since when it is lost
    bool lost = false;
    int left = 0;  // replicas
    std::string why{};
  };
  const Seat& seat(int process) const { return seats_[static_cast<std::size_t>(process)]; }
  Seat& seat_of(const Trainee& who);

  const int each_;
  const Duration peer_timeout_, join_timeout_;
  std::vector<Seat> seats_;
  std::vector<char> replica_left_;
  std::uint64_t losses_ = 0;
};

/// Returns "process 2" or "the chief", for errors.
std::string name_of_process(int process);

}  // namespace penstock::towers
