// A process of a job that trains: its rank, its rendezvous, and the data it exchanges.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/towers/peers.h>

#include "cluster/process_group.h"
#include "cluster/rendezvous.h"

namespace penstock::cluster {

/// The other processes, as the trainer sees them. It has two process groups, so that gradients can
/// be exchanged while towers wait for each other.
class Job final : public towers::Peers {
 public:
  /// Meets the other processes. Throws the errors of `open_rendezvous`, `Rendezvous::join` and
  /// `open_process_group`. REQUIRES: `cluster.trains()`.
  Job(const Cluster& cluster, const RendezvousOptions& rendezvous, const ProcessGroupOptions& group,
      const Facts& facts);

  int rank() const noexcept override { return gradients_->rank(); }
  int size() const noexcept override { return gradients_->size(); }
  bool any_order() const noexcept override { return any_order_; }
  void sum(std::span<float> values) override { gradients_->sum(values); }
  void gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    gradients_->all_gather(mine, all);
  }
  void gather_between_towers(std::span<const std::byte> mine, std::span<std::byte> all) override {
    towers_->all_gather(mine, all);
  }
  void fail(const Status& error) noexcept override;
  /// Returns success, or the error that ended the job, which names the rank.
  Status status() const { return rendezvous_->status(); }
  /// `say` publishes this rank's status text. On rank 0, `said` returns the last text of each rank,
  /// a few seconds old. Any thread may call both.
  void say(std::string what) { rendezvous_->say(std::move(what)); }
  std::vector<std::string> said() const { return rendezvous_->said(); }
  /// Returns the offset of rank 0's steady clock, from the signs of life.
  ClockOffset clock() const { return rendezvous_->clock(); }
  /// Returns the same offset, measured by exchanges within the group. All ranks call it together,
  /// while no tower runs.
  ClockOffset measure_clock();
  /// Returns the text of each rank, by rank. All ranks call it together, while no tower runs. It
  /// takes as much memory as one text of the longest length for each rank.
  std::vector<std::string> gather_texts(std::string mine);

 private:
  void meet(const Cluster& cluster, const RendezvousOptions& rendezvous,
            const ProcessGroupOptions& group, const Facts& facts);

  const bool any_order_;
  const std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<ProcessGroup> gradients_;
  std::unique_ptr<ProcessGroup> towers_;
};

}  // namespace penstock::cluster
