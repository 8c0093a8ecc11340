// A session: a remote run that this process makes elements for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/internal/worker_links.h>
#include <penstock/serve.h>

#include "pipeline/engine/make/group_runner.h"
#include "pipeline/engine/run/run.h"
#include "pipeline/remote/element_cache.h"
#include "pipeline/remote/group_wire.h"
#include "pipeline/remote/programs.h"

namespace penstock::remote {

/// Data that all sessions share.
struct Served {
  std::optional<Dataset> dataset{};  ///< of this program…
  MakeDataset make{};                ///< …or of any graph that a run sends as text
  ServeOptions options{};
  std::atomic<std::uint64_t> groups{0};
  std::atomic<std::uint64_t> elements{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<int> runs{0};               ///< that have said hello
  std::unique_ptr<ElementCache> cache{};  ///< null: runs share nothing
};

/// A session with one run. A thread of its own takes the messages in order. Groups are made as a
/// run makes its own. REQUIRES: it is `over` when it is destroyed, and the destroying thread
/// belongs neither to it nor to the transport.
class Session final : public LinkListener, private GroupListener {
 public:
  Session(Served& served, WorkerLink& link);
  ~Session() override;

  /// True if no group is under way and the link is lost.
  bool over() const;
  /// True if no group is under way.
  bool idle() const;
  /// True if nothing was asked for yet, and the link is there.
  bool awaits_hello() const;
  std::chrono::steady_clock::time_point began() const noexcept { return began_; }
  /// Tells the run that this worker takes no more groups.
  void leave() noexcept;
  void close() noexcept;

  // LinkListener
  void received(WireBytes message) noexcept override;
  void lost(const Status& why) noexcept override;

 private:
  class Awaited;
  struct Bell;
  class BudgetAllocator;
  class Charge;
  struct Work;
  using WorkPtr = std::shared_ptr<Work>;

  // GroupListener
  bool stopping() const noexcept override { return gone_.load(std::memory_order_relaxed); }
  void group_ready(Group&) noexcept override {}
  void group_done(Group& group) noexcept override;
  void group_blocked(Group& group) noexcept override;
  void broke_down() noexcept override {}
  void group_lost(Group& group) noexcept override;

  void take_messages(const std::stop_token& stop) noexcept;
  bool wait(const std::stop_token& stop, std::optional<WireBytes>& message, bool& tend);
  void take(WireBytes bytes);
  void greet(StateReader& head);
  void begin_run(StateReader& head);
  void share_memory();
  Dataset dataset_for(const Hello& hello) const;
  void make(Incoming& message);
  void begin(const WorkPtr& work, Incoming& message);
  void leave_unfinished(Work& work, const PlannedStage& stage);
  void start(Work& work);
  GroupContext::Services making() const noexcept;
  void answer(const WorkPtr& work, AnswerHead head);
  void pack_values(Work& work, AnswerHead& head);
  WorkPtr under_way(Group& group) noexcept;
  void complete(const WorkPtr& work) noexcept;
  void finish(const WorkPtr& work) noexcept;
  void answer_without(const WorkPtr& work, AnswerHead::What what) noexcept;
  void send(WireBytes message) noexcept;
  bool may_take() const REQUIRES(mutex_);
  std::vector<StageWork> work_since_last(std::uint64_t& retried);

  // For elements that runs share:
  void share(const WorkPtr& work);
  void ask(Work& work, std::span<const std::uint32_t> items);
  bool place(Work& work, std::uint32_t item, const KeptPtr& kept);
  void resume(const WorkPtr& work, std::size_t settled);
  void make_some(Work& work, const std::vector<std::uint32_t>& items);
  bool made_some(Work& work) noexcept;
  void give_to_others(Work& work) noexcept;
  void keep_results(Work& work);
  void tend() noexcept;
  void tend(const WorkPtr& work);
  void give_up(const WorkPtr& work) noexcept;
  void withdraw(Work& work) noexcept;

  Served& served_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const std::shared_ptr<Bell> bell_;
  /// Bytes that were sent and not yet read. They may outlive the session.
  const std::shared_ptr<std::atomic<std::size_t>> unread_ =
      std::make_shared<std::atomic<std::size_t>>(0);
  std::atomic<bool> gone_{false};
  std::unique_ptr<Run> run_;                     // used by the message thread only
  std::unique_ptr<ProgramsByNumber> programs_;   // likewise
  std::shared_ptr<SharedMemory> shared_memory_;  // null: results are sent
  bool checks_ = true;                           // answers have checksums
  bool lz4_ = false;                             // constant once there is a run…
  std::uint64_t graph_ = 0;                      // …and so is its number in the cache

  mutable Mutex mutex_;
  WorkerLink* link_ GUARDED_BY(mutex_);  // null once it is lost
  std::deque<WireBytes> waiting_ GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ GUARDED_BY(mutex_) = 0;
  std::size_t most_waiting_ GUARDED_BY(mutex_) = std::size_t{1} << 20;  // bytes
  bool taking_ GUARDED_BY(mutex_) = false;   // a message is being handled
  bool greeted_ GUARDED_BY(mutex_) = false;  // there was a hello
  bool to_tend_ GUARDED_BY(mutex_) = false;  // elements that other runs made have come
  // Groups under way that may wait for other runs.
  std::size_t shared_ GUARDED_BY(mutex_) = 0;
  std::map<const Group*, WorkPtr> under_way_ GUARDED_BY(mutex_);
  // The work of each stage that was reported so far.
  std::vector<StageWork> told_ GUARDED_BY(mutex_);
  std::uint64_t told_retries_ GUARDED_BY(mutex_) = 0;
  StoppableCondVar changed_;
  Thread thread_;
};

}  // namespace penstock::remote
