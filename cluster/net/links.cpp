#include "cluster/net/links.h"

#include <chrono>
#include <thread>

namespace penstock::cluster {

using std::chrono::milliseconds;

Links::Links(Rendezvous& rendezvous, const Cluster& cluster, const ProcessGroupOptions& options)
    : rendezvous_(rendezvous),
      name_("group " + options.name + "/"),
      named_within_(options.named_within),
      rank_(cluster.rank),
      size_(cluster.world) {}

void Links::begin() {
  rendezvous_.watch(this, [this](const Status& ended) { end(ended); });
  begun_ = true;
}

void Links::part() noexcept {
  if (!begun_) return;
  rendezvous_.unwatch(this);
  try {
    rendezvous_.put(name_ + "done by " + std::to_string(rank_), "");
    for (int other = 0; other < size_ && ended().ok(); ++other)
      rendezvous_.get(name_ + "done by " + std::to_string(other), named_within_);
  } catch (...) {  // the job has ended
  }
}

void Links::guarded(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    throw_why(error.what());
  }
}

void Links::fail(const Status& error) noexcept {
  end(error);
  rendezvous_.fail(error);
}

Status Links::ended() const {
  const MutexLock lock(mutex_);
  return error_;
}

void Links::end(const Status& error) noexcept {
  {
    const MutexLock lock(mutex_);
    if (error_.ok()) error_ = error;
  }
  interrupt();
}

void Links::throw_why(const std::string& what) {
  constexpr milliseconds kStep{5};
  for (milliseconds waited(0); waited <= named_within_; waited += kStep) {
    if (const Status of_job = rendezvous_.status(); !of_job.ok()) end(of_job);
    if (const Status why = ended(); !why.ok()) throw Error(why.error());
    std::this_thread::sleep_for(kStep);
  }
  fail(Status(ErrorCode::unavailable, "the exchange between ranks broke: " + what));
  throw Error(ended().error());
}

}  // namespace penstock::cluster
