#include "staging/host/host_stream.h"

#include <sys/mman.h>

#include <cstring>

namespace penstock {

HostStream::HostStream(HostDevice& device, std::string name, int number, int checked_as)
    : device_(device), name_(std::move(name)), checked_as_(checked_as) {
  thread_ = device_.clock_.start({device_.options_.index, number}, [this] { serve(); });
}

HostStream::~HostStream() {
  {
    MutexLock lock(device_.mutex_);
    stopping_ = true;
    device_.clock_.notify(work_);
    if (waits_for_) device_.clock_.notify(waits_for_->done);
  }
  thread_.reset();
}

void HostStream::push(Op op) {
  device_.mutex_.assert_held();
  queue_.push_back(std::move(op));
  ++enqueued_;
  device_.clock_.notify(work_);
}

void HostStream::serve() {
  MutexLock lock(device_.mutex_);
  for (;;) {
    while (queue_.empty() && !stopping_) wait_on(device_.clock_, device_.mutex_, work_);
    if (queue_.empty()) return;
    Op op = queue_.pop_front();
    const bool alive = device_.lost_.ok();
    if (op.kind == Op::Kind::record || op.kind == Op::Kind::wait) {
      if (alive || op.kind == Op::Kind::record) execute_locked(op);
    } else if (alive && op.kind == Op::Kind::copy && op.fails) {
      device_.hung_ = true;
      while (!stopping_ && device_.lost_.ok()) wait_on(device_.clock_, device_.mutex_, work_);
    } else if (alive) {
      lock.unlock();
      execute(op);
      op = Op();
      lock.lock();
    }
    ++executed_;
    if (queue_.empty()) device_.clock_.notify(idle_);
  }
}

void HostStream::execute_locked(Op& op) {
  TimeSource& clock = device_.clock_;
  HostEventCore& event = *op.event;
  if (op.kind == Op::Kind::wait) {
    waits_for_ = op.event;
    while (event.completed < op.ticket && device_.lost_.ok() && !(stopping_ && device_.hung_)) {
      wait_on(clock, device_.mutex_, event.done);
    }
    waits_for_.reset();
    return;
  }
  if (op.fails) {
    Status error(op.sticky ? ErrorCode::device_lost : ErrorCode::unavailable,
                 device_.id().to_string() + ": work on stream " + name_ + " failed" +
                     (op.sticky ? ", and the device with it" : ""));
    (op.sticky ? device_.lost_ : device_.error_) = std::move(error);
  }
  event.completed = op.ticket;
  event.at_ns = clock.now();
  clock.notify(event.done);
  clock.notify(device_.progress_);
}

void HostStream::execute(Op& op) {
  const std::int64_t start = device_.now();
  switch (op.kind) {
    case Op::Kind::copy:
      if (op.to != op.from) std::memmove(op.to, op.from, op.bytes);
      device_.take_time(op.bytes, start);
      break;
    case Op::Kind::clear:
      std::memset(op.to, 0, op.bytes);
      break;
    case Op::Kind::call:
      try {
        if (op.call) op.call();
      } catch (...) {
        MutexLock lock(device_.mutex_);
        device_.error_ = status_from_current_exception();
      }
      if (op.takes_ns > 0) device_.clock_.sleep_until(start + op.takes_ns);
      break;
    case Op::Kind::guard:
      mprotect(op.to, op.bytes, op.open ? PROT_READ | PROT_WRITE : PROT_NONE);
      break;
    case Op::Kind::record:
    case Op::Kind::wait:
      break;
  }
}

}  // namespace penstock
