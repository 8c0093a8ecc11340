#include "towers/servers/roster.h"

#include <algorithm>
#include <utility>

#include <penstock/error.h>

namespace penstock::towers {
namespace {

constexpr std::size_t kEarlier = 16;

std::string milliseconds_text(Roster::Duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) +
         " ms";
}

}  // namespace

std::string name_of_process(int process) {
  return process == 0 ? "the chief" : "process " + std::to_string(process);
}

Roster::Roster(int processes, int replicas, const Trainee& chief, Duration peer_timeout,
               Duration join_timeout, Time now)
    : each_(replicas / std::max(1, processes)),
      peer_timeout_(peer_timeout),
      join_timeout_(join_timeout),
      seats_(static_cast<std::size_t>(processes)),
      replica_left_(static_cast<std::size_t>(replicas)) {
  for (Seat& one : seats_) one.heard = now;
  seats_.front().incarnation = chief.incarnation;
}

Roster::Seat& Roster::seat_of(const Trainee& who) {
  if (who.process < 0 || who.process >= processes())
    throw Error(ErrorCode::invalid_argument, "there is no process " + std::to_string(who.process) +
                                                 " in a run of " + std::to_string(processes()));
  return seats_[static_cast<std::size_t>(who.process)];
}

bool Roster::chief_lives(int process, Time asked, Time now) const {
  const Seat& chief = seats_.front();
  if (process == 0 || chief.heard >= asked) return true;
  const bool is_new = process > 0 && process < processes() && seat(process).incarnation.empty();
  return is_new && now - chief.heard < peer_timeout_ / 4;
}

void Roster::check(const Trainee& who) {
  const Seat& mine = seat_of(who);
  if (std::ranges::find(mine.earlier, who.incarnation) != mine.earlier.end() ||
      (mine.lost && mine.incarnation == who.incarnation))
    throw Error(ErrorCode::cancelled,
                name_of_process(who.process) +
                    " may not continue: it was taken for lost, or another one "
                    "has taken its place");
}

bool Roster::enter(const Trainee& who, Time now) {
  check(who);
  Seat& mine = seat_of(who);
  mine.heard = now;
  if (mine.incarnation == who.incarnation) return false;
  if (!mine.incarnation.empty()) {
    mine.earlier.push_back(mine.incarnation);
    if (mine.earlier.size() > kEarlier) mine.earlier.erase(mine.earlier.begin());
  }
  mine.incarnation = who.incarnation;
  const bool was_away = mine.lost || mine.left > 0;
  mine.lost = false;
  mine.left = 0;
  std::fill_n(replica_left_.begin() + first_replica(who.process), each_, 0);
  return was_away;
}

void Roster::hear(const Trainee& who, Time now) {
  Seat& mine = seat_of(who);
  if (mine.incarnation != who.incarnation)
    throw Error(ErrorCode::cancelled,
                mine.incarnation.empty()
                    ? name_of_process(who.process) + " has not entered the run"
                    : "another one has taken the place of " + name_of_process(who.process));
  if (mine.lost)
    throw Error(ErrorCode::cancelled,
                name_of_process(who.process) + " was taken for lost: " + mine.why);
  mine.heard = now;
}

void Roster::check_replica(const Trainee& who, int replica) const {
  if (replica < first_replica(who.process) || replica >= first_replica(who.process + 1))
    throw Error(ErrorCode::invalid_argument, "replica " + std::to_string(replica) +
                                                 " is not one of " + name_of_process(who.process));
}

void Roster::leave(int replica) {
  if (std::exchange(replica_left_[static_cast<std::size_t>(replica)], 1) == 0)
    ++seats_[static_cast<std::size_t>(replica / each_)].left;
}

bool Roster::lose(int process, const std::string& why, Time now) {
  Seat& mine = seats_[static_cast<std::size_t>(process)];
  if (mine.lost || left(process)) return false;
  mine.lost = true;
  mine.since = now;
  mine.why = why;
  ++losses_;
  return true;
}

std::vector<int> Roster::look(Time now) {
  std::vector<int> gone;
  for (int process = 0; process < processes(); ++process) {
    const Duration limit = came(process) ? peer_timeout_ : join_timeout_;
    // A chief whose towers have left still keeps the run, so its signs of life still count.
    if (seat(process).lost || (process > 0 && left(process)) || now - seat(process).heard < limit)
      continue;
    const std::string why =
        came(process) ? "nothing was heard of it for " : "it did not come within ";
    Seat& mine = seats_[static_cast<std::size_t>(process)];
    mine.lost = true;
    mine.since = mine.heard;
    mine.why = why + milliseconds_text(limit);
    ++losses_;
    gone.push_back(process);
  }
  return gone;
}

}  // namespace penstock::towers
