// The error that ended a job, and the callbacks that are told of it.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include <penstock/error.h>

namespace penstock::cluster {

/// The end of a job: it keeps the first error, and tells the watchers. Thread-safe. See
/// Rendezvous::watch.
class Ending {
 public:
  Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  void end(const Status& why) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!status_.ok()) return;
      status_ = why;
    }
    const std::lock_guard lock(watchers_mutex_);
    for (const auto& [watcher, told] : watchers_) told(why);
    watchers_.clear();
  }

  void watch(const void* watcher, std::function<void(const Status&)> told) {
    const std::lock_guard lock(watchers_mutex_);
    const Status ended = status();
    if (ended.ok()) {
      watchers_[watcher] = std::move(told);
    } else {
      told(ended);
    }
  }

  void unwatch(const void* watcher) noexcept {
    const std::lock_guard lock(watchers_mutex_);
    watchers_.erase(watcher);
  }

 private:
  mutable std::mutex mutex_;
  Status status_;  // guarded by mutex_
  std::mutex watchers_mutex_;
  // Guarded by watchers_mutex_.
  std::map<const void*, std::function<void(const Status&)>> watchers_;
};

}  // namespace penstock::cluster
