#include "towers/train/joint_start.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/error.h>

#include "towers/servers/served_job.h"
#include "towers/strategies/kinds.h"

namespace penstock::towers {
namespace {

/// Bytes in one message. Each is gathered from all ranks, but only rank 0 sends content.
constexpr std::size_t kPiece = std::size_t{1} << 20;

template <typename T>
std::vector<T> gather_each(Peers& peers, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(peers.size()));
  peers.gather_between_towers(std::as_bytes(std::span(&mine, 1)),
                              std::as_writable_bytes(std::span(all)));
  return all;
}

/// Returns rank 0's bytes on all ranks.
std::string sent_by_first(Peers& peers, const std::string& mine, std::uint64_t size) {
  std::string all;
  all.reserve(size);
  std::vector<char> piece;
  std::vector<char> of_all;
  while (all.size() < size) {
    const std::size_t at = all.size();
    const std::size_t now = std::min<std::size_t>(kPiece, size - at);
    piece.assign(now, 0);
    of_all.resize(now * static_cast<std::size_t>(peers.size()));
    if (peers.rank() == 0) std::memcpy(piece.data(), mine.data() + at, now);
    peers.gather_between_towers(std::as_bytes(std::span(piece)),
                                std::as_writable_bytes(std::span(of_all)));
    all.append(of_all.data(), now);
  }
  return all;
}

/// The contents of a rank's folder.
struct Finding {
  std::uint64_t there = 0;
  std::uint64_t step = 0;
  std::uint64_t digest = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const Finding&, const Finding&) = default;
};

std::string step_of(const Finding& finding) {
  return finding.there != 0 ? "one of step " + std::to_string(finding.step) : "none";
}

}  // namespace

std::optional<Checkpoints> checkpoint_folder(const TrainOptions& options) {
  const StrategyOptions& strategy = options.strategy;
  // Processes other than the chief get their state from the servers.
  const bool none = is_served(strategy) && strategy.served->process != 0;
  if (options.checkpoint_folder.empty() || none) return std::nullopt;
  return std::optional<Checkpoints>(std::in_place, options.checkpoint_folder,
                                    strategy.peers != nullptr && strategy.peers->rank() != 0,
                                    options.checkpoints_kept);
}

std::optional<StoredRun> agree_on_checkpoint(Checkpoints* folder, Peers* peers) {
  std::optional<StoredRun> mine;
  if (folder != nullptr) mine = folder->newest();
  if (peers == nullptr) return mine;
  Finding finding;
  if (mine) finding = {1, mine->step(), mine->digest(), mine->bytes().size()};
  const std::vector<Finding> all = gather_each(*peers, finding);
  const Finding& first = all.front();
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].there > first.there || all[rank].step > first.step)
      throw Error(ErrorCode::invalid_argument,
                  "rank " + std::to_string(rank) + " finds a newer checkpoint in its folder, " +
                      step_of(all[rank]) + ", than rank 0, which finds " + step_of(first) +
                      ": start rank 0 where the newest is, or remove the unwanted ones");
  if (first.there == 0 || std::ranges::all_of(all, [&](const Finding& f) { return f == first; }))
    return mine;
  std::string sent = sent_by_first(*peers, mine ? mine->bytes() : std::string(), first.bytes);
  if (finding == first) return mine;
  return StoredRun(std::move(sent), "the checkpoint of rank 0");
}

void check_alike(Peers& peers, std::uint64_t step, std::uint64_t digest) {
  const auto all = gather_each(peers, std::array<std::uint64_t, 2>{step, digest});
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank][0] != all[0][0])
      throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(rank) +
                                                   " continues at step " +
                                                   std::to_string(all[rank][0]) +
                                                   ", rank 0 at step " + std::to_string(all[0][0]));
    if (all[rank][1] != all[0][1])
      throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(rank) +
                                                   " starts with other variables than rank 0: all "
                                                   "need the same --init and the same program");
  }
}

void take_first_values(Peers& peers, std::span<float> values) {
  std::vector<float> all(values.size() * static_cast<std::size_t>(peers.size()));
  peers.gather_between_towers(std::as_bytes(std::span<const float>(values)),
                              std::as_writable_bytes(std::span(all)));
  std::copy_n(all.data(), values.size(), values.data());
}

bool any_says(Peers& peers, bool mine) {
  const std::vector<char> all = gather_each<char>(peers, mine ? 1 : 0);
  return std::ranges::find(all, 1) != all.end();
}

}  // namespace penstock::towers
