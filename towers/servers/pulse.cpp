#include "towers/servers/pulse.h"

#include <utility>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock::towers {

Pulse::Pulse(const Trainee& who, std::chrono::milliseconds every,
             std::function<void(const Status&)> lost)
    : who_(who), every_(every), lost_(std::move(lost)) {}

Pulse::~Pulse() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

void Pulse::add(std::shared_ptr<ParameterServer> server) {
  threads_.push_back(start_thread("beat", [this, server = std::move(server)] { beat(*server); }));
}

void Pulse::beat(ParameterServer& server) {
  MutexLock lock(mutex_);
  while (!stopped_) {
    lock.unlock();
    Status ended;
    try {
      ended = server.beat(who_, {});
    } catch (...) {
      ended = status_from_current_exception();
    }
    if (!ended.ok()) {
      lost_(ended);
      return;
    }
    lock.lock();
    const auto next = std::chrono::steady_clock::now() + every_;
    while (!stopped_ && std::chrono::steady_clock::now() < next) changed_.wait_until(mutex_, next);
  }
}

}  // namespace penstock::towers
