#include "cluster/lobby.h"

#include <algorithm>
#include <set>

namespace penstock::cluster {
namespace {

std::string list_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr std::size_t kNamed = 8;
  for (std::size_t i = 0; i < ranks.size() && i < kNamed; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kNamed) text += " and " + std::to_string(ranks.size() - kNamed) + " more";
  return text;
}

}  // namespace

Status second_process(int rank) {
  return {ErrorCode::invalid_argument,
          "another process has joined as rank " + std::to_string(rank) +
              ": either two have this rank, or it was restarted before the job had ended"};
}

Status other_world(int rank, int says, int world) {
  return {ErrorCode::invalid_argument, "rank " + std::to_string(rank) + " expects " +
                                           std::to_string(says) + " processes, rank 0 expects " +
                                           std::to_string(world)};
}

Lobby::Lobby(int world, Duration patience)
    : patience_(patience), members_(static_cast<std::size_t>(world)) {}

Status Lobby::join(int rank, const std::string& incarnation, const Facts& facts, Time now) {
  if (rank < 0 || rank >= static_cast<int>(members_.size()))
    return {ErrorCode::invalid_argument, "rank " + std::to_string(rank) + " of a job with " +
                                             std::to_string(members_.size()) + " ranks"};
  Member& mine = members_[static_cast<std::size_t>(rank)];
  if (mine.joined && mine.incarnation != incarnation) return second_process(rank);
  mine.heard = now;
  if (mine.joined) return {};
  mine.facts = facts;
  mine.incarnation = incarnation;
  mine.joined = true;
  ++joined_;
  if (complete() && status_.ok()) status_ = compare();
  return {};
}

std::string Lobby::missing() const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < members_.size(); ++r)
    if (!members_[r].joined) ranks.push_back(static_cast<int>(r));
  return ranks.empty() ? "" : list_of(ranks);
}

Lobby::Member* Lobby::member(int rank, const std::string& incarnation) {
  if (rank < 0 || rank >= static_cast<int>(members_.size())) return nullptr;
  Member& mine = members_[static_cast<std::size_t>(rank)];
  return mine.joined && mine.incarnation == incarnation ? &mine : nullptr;
}

bool Lobby::knows(int rank, const std::string& incarnation) const noexcept {
  const auto at = static_cast<std::size_t>(rank);
  return rank >= 0 && at < members_.size() && members_[at].joined &&
         members_[at].incarnation == incarnation;
}

void Lobby::beat(int rank, const std::string& incarnation, Time now) {
  if (Member* mine = member(rank, incarnation)) mine->heard = now;
}

void Lobby::leave(int rank, const std::string& incarnation) {
  if (Member* mine = member(rank, incarnation)) mine->left = true;
}

void Lobby::fail(int rank, const std::string& incarnation, const Error& error) {
  if (member(rank, incarnation) == nullptr || !status_.ok()) return;
  status_ =
      Error(error.code(), "rank " + std::to_string(rank) + ": " + error.cause(), error.where());
}

void Lobby::look(Time now) {
  if (!status_.ok()) return;
  std::vector<int> lost;
  for (std::size_t r = 0; r < members_.size(); ++r) {
    const Member& mine = members_[r];
    if (mine.joined && !mine.left && now - mine.heard > patience_)
      lost.push_back(static_cast<int>(r));
  }
  if (!lost.empty()) end_without(lost);
}

void Lobby::lose(const std::vector<int>& ranks) {
  std::vector<int> lost;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= static_cast<int>(members_.size())) continue;
    const Member& mine = members_[static_cast<std::size_t>(rank)];
    if (mine.joined && !mine.left) lost.push_back(rank);
  }
  // Set the status first. If that runs out of memory, the caller tries again, and these ranks do
  // not count as gone yet.
  if (!lost.empty() && status_.ok()) end_without(lost);
  for (const int rank : lost) members_[static_cast<std::size_t>(rank)].left = true;
}

void Lobby::end_without(const std::vector<int>& lost) {
  const auto seconds = std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count();
  status_ = Error(ErrorCode::unavailable, list_of(lost) + (lost.size() == 1 ? " was" : " were") +
                                              " lost: no sign of life for " +
                                              std::to_string(seconds) + " ms");
}

bool Lobby::all_left(Time now) const {
  return std::ranges::all_of(members_, [&](const Member& mine) {
    return !mine.joined || mine.left || now - mine.heard > patience_;
  });
}

Status Lobby::compare() const {
  std::set<std::string> names;
  for (const Member& mine : members_)
    for (const auto& [name, value] : mine.facts) names.insert(name);
  for (const std::string& name : names) {
    std::map<std::string, std::vector<int>> holders;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      const auto found = members_[r].facts.find(name);
      holders[found == members_[r].facts.end() ? "none" : found->second].push_back(
          static_cast<int>(r));
    }
    if (holders.size() == 1) continue;
    // Name the smallest group first; among groups of equal size, those without rank 0.
    std::vector<std::pair<std::string, std::vector<int>>> groups(holders.begin(), holders.end());
    std::ranges::sort(groups, [](const auto& a, const auto& b) {
      if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
      return a.second.front() > b.second.front();
    });
    std::string text;
    for (const auto& [value, ranks] : groups)
      text += (text.empty() ? "" : ", ") + list_of(ranks) + " with " + name + " " + value;
    return {ErrorCode::invalid_argument, "ranks differ: " + text};
  }
  return {};
}

}  // namespace penstock::cluster
