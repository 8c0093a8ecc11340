#include "cluster/job.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include <penstock/report.h>

namespace penstock::cluster {
namespace {

/// NCCL has no TLS either, and would use any network it finds. It reads these variables when it
/// makes its first connections. Call this before the rendezvous has threads, because setenv is not
/// thread-safe.
void keep_nccl_to(const std::string& interface) {
  setenv("NCCL_SOCKET_IFNAME", interface.empty() ? "=lo" : ("=" + interface).c_str(), 1);
  if (interface.empty()) setenv("NCCL_IB_DISABLE", "1", 1);
}

}  // namespace

Job::Job(const Cluster& cluster, const RendezvousOptions& rendezvous,
         const ProcessGroupOptions& group, const Facts& facts)
    : any_order_((keep_nccl_to(group.interface),
                  group.exchange == Exchange::ring && group.compress == Compress::none)),
      rendezvous_(open_rendezvous(cluster, rendezvous)) {
  set_report_rank(cluster.rank, cluster.world);
  try {
    meet(cluster, rendezvous, group, facts);
  } catch (...) {
    rendezvous_->fail(status_from_current_exception());  // others wait for this rank
    throw;
  }
}

void Job::meet(const Cluster& cluster, const RendezvousOptions& rendezvous,
               const ProcessGroupOptions& group, const Facts& facts) {
  rendezvous_->join(facts);
  ProcessGroupOptions options = group;
  options.tls = rendezvous.tls;
  options.token = rendezvous.token;
  options.named_within = std::max(options.named_within, 2 * rendezvous.peer_timeout);
  options.name = "gradients";
  gradients_ = open_process_group(*rendezvous_, cluster, options);
  options.name = "towers";
  options.exchange = Exchange::ordered;
  options.compress = Compress::none;
  towers_ = open_process_group(*rendezvous_, cluster, options);
}

// Rank 0 reads its clock and sends the time to all. No rank receives it before it was read, and
// rank 0 does not read the clock again before all have asked. So each answer bounds the offset from
// both sides.
ClockOffset Job::measure_clock() {
  const auto now_ns = [] {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  constexpr int kRounds = 16;
  std::int64_t least = INT64_MIN;
  std::int64_t most = INT64_MAX;
  std::int64_t asked_before = 0;
  std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t asked = now_ns();
    towers_->all_gather(std::as_bytes(std::span(&asked, 1)),
                        std::as_writable_bytes(std::span(all)));
    const std::int64_t heard = now_ns();
    least = std::max(least, all[0] - heard);
    if (round > 0) most = std::min(most, all[0] - asked_before);
    asked_before = asked;
  }
  if (rank() == 0) return {0, 0};
  return {least + (most - least) / 2, (most - least + 1) / 2};
}

std::vector<std::string> Job::gather_texts(std::string mine) {
  const auto ranks = static_cast<std::size_t>(size());
  const auto bytes = static_cast<std::uint64_t>(mine.size());
  std::vector<std::uint64_t> sizes(ranks);
  towers_->all_gather(std::as_bytes(std::span(&bytes, 1)),
                      std::as_writable_bytes(std::span(sizes)));
  const std::size_t longest = *std::ranges::max_element(sizes);
  if (longest == 0) return std::vector<std::string>(ranks);
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  if (longest > kMostBytes / ranks)
    throw Error(ErrorCode::out_of_range, "a rank sends the others " + std::to_string(longest) +
                                             " bytes, too many for " + std::to_string(ranks) +
                                             " ranks");
  mine.resize(longest);
  std::string all(ranks * longest, '\0');
  towers_->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    texts.push_back(all.substr(rank * longest, sizes[rank]));
  return texts;
}

void Job::fail(const Status& error) noexcept {
  gradients_->fail(error);
  towers_->fail(error);
}

}  // namespace penstock::cluster
