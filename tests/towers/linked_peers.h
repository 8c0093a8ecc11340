// The processes of a job, as threads of a test.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include <penstock/towers/peers.h>

#include "towers/tree_sum.h"

namespace penstock::towers::test {

/// The state that the processes share. All make the same calls.
class Link {
 public:
  explicit Link(int size) : parts_(static_cast<std::size_t>(size)) {}
  int size() const noexcept { return static_cast<int>(parts_.size()); }

  /// Returns the data of all processes, in the order of ranks. Valid until all have called `done`.
  const std::vector<std::vector<std::byte>>& give(int rank, std::span<const std::byte> mine) {
    std::unique_lock lock(mutex_);
    parts_[static_cast<std::size_t>(rank)].assign(mine.begin(), mine.end());
    meet(lock);
    return parts_;
  }
  void done() {
    std::unique_lock lock(mutex_);
    meet(lock);
  }
  void fail(const Status& error) noexcept {
    const std::lock_guard lock(mutex_);
    if (error_.ok()) error_ = error;
    changed_.notify_all();
  }

 private:
  void meet(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t mine = round_;
    if (++arrived_ == size()) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != mine || !error_.ok(); });
    if (!error_.ok()) throw Error(error_.error());
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<std::vector<std::byte>> parts_;
  std::uint64_t round_ = 0;
  int arrived_ = 0;
  Status error_;
};

/// One process of the job.
class LinkedPeers final : public Peers {
 public:
  /// `between`: the link for `gather_between_towers`. The links must outlive this object.
  LinkedPeers(int rank, Link& gradients, Link& between, bool any_order)
      : rank_(rank), gradients_(gradients), between_(between), any_order_(any_order) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return gradients_.size(); }
  bool any_order() const noexcept override { return any_order_; }
  void sum(std::span<float> values) override {
    std::vector<std::vector<float>> parts;
    for (const auto& bytes : gradients_.give(rank_, std::as_bytes(values)))
      std::memcpy(parts.emplace_back(values.size()).data(), bytes.data(), bytes.size());
    gradients_.done();
    std::vector<float*> pointers;
    for (auto& part : parts) pointers.push_back(part.data());
    sum_by_tree<float>(pointers, 0, values.size());
    std::ranges::copy(parts.front(), values.begin());
  }
  void gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    gather_over(gradients_, mine, all);
  }
  void gather_between_towers(std::span<const std::byte> mine, std::span<std::byte> all) override {
    gather_over(between_, mine, all);
  }
  void fail(const Status& error) noexcept override {
    gradients_.fail(error);
    between_.fail(error);
  }

 private:
  void gather_over(Link& link, std::span<const std::byte> mine, std::span<std::byte> all) const {
    std::size_t at = 0;
    for (const auto& bytes : link.give(rank_, mine)) {
      std::memcpy(all.data() + at, bytes.data(), bytes.size());
      at += bytes.size();
    }
    link.done();
  }

  const int rank_;
  Link& gradients_;
  Link& between_;
  const bool any_order_;
};

}  // namespace penstock::towers::test
