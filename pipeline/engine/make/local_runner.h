// Makes groups on the threads of this run.
#pragma once

#include <string>

#include "pipeline/engine/make/executors.h"
#include "pipeline/engine/make/group_runner.h"
#include "pipeline/engine/make/read_pace.h"
#include "pipeline/engine/run/remote_work.h"
#include "pipeline/engine/segment/group_sizer.h"

namespace penstock {

struct SlotLayout;

/// A runner that reads groups on waiting threads, if their source may wait, and computes them on
/// the arena.
class LocalRunner final : public GroupRunner {
 public:
  /// The parts of the run that it uses.
  struct Services {
    GroupContext::Services making;
    Executors& executors;
  };
  /// `listener`, and the objects that `segment` names, must outlive the runner.
  LocalRunner(const Services& services, const SegmentWork& segment, GroupListener& listener);

  std::size_t most() const noexcept override { return most_; }
  void prepare(Group& group) override;
  void begin(Group& group) override;
  bool remake(Group& group, bool last_try) override;

 private:
  bool in_place() const noexcept { return layout_ != nullptr; }
  void submit_reads(Group& group);
  void read(Group& group, std::size_t part, std::size_t parts) noexcept;
  void read_part(Group& group, std::size_t part, std::size_t parts);
  void join_parts(Group& group);
  void resume(Group& group) noexcept;
  void compute(Group& group) noexcept;
  void make_work(Group& group) const;
  void make(Group& group);
  void make_some(Group& group, std::size_t first, std::size_t count);
  void check_views(Group& group, std::size_t first, std::span<WorkItem> work);
  void store(Group& group, std::size_t first, std::span<WorkItem> work);
  void store_run(Group& group, const Place& place, std::span<WorkItem> work);
  void store_outliers(Group& group, std::size_t first, std::vector<Outlier>& outliers);
  void abandon(Group& group) noexcept;

  const Services run_;
  const std::string stage_;
  const std::uint64_t key_;  // keys random numbers
  const SlotLayout* const layout_;
  const bool stores_texts_;  // each row is one byte string
  GroupSizer& sizer_;
  HeldBytes& held_;
  ReadPace& pace_;
  GroupListener& listener_;
  std::size_t most_ = SIZE_MAX;
};

}  // namespace penstock
