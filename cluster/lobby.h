// The rules by which ranks join and leave a job, and by which it ends. There are no threads or
// sockets here.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <penstock/error.h>

namespace penstock::cluster {

/// Properties that all ranks must have in common, by name: "version", "graph", "data", "options".
using Facts = std::map<std::string, std::string, std::less<>>;

/// Returns the error for a process whose rank another process has already taken.
Status second_process(int rank);
/// Returns the error for a rank that counts `says` processes that train, where rank 0 counts
/// `world`.
Status other_world(int rank, int says, int world);

/// The membership of a job, kept by rank 0. All times are of one clock. A job that has ended stays
/// ended. Not synchronised.
///
///     Lobby lobby(2, 5s);
///     lobby.join(0, "a", {{"version", "1"}}, now);
///     lobby.join(1, "b", {{"version", "2"}}, now);
///     lobby.status();  // rank 1 has version 2, rank 0 has 1
class Lobby {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  /// `patience`: a rank that gives no sign of life for longer is lost. REQUIRES: world ≥ 1.
  Lobby(int world, Duration patience);

  /// Adds a process as `rank`. Joining again counts as a sign of life. `incarnation` tells
  /// processes apart. Returns an error, which does not end the job, if the rank does not exist or
  /// belongs to another process. Once all ranks have joined, their facts are compared. A difference
  /// ends the job with an error that names the odd rank.
  Status join(int rank, const std::string& incarnation, const Facts& facts, Time now);
  bool complete() const noexcept { return joined_ == static_cast<int>(members_.size()); }
  /// Returns the ranks that have not joined, as "rank 1, 3"; empty if all have.
  std::string missing() const;

  /// True if that process has joined as `rank`.
  bool knows(int rank, const std::string& incarnation) const noexcept;
  /// Records a sign of life. Signs of unknown processes are ignored. Throws nothing.
  void beat(int rank, const std::string& incarnation, Time now);
  /// Records that the rank has ended well and gives no more signs of life.
  void leave(int rank, const std::string& incarnation);
  /// Records a failure of the rank, which ends the job. The first failure counts.
  void fail(int rank, const std::string& incarnation, const Error& error);
  /// Ends the job if a rank is lost.
  void look(Time now);
  /// Declares these ranks lost, for a caller that watches their signs of life itself. Ranks that do
  /// not exist, have left, or are already lost are ignored.
  void lose(const std::vector<int>& ranks);
  /// True if each rank that has joined has left or is lost.
  bool all_left(Time now) const;

  /// Returns success, or the error that ended the job, which names the rank.
  const Status& status() const noexcept { return status_; }

 private:
  struct Member {
    bool joined = false;
    bool left = false;  // or lost
    std::string incarnation{};
    Facts facts{};
    Time heard{};
  };

  Member* member(int rank, const std::string& incarnation);
  void end_without(const std::vector<int>& lost);
  Status compare() const;

  const Duration patience_;
  std::vector<Member> members_;
  int joined_ = 0;
  Status status_;
};

}  // namespace penstock::cluster
