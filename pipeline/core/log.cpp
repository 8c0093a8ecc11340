#include <penstock/log.h>

#include <memory>
#include <set>
#include <string>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/core/log_sink.h"

namespace penstock {
namespace {

struct Sinks {
  Mutex mutex;
  std::shared_ptr<const LogSink> current GUARDED_BY(mutex);
  std::set<std::string, std::less<>> said_once GUARDED_BY(mutex);
};

// Never destroyed: threads may still log during static destruction.
Sinks& sinks() {
  static Sinks* const instance = new Sinks;
  return *instance;
}

}  // namespace

void set_log_sink(LogSink sink) {
  std::shared_ptr<const LogSink> next;
  if (sink) next = std::make_shared<const LogSink>(std::move(sink));
  Sinks& all = sinks();
  const MutexLock lock(all.mutex);
  all.current.swap(next);
}

bool log_sink_given() noexcept {
  try {
    Sinks& all = sinks();
    const MutexLock lock(all.mutex);
    return all.current != nullptr;
  } catch (...) {  // no memory for the first look: there is none
    return false;
  }
}

void log(LogLevel level, std::string_view message) noexcept {
  slow_work("a message is logged");
  try {
    std::shared_ptr<const LogSink> sink;
    {
      Sinks& all = sinks();
      const MutexLock lock(all.mutex);
      sink = all.current;
    }
    if (sink) (*sink)(level, message);
  } catch (...) {
    // There is no other place to report a sink's failure.
  }
}

bool log_once(LogLevel level, std::string_view once, std::string_view message) noexcept {
  slow_work("a message is logged");
  try {
    Sinks& all = sinks();
    const MutexLock lock(all.mutex);
    // Without a sink, the message does not count as logged, so that a later sink still gets it.
    if (!all.current) return false;
    if (all.said_once.contains(once)) return true;
    all.said_once.emplace(once);
  } catch (...) {
    return false;
  }
  log(level, message);
  return true;
}

}  // namespace penstock
