#include <penstock/time_source.h>

#include <chrono>
#include <utility>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock {

class RealTime final : public TimeSource {
 public:
  std::int64_t now() const noexcept override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  bool wait(std::mutex& mutex, Signal& signal, std::int64_t deadline) override {
    std::unique_lock<std::mutex> lock(mutex, std::adopt_lock);
    bool woken = true;
    if (deadline == kNever) {
      signal.changed_.wait(lock);
    } else {
      const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline)};
      woken = signal.changed_.wait_until(lock, until) == std::cv_status::no_timeout;
    }
    lock.release();
    return woken;
  }
  void notify(Signal& signal) noexcept override { signal.changed_.notify_all(); }
  std::unique_ptr<Thread> start(Rank, std::function<void()> body) override {
    return std::make_unique<SystemThread>(std::move(body));
  }

 private:
  class SystemThread final : public Thread {
   public:
    explicit SystemThread(std::function<void()> body)
        : thread_(start_thread("staging", std::move(body))) {}

   private:
    penstock::Thread thread_;
  };
};

TimeSource& TimeSource::real() noexcept {
  static RealTime time;
  return time;
}

void TimeSource::sleep_until(std::int64_t deadline) {
  Mutex mutex;
  Signal never;
  const MutexLock lock(mutex);
  while (now() < deadline) wait(WaitingMutex(mutex).native(), never, deadline);
}

}  // namespace penstock
