// Mutex, lock and condition variable that Clang's thread-safety analysis understands
// (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html). All code that locks uses these:
//
//   class Counter {
//    public:
//     void add(int n) EXCLUDES(mutex_) {
//       MutexLock lock(mutex_);
//       count_ += n;
//       changed_.notify_all();
//     }
//     void wait_for_more_than(int n) EXCLUDES(mutex_) {
//       MutexLock lock(mutex_);
//       while (count_ <= n) changed_.wait(mutex_);
//     }
//
//    private:
//     Mutex mutex_;
//     CondVar changed_;
//     int count_ GUARDED_BY(mutex_) = 0;
//   };
//
// Wait for a condition with `while` around `wait`, not with a lambda: the analysis does not see
// that the lambda holds the lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define PENSTOCK_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define PENSTOCK_THREAD_ATTRIBUTE(x)
#endif

#define CAPABILITY(x) PENSTOCK_THREAD_ATTRIBUTE(capability(x))
#define SCOPED_CAPABILITY PENSTOCK_THREAD_ATTRIBUTE(scoped_lockable)
#define GUARDED_BY(x) PENSTOCK_THREAD_ATTRIBUTE(guarded_by(x))
#define PT_GUARDED_BY(x) PENSTOCK_THREAD_ATTRIBUTE(pt_guarded_by(x))
#define REQUIRES(...) PENSTOCK_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) PENSTOCK_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) PENSTOCK_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) PENSTOCK_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define ASSERT_CAPABILITY(x) PENSTOCK_THREAD_ATTRIBUTE(assert_capability(x))
#define RETURN_CAPABILITY(x) PENSTOCK_THREAD_ATTRIBUTE(lock_returned(x))
#define NO_THREAD_SAFETY_ANALYSIS PENSTOCK_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace penstock {

/// A std::mutex with a capability. Neither copyable nor movable.
class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  /// Tells the analysis that the caller holds the mutex, where it cannot see that (in a callback).
  void assert_held() const ASSERT_CAPABILITY(this) {}
  /// Returns the underlying mutex, for waiting functions that know no capabilities.
  std::mutex& native() noexcept { return mutex_; }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a mutex for a scope. The mutex may be unlocked and locked again within the scope.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// A condition variable. It may wake up spuriously.
class CondVar {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  /// Returns false if the time passed without a wake-up.
  template <typename Rep, typename Period>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> time) REQUIRES(mutex) {
    return wait_until(mutex, std::chrono::steady_clock::now() + time);
  }
  template <typename Clock, typename Duration>
  bool wait_until(Mutex& mutex, std::chrono::time_point<Clock, Duration> time) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool woken = condition_.wait_until(lock, time) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace penstock
