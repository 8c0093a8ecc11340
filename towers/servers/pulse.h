// Signs of life for servers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "towers/servers/parameter_server.h"

namespace penstock::towers {

/// A sender of signs of life to servers. Each server has its own thread, so a slow server does not
/// delay the others. Used by one thread.
class Pulse {
 public:
  /// `lost` receives the error that ended the run, from any of the threads; it must not throw.
  Pulse(const Trainee& who, std::chrono::milliseconds every,
        std::function<void(const Status&)> lost);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  /// Sends signs of life to this server too, from here on.
  void add(std::shared_ptr<ParameterServer> server);

 private:
  void beat(ParameterServer& server) EXCLUDES(mutex_);

  const Trainee who_;
  const std::chrono::milliseconds every_;
  const std::function<void(const Status&)> lost_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::vector<Thread> threads_;
};

}  // namespace penstock::towers
