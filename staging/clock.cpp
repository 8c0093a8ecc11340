#include "staging/clock.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>

namespace penstock {

thread_local VirtualClock::Task* VirtualClock::self = nullptr;

VirtualClock::VirtualClock() {
  self = &main_;
  main_.rank = {-1, -1};
  MutexLock lock(mutex_);
  running_ = &main_;
  tasks_.push_back(&main_);
}

VirtualClock::~VirtualClock() {
  self = nullptr;
}

std::int64_t VirtualClock::now() const noexcept {
  MutexLock lock(mutex_);
  return now_;
}

std::uint64_t VirtualClock::switches() const noexcept {
  MutexLock lock(mutex_);
  return switches_;
}

void VirtualClock::pass_on() {
  for (;;) {
    Task* best = nullptr;
    std::int64_t next = kNever;
    for (Task* task : tasks_) {
      if (task->ended) continue;
      if (!task->ready) {
        next = std::min(next, task->deadline);
      } else if (best == nullptr || task->rank < best->rank ||
                 (task->rank == best->rank && task->sequence < best->sequence)) {
        best = task;
      }
    }
    if (best != nullptr) {
      best->ready = false;
      running_ = best;
      ++switches_;
      best->turn.notify_all();
      return;
    }
    if (next == kNever) dead_ = true;
    if (!dead_) now_ = next;
    bool any = false;
    for (Task* task : tasks_) {
      if (task->ended || (!dead_ && task->deadline > now_)) continue;
      task->ready = true;
      task->timed_out = true;
      any = true;
    }
    if (!any) return;
  }
}

void VirtualClock::wait_for_turn(Task& task) {
  while (running_ != &task) task.turn.wait(mutex_);
}

bool VirtualClock::wait_as(Task& task, const Signal& signal, std::int64_t deadline) {
  task.on = &signal;
  task.deadline = deadline;
  task.timed_out = false;
  pass_on();
  wait_for_turn(task);
  task.on = nullptr;
  task.deadline = kNever;
  return !task.timed_out;
}

bool VirtualClock::wait(std::mutex& mutex, Signal& signal, std::int64_t deadline) {
  Task& me = *self;
  bool woken = false;
  bool dead = false;
  {
    MutexLock lock(mutex_);
    if (deadline <= now_) return false;
    mutex.unlock();  // no other actor runs before pass_on
    woken = wait_as(me, signal, deadline);
    dead = dead_;
  }
  mutex.lock();
  if (dead) throw Error(ErrorCode::internal, "every actor of the simulation waits for another");
  return woken;
}

void VirtualClock::notify(Signal& signal) noexcept {
  MutexLock lock(mutex_);
  for (Task* task : tasks_) {
    if (task->on != &signal) continue;
    task->on = nullptr;
    task->ready = true;
    task->timed_out = false;
  }
}

class VirtualClock::VirtualHandle final : public TimeSource::Thread {
 public:
  VirtualHandle(VirtualClock& clock, Rank rank, std::function<void()> body) : clock_(clock) {
    MutexLock lock(clock_.mutex_);
    task_.rank = rank;
    task_.sequence = ++clock_.started_;
    task_.ready = true;
    clock_.tasks_.push_back(&task_);
    thread_ = std::jthread([this, work = std::move(body)] { run(work); });
  }
  ~VirtualHandle() override {
    {
      MutexLock lock(clock_.mutex_);
      while (!task_.ended) clock_.wait_as(*self, task_.finished, kNever);
    }
    thread_.join();
    MutexLock lock(clock_.mutex_);
    std::erase(clock_.tasks_, &task_);
  }

 private:
  void run(const std::function<void()>& work) {
    self = &task_;
    {
      MutexLock lock(clock_.mutex_);
      clock_.wait_for_turn(task_);
    }
    work();
    MutexLock lock(clock_.mutex_);
    task_.ended = true;
    for (Task* task : clock_.tasks_) {
      if (task->on != &task_.finished) continue;
      task->on = nullptr;
      task->ready = true;
      task->timed_out = false;
    }
    clock_.pass_on();
  }

  VirtualClock& clock_;
  Task task_;
  std::jthread thread_;
};

Actor VirtualClock::start(Rank rank, std::function<void()> body) {
  return std::make_unique<VirtualHandle>(*this, rank, std::move(body));
}

}  // namespace penstock
