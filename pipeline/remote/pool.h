// The workers of a run: which worker gets which group, and what happens to groups of lost workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/internal/worker_links.h>

#include "pipeline/engine/run/remote_work.h"
#include "pipeline/remote/connection.h"
#include "pipeline/remote/group_wire.h"
#include "pipeline/remote/programs.h"

namespace penstock::remote {

/// A segment's side of its groups. Called without the pool's lock.
class JobOwner {
 public:
  /// Makes the group on threads of this process.
  virtual void make_here(Group& group) noexcept = 0;
  /// Takes the results of a worker. Returns false if they are not those of the group; the group's
  /// listener was not told of it then. After true, neither the group nor its owner may be touched,
  /// because both may be gone.
  virtual bool take(Group& group, const AnswerHead& head, Incoming& message) noexcept = 0;
  /// The group's results are no longer wanted.
  virtual void drop(Group& group) noexcept = 0;
  /// The group can't be made, which ends the run.
  virtual void fail(Group& group, const Status& why) noexcept = 0;

 protected:
  ~JobOwner() = default;
};

/// A group that any process may make.
struct Job {
  JobOwner* owner = nullptr;
  Group* group = nullptr;
  std::shared_ptr<const AskBody> body;
  std::size_t answer_bytes = 0;  ///< as far as it is known
  std::uint64_t id = 0;
  int tries = 0;  ///< workers that have the group and are not lost
};

/// A pool of workers. Groups wait in one queue; whichever worker has room, or this process, takes
/// the first. So faster ones take more. A group that takes long is requested once more elsewhere. A
/// group whose worker is lost goes to the front of the queue. Thread-safe.
class WorkerPool final : public RemoteWork, private ConnectionOwner {
 public:
  /// Throws Error if the run's options for workers are wrong.
  explicit WorkerPool(const RemoteServices& services);
  ~WorkerPool() override;

  /// Connects to the workers. Called once, before all else. Throws Error if an address is wrong; a
  /// worker that answers that it does not fit is left out later, with a warning.
  void start();

  // RemoteWork
  std::unique_ptr<GroupRunner> runner(const SegmentWork& segment, const MakeLocal& local,
                                      GroupListener& listener) override;
  Figures figures() const override;

  ProgramNumbers& programs() noexcept { return programs_; }
  /// Returns the most bytes that a request and its answer may take.
  std::size_t most_bytes() const noexcept { return most_bytes_; }
  /// Returns the number of groups that workers may have.
  std::size_t capacity() const noexcept { return capacity_.load(std::memory_order_relaxed); }
  /// Returns the bytes of an answer of which a worker may have one for each thread, and two more.
  std::size_t most_bytes_of_group() const noexcept {
    return bytes_of_group_.load(std::memory_order_relaxed);
  }
  void add(Job job);
  /// Ends a group that was to be made here.
  void done_here() noexcept;
  /// Counts a group that only this process can make, and that it has begun.
  void count_here() noexcept;
  /// Drops all groups of this owner, except those whose results are being taken right now.
  void drop_all(const JobOwner& owner) noexcept;

 private:
  // ConnectionOwner
  void ready(Connection& connection, const Welcome& welcome) noexcept override;
  void answered(Connection& connection, AnswerHead head, Incoming& message) noexcept override;
  void leaving(Connection& connection) noexcept override;
  void gone(Connection& connection, const Status& why, bool for_good) noexcept override;

  /// Work that is done after the lock is released.
  struct Todo {
    std::vector<Job> here;
    std::vector<Job> failed;
    Status why{};
    /// Texts for the log, behind the name under which they are said once, if they are.
    std::vector<std::pair<std::string, std::string>> warnings;
  };

  void watch(const std::stop_token& stop) noexcept;
  void look(Clock::time_point now) EXCLUDES(mutex_);
  void begin_connecting(Connection& connection) REQUIRES(mutex_);
  Status connect(Connection& connection, Todo& todo) noexcept EXCLUDES(mutex_);
  void set_addresses(const std::vector<std::string>& addresses) REQUIRES(mutex_);
  void hedge(Clock::time_point now, Todo& todo) REQUIRES(mutex_);
  void give_up_without_workers(Clock::time_point now, Todo& todo) REQUIRES(mutex_);
  void hand_out(Todo& todo) REQUIRES(mutex_);
  Connection* next_worker(const Job& job, const Connection* but = nullptr) REQUIRES(mutex_);
  bool has_room_here() const noexcept REQUIRES(mutex_);
  void send(Connection& connection, const Job& job) REQUIRES(mutex_);
  void lose(Connection& connection, const Status& why, bool for_good, Todo& todo) REQUIRES(mutex_);
  void count_capacity() noexcept REQUIRES(mutex_);
  bool settle(Connection& connection, std::uint64_t id) REQUIRES(mutex_);
  void carry_out(Todo todo) noexcept EXCLUDES(mutex_);
  Clock::duration patience() const noexcept REQUIRES(mutex_);

  static constexpr std::size_t kMostRemembered = 256;

  const RemoteServices run_;
  const WorkerOptions& options_;
  const std::size_t most_bytes_;
  const std::size_t threads_here_;
  ProgramNumbers programs_;
  const WorkerTransport& transport_;
  WireBytes hello_;
  std::atomic<std::size_t> capacity_{0};
  std::atomic<std::size_t> bytes_of_group_{SIZE_MAX};

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> connections_ GUARDED_BY(mutex_);
  // Addresses that were found, if they are watched.
  std::vector<std::string> wanted_ GUARDED_BY(mutex_);
  bool wanted_changed_ GUARDED_BY(mutex_) = false;
  std::deque<Job> line_ GUARDED_BY(mutex_);
  std::map<std::uint64_t, Job> under_way_ GUARDED_BY(mutex_);
  // Numbers and checksums of the groups that were taken last.
  std::deque<std::pair<std::uint64_t, std::uint64_t>> sums_ GUARDED_BY(mutex_);
  std::uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  std::size_t here_ GUARDED_BY(mutex_) = 0;  // groups that are made here
  std::uint64_t groups_here_ GUARDED_BY(mutex_) = 0;
  std::uint64_t groups_there_ GUARDED_BY(mutex_) = 0;
  double usual_s_ GUARDED_BY(mutex_) = 0;  // usual time from request to answer
  Clock::time_point last_up_ GUARDED_BY(mutex_);
  Status refused_ GUARDED_BY(mutex_);  // the error of the last worker that was left out

  StoppableCondVar changed_;
  std::unique_ptr<WorkerWatch> follow_;
  Thread thread_;
};

/// Connects to the workers that the run's options name (OpenWorkers).
std::unique_ptr<RemoteWork> open_workers(const RemoteServices& services);

}  // namespace penstock::remote
