// Threads that do one thing to several servers at the same time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>

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
  void each(const std::function<void(int)>& body);

 private:
  void work(int number);
  static Status status_of(const std::function<void(int)>& body, int number);
  void note(const Status& status);  // called with mutex_ held

  const int size_;
  std::mutex mutex_;
  std::condition_variable begun_, done_;
  // Guarded by mutex_.
  const std::function<void(int)>* body_ = nullptr;
  std::uint64_t round_ = 0;
  int left_ = 0;
  bool stopped_ = false;
  Status first_error_;

  std::vector<Thread> threads_;
};

}  // namespace penstock::towers
