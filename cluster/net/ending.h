// The error that ended a job, and the callbacks that are told of it.
#pragma once

#include <functional>
#include <map>

#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock::cluster {

/// The end of a job: it keeps the first error, and tells the watchers. Thread-safe. See
/// Rendezvous::watch.
class Ending {
 public:
  Status status() const {
    const MutexLock lock(mutex_);
    return status_;
  }

  void end(const Status& why) noexcept {
    {
      const MutexLock lock(mutex_);
      if (!status_.ok()) return;
      status_ = why;
    }
    const MutexLock lock(watchers_mutex_);
    for (const auto& [watcher, told] : watchers_) told(why);
    watchers_.clear();
  }

  void watch(const void* watcher, std::function<void(const Status&)> told) {
    const MutexLock lock(watchers_mutex_);
    const Status ended = status();
    if (ended.ok()) {
      watchers_[watcher] = std::move(told);
    } else {
      told(ended);
    }
  }

  void unwatch(const void* watcher) noexcept {
    const MutexLock lock(watchers_mutex_);
    watchers_.erase(watcher);
  }

 private:
  mutable Mutex mutex_;
  Status status_ GUARDED_BY(mutex_);
  SlowMutex watchers_mutex_;  // held while watchers are told, for which `unwatch` waits
  std::map<const void*, std::function<void(const Status&)>> watchers_ GUARDED_BY(watchers_mutex_);
};

}  // namespace penstock::cluster
