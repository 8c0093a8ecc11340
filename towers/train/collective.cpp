#include "towers/train/collective.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/towers/peers.h>

#include "towers/tree_sum.h"

namespace penstock::towers {
namespace {

class HostCollective final : public Collective {
 public:
  HostCollective(int ranks, double timeout_s, Peers* peers)
      : timeout_s_(timeout_s),
        peers_(peers),
        arrived_(static_cast<std::size_t>(ranks)),
        values_(static_cast<std::size_t>(ranks)) {}

  int size() const noexcept override { return static_cast<int>(values_.size()); }

  void barrier(int rank) EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    if (!error_.ok()) throw Error(error_.error());
    arrived_[static_cast<std::size_t>(rank)] = true;
    if (++waiting_ == arrived_.size()) {
      waiting_ = 0;
      arrived_.assign(arrived_.size(), false);
      ++generation_;
      changed_.notify_all();
      return;
    }
    const std::uint64_t mine = generation_;
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s_);
    while (generation_ == mine && error_.ok()) {
      if (!changed_.wait_until(mutex_, until) && generation_ == mine && error_.ok()) {
        error_ = missing();
        changed_.notify_all();
      }
    }
    if (generation_ == mine) throw Error(error_.error());
  }

  void sum(int rank, std::span<double> values) EXCLUDES(mutex_) override {
    const auto me = static_cast<std::size_t>(rank);
    values_[me] = values;
    barrier(rank);
    for (const std::span<double> other : values_)
      if (other.size() != values.size())
        throw Error(ErrorCode::invalid_argument, "towers add up " + std::to_string(other.size()) +
                                                     " and " + std::to_string(values.size()) +
                                                     " values");
    const std::size_t ranks = values_.size();
    const std::size_t end = values.size() * (me + 1) / ranks;
    const std::size_t begin = values.size() * me / ranks;
    std::vector<double*> parts;
    for (const std::span<double> other : values_) parts.push_back(other.data());
    sum_by_tree<double>(parts, begin, end);
    for (std::size_t r = 1; r < ranks; ++r)
      std::copy(parts[0] + begin, parts[0] + end, parts[r] + begin);
    barrier(rank);
    if (peers_ == nullptr) return;
    if (rank == 0) sum_over_processes(parts, values.size());
    barrier(rank);
  }

  void fail(const Status& error) noexcept EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    if (error_.ok()) error_ = error;
    changed_.notify_all();
  }

 private:
  void sum_over_processes(const std::vector<double*>& parts, std::size_t count) {
    const auto processes = static_cast<std::size_t>(peers_->size());
    std::vector<double> all(count * processes);
    peers_->gather_between_towers(std::as_bytes(std::span(parts[0], count)),
                                  std::as_writable_bytes(std::span(all)));
    std::vector<double*> sums;
    for (std::size_t p = 0; p < processes; ++p) sums.push_back(all.data() + p * count);
    sum_by_tree<double>(sums, 0, count);
    for (double* part : parts) std::copy_n(all.data(), count, part);
  }

  Error missing() const REQUIRES(mutex_) {
    std::string names;
    for (std::size_t r = 0; r < arrived_.size(); ++r)
      if (!arrived_[r]) names += (names.empty() ? "" : ", ") + std::to_string(r);
    return {ErrorCode::no_progress, "tower " + names + " has not come to the exchange in " +
                                        std::to_string(timeout_s_) + " s"};
  }

  const double timeout_s_;
  Peers* const peers_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<bool> arrived_ GUARDED_BY(mutex_);
  std::size_t waiting_ GUARDED_BY(mutex_) = 0;
  std::uint64_t generation_ GUARDED_BY(mutex_) = 0;
  Status error_ GUARDED_BY(mutex_);
  std::vector<std::span<double>> values_;  // each written by its rank between barriers
};

}  // namespace

std::unique_ptr<Collective> make_host_collective(int ranks, double timeout_s, Peers* peers) {
  if (ranks < 1) throw Error(ErrorCode::invalid_argument, "a collective needs at least one rank");
  return std::make_unique<HostCollective>(ranks, timeout_s, peers);
}

}  // namespace penstock::towers
