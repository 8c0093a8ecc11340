// Mutexes, locks and condition variables that Clang's thread-safety analysis understands
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
//
// A thread that holds a Mutex does nothing slow. It opens, reads and writes no file, starts no
// thread, allocates and frees no memory of batches, waits for no other mutex's condition, and calls
// no code of the user. Functions that do such work say so with `slow_work`, and checked builds end
// the process if a Mutex is held there. A SlowMutex may be held during such work; a comment says
// for which.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <utility>

#include <penstock/internal/slow_work.h>

#if defined(__clang__)
#define PENSTOCK_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define PENSTOCK_THREAD_ATTRIBUTE(x)
#endif

// Abseil defines these three with the same meaning, in a header that gRPC includes.
#undef GUARDED_BY
#undef PT_GUARDED_BY
#undef NO_THREAD_SAFETY_ANALYSIS

#define CAPABILITY(x) PENSTOCK_THREAD_ATTRIBUTE(capability(x))
#define SCOPED_CAPABILITY PENSTOCK_THREAD_ATTRIBUTE(scoped_lockable)
#define GUARDED_BY(x) PENSTOCK_THREAD_ATTRIBUTE(guarded_by(x))
#define PT_GUARDED_BY(x) PENSTOCK_THREAD_ATTRIBUTE(pt_guarded_by(x))
#define REQUIRES(...) PENSTOCK_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) PENSTOCK_THREAD_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) PENSTOCK_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) PENSTOCK_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...) PENSTOCK_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define RELEASE_SHARED(...) PENSTOCK_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define RELEASE(...) PENSTOCK_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define ASSERT_CAPABILITY(x) PENSTOCK_THREAD_ATTRIBUTE(assert_capability(x))
#define RETURN_CAPABILITY(x) PENSTOCK_THREAD_ATTRIBUTE(lock_returned(x))
#define NO_THREAD_SAFETY_ANALYSIS PENSTOCK_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace penstock {

/// A std::mutex with a capability, held for moments. Neither copyable nor movable.
class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  void lock(const CodePlace& at = CodePlace::current()) ACQUIRE() {
    mutex_.lock();
    entered(at);
  }
  void unlock() RELEASE() {
    if (!slow_) HeldMutexes::remove(this);
    mutex_.unlock();
  }
  /// Tells the analysis that the caller holds the mutex, where it cannot see that (in a callback).
  void assert_held() const ASSERT_CAPABILITY(this) {}

 private:
  friend class SlowMutex;
  friend class WaitingMutex;
  explicit Mutex(bool slow) : slow_(slow) {}
  void entered(const CodePlace& at) noexcept {
    if (!slow_) HeldMutexes::add(this, at);
  }

  std::mutex mutex_;
  const bool slow_ = false;
};

/// A mutex that may be held during slow work.
class CAPABILITY("mutex") SlowMutex : public Mutex {
 public:
  SlowMutex() : Mutex(true) {}
};

/// Holds a mutex for a scope. The mutex may be unlocked and locked again within the scope.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex, const CodePlace& at = CodePlace::current()) ACQUIRE(mutex)
      : mutex_(mutex) {
    mutex_.lock(at);
  }
  ~MutexLock() RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock(const CodePlace& at = CodePlace::current()) ACQUIRE() {
    mutex_.lock(at);
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// The std::mutex within a Mutex, for a function that waits with it. While this object exists, the
/// thread counts as one that waits. REQUIRES: the thread holds the mutex, and no other one.
class WaitingMutex {
 public:
  explicit WaitingMutex(Mutex& mutex, const CodePlace& at = CodePlace::current())
      : mutex_(mutex), at_(at) {
    HeldMutexes::expect_none("a thread waits", &mutex);
    if (!mutex_.slow_) HeldMutexes::remove(&mutex_);
  }
  ~WaitingMutex() { mutex_.entered(at_); }
  WaitingMutex(const WaitingMutex&) = delete;
  WaitingMutex& operator=(const WaitingMutex&) = delete;

  std::mutex& native() noexcept { return mutex_.mutex_; }

 private:
  Mutex& mutex_;
  const CodePlace at_;
};

/// A condition variable. It may wake up spuriously.
class CondVar {
 public:
  void wait(Mutex& mutex, const CodePlace& at = CodePlace::current()) REQUIRES(mutex) {
    WaitingMutex waiting(mutex, at);
    std::unique_lock<std::mutex> lock(waiting.native(), std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  /// Returns false if the time passed without a wake-up.
  template <typename Rep, typename Period>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> time,
                const CodePlace& at = CodePlace::current()) REQUIRES(mutex) {
    return wait_until(mutex, std::chrono::steady_clock::now() + time, at);
  }
  template <typename Clock, typename Duration>
  bool wait_until(Mutex& mutex, std::chrono::time_point<Clock, Duration> time,
                  const CodePlace& at = CodePlace::current()) REQUIRES(mutex) {
    WaitingMutex waiting(mutex, at);
    std::unique_lock<std::mutex> lock(waiting.native(), std::adopt_lock);
    const bool woken = condition_.wait_until(lock, time) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

/// A condition variable whose waits also end when a stop is requested.
class StoppableCondVar {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    HeldMutexes::expect_none("a thread waits", &mutex);
    condition_.wait(mutex);
  }
  void wait(Mutex& mutex, const std::stop_token& stop) REQUIRES(mutex) {
    HeldMutexes::expect_none("a thread waits", &mutex);
    condition_.wait(mutex, stop, Once());
  }
  /// Returns false if the time has passed or a stop was requested.
  template <typename Rep, typename Period>
  bool wait_for(Mutex& mutex, const std::stop_token& stop, std::chrono::duration<Rep, Period> time)
      REQUIRES(mutex) {
    return wait_until(mutex, stop, std::chrono::steady_clock::now() + time);
  }
  template <typename Clock, typename Duration>
  bool wait_until(Mutex& mutex, const std::stop_token& stop,
                  std::chrono::time_point<Clock, Duration> time) REQUIRES(mutex) {
    HeldMutexes::expect_none("a thread waits", &mutex);
    condition_.wait_until(mutex, stop, time, Once());  // true after the time, too
    return !stop.stop_requested() && Clock::now() < time;
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  /// True but for the first look: waits for one wake-up.
  class Once {
   public:
    bool operator()() noexcept { return std::exchange(looked_, true); }

   private:
    bool looked_ = false;
  };

  std::condition_variable_any condition_;
};

/// A std::shared_mutex with a capability: held by many readers or one writer, for moments.
class CAPABILITY("mutex") SharedMutex {
 public:
  void lock(const CodePlace& at = CodePlace::current()) ACQUIRE() {
    mutex_.lock();
    HeldMutexes::add(this, at);
  }
  void unlock() RELEASE() {
    HeldMutexes::remove(this);
    mutex_.unlock();
  }
  void lock_shared(const CodePlace& at = CodePlace::current()) ACQUIRE_SHARED() {
    mutex_.lock_shared();
    HeldMutexes::add(this, at);
  }
  void unlock_shared() RELEASE_SHARED() {
    HeldMutexes::remove(this);
    mutex_.unlock_shared();
  }

 private:
  std::shared_mutex mutex_;
};

class SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex, const CodePlace& at = CodePlace::current()) ACQUIRE(mutex)
      : mutex_(mutex) {
    mutex_.lock(at);
  }
  ~WriterLock() RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex, const CodePlace& at = CodePlace::current())
      ACQUIRE_SHARED(mutex)
      : mutex_(mutex) {
    mutex_.lock_shared(at);
  }
  ~ReaderLock() RELEASE() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace penstock
