// The runner that makes a segment's groups in this process and in workers.
#pragma once

#include <memory>
#include <string>

#include "pipeline/remote/pool.h"

namespace penstock::remote {

/// A runner of groups. Groups that workers can make join the pool's queue. All others are made
/// here, as in a run without workers. Blocked groups are always made here.
class RemoteRunner final : public GroupRunner, private GroupListener, private JobOwner {
 public:
  RemoteRunner(WorkerPool& pool, const RemoteServices& services, const SegmentWork& segment,
               const RemoteWork::MakeLocal& make_local, GroupListener& listener);

  // GroupRunner
  std::size_t most() const noexcept override { return local_->most(); }
  void prepare(Group& group) override { local_->prepare(group); }
  void begin(Group& group) override;
  bool remake(Group& group, bool last_try) override { return local_->remake(group, last_try); }
  std::size_t elsewhere() const noexcept override { return pool_.capacity(); }
  void stop() noexcept override { pool_.drop_all(*this); }

 private:
  // GroupListener, for the groups that are made here
  bool stopping() const noexcept override { return listener_.stopping(); }
  void group_ready(Group& group) noexcept override { listener_.group_ready(group); }
  void group_done(Group& group) noexcept override;
  void group_blocked(Group& group) noexcept override;
  void broke_down() noexcept override { listener_.broke_down(); }
  void group_lost(Group& group) noexcept override;

  // JobOwner
  void make_here(Group& group) noexcept override;
  bool take(Group& group, const AnswerHead& head, Incoming& message) noexcept override;
  void drop(Group& group) noexcept override { listener_.group_done(group); }
  void fail(Group& group, const Status& why) noexcept override;

  bool prepared_again(Group& group) noexcept;
  std::size_t answer_bytes(const Group& group) const;

  WorkerPool& pool_;
  const RemoteServices& run_;
  const SegmentWork segment_;
  const std::size_t stage_;  // number of the segment's owner
  GroupListener& listener_;
  const std::unique_ptr<GroupRunner> local_;
};

}  // namespace penstock::remote
