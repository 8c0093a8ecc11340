// Makes groups on the threads of this run.
#pragma once

#include <memory>
#include <string>

#include "pipeline/engine/make/group_runner.h"
#include "pipeline/engine/make/read_pace.h"
#include "pipeline/engine/run/remote_work.h"
#include "pipeline/engine/segment/group_sizer.h"

namespace penstock {

class Run;
struct SlotLayout;

/// A runner that reads groups on waiting threads, if their source may wait, and computes them on
/// the arena.
class LocalRunner final : public GroupRunner {
 public:
  /// `layout` is the layout of the batches that receive the results. If it is null, groups keep
  /// their results. `stage` names the stage in errors. All arguments but `stage` must outlive the
  /// runner.
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
  void check_views(Group& group, std::size_t first, std::span<WorkItem> work);
  void store(Group& group, std::size_t first, std::span<WorkItem> work);
  void store_run(Group& group, const Place& place, std::span<WorkItem> work);
  void store_outliers(Group& group, std::size_t first, std::vector<Outlier>& outliers);
  void abandon(Group& group) noexcept;

  Run& run_;
  const std::string stage_;
  const std::uint64_t key_;  // keys random numbers
  const SlotLayout* const layout_;
  const bool stores_texts_;  // each row is one byte string
  GroupSizer& sizer_;
  ReadPace& pace_;
  GroupListener& listener_;
  std::size_t most_ = SIZE_MAX;
};

/// Returns a runner that makes a segment's groups on the run's threads.
std::unique_ptr<GroupRunner> make_local_runner(Run& run, const SegmentWork& segment,
                                               GroupListener& listener);
/// Returns the same, or a runner that also uses other processes if the run has workers there.
std::unique_ptr<GroupRunner> make_runner(Run& run, const SegmentWork& segment,
                                         GroupListener& listener);

}  // namespace penstock
