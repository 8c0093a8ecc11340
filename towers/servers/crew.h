// Threads that do one thing to several servers at the same time.
#pragma once

#include <functional>
#include <vector>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock::towers {

/// A thread for each server but the first, which the caller's thread takes. Used by one thread.
class Crew {
 public:
  explicit Crew(int size);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Calls `body` with 0, 1, … at the same time, and returns when all calls are done. Throws the
  /// first exception.
  void each(const std::function<void(int)>& body) EXCLUDES(mutex_);

 private:
  void work(int number) EXCLUDES(mutex_);
  static Status status_of(const std::function<void(int)>& body, int number);
  void note(const Status& status) REQUIRES(mutex_);

  const int size_;
  Mutex mutex_;
  CondVar begun_, done_;
  const std::function<void(int)>* body_ GUARDED_BY(mutex_) = nullptr;
  std::uint64_t round_ GUARDED_BY(mutex_) = 0;
  int left_ GUARDED_BY(mutex_) = 0;
  bool stopped_ GUARDED_BY(mutex_) = false;
  Status first_error_ GUARDED_BY(mutex_);

  std::vector<Thread> threads_;
};

}  // namespace penstock::towers
