// Makes groups on the threads of this run.
#pragma once

#include <string>

#include "pipeline/engine/group_runner.h"
#include "pipeline/engine/group_sizer.h"
#include "pipeline/engine/read_pace.h"

namespace penstock {

class Run;
struct SlotLayout;

/// Groups are read, if their source may wait, on threads that may, and computed on the arena.
class LocalRunner final : public GroupRunner {
 public:
  /// `layout` is that of the batches that results are put into; null: groups keep them. `stage` is
  /// who does so, for errors. All but this outlive it.
  LocalRunner(Run& run, std::string stage, std::uint64_t key, const SlotLayout* layout,
              GroupSizer& sizer, ReadPace& pace, GroupListener& listener);

  std::size_t most() const noexcept override { return most_; }
  void prepare(Group& group) override;
  void begin(Group& group) override;
  bool remake(Group& group, std::size_t item, bool& last_try) override;

 private:
  bool in_place() const noexcept { return layout_ != nullptr; }
  void renew_context(Group& group);
  void submit_reads(Group& group);
  void read(Group& group, std::size_t part, std::size_t parts) noexcept;
  void read_part(Group& group, std::size_t part, std::size_t parts);
  void join_parts(Group& group);
  void go_on(Group& group) noexcept;
  void compute(Group& group) noexcept;
  void make(Group& group);
  void make_some(Group& group, std::size_t first, std::size_t count);
  void store(Group& group, std::size_t first, std::span<WorkItem> work);
  void store_run(Group& group, const Place& place, std::span<WorkItem> work);
  void store_outliers(Group& group, std::size_t first, std::vector<Outlier>& outliers);
  void abandon(Group& group) noexcept;

  Run& run_;
  const std::string stage_;
  const std::uint64_t key_;  // of random numbers
  const SlotLayout* const layout_;
  const bool stores_texts_;  // one byte string each
  GroupSizer& sizer_;
  ReadPace& pace_;
  GroupListener& listener_;
  std::size_t most_ = SIZE_MAX;
};

}  // namespace penstock
