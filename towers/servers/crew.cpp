#include "towers/servers/crew.h"

#include <string>

#include <penstock/internal/start_thread.h>

namespace penstock::towers {

Crew::Crew(int size) : size_(size) {
  try {
    for (int number = 1; number < size; ++number)
      threads_.push_back(
          start_thread("push " + std::to_string(number), [this, number] { work(number); }));
  } catch (...) {
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
    }
    begun_.notify_all();
    throw;
  }
}

Crew::~Crew() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  begun_.notify_all();
}

void Crew::each(const std::function<void(int)>& body) {
  {
    const MutexLock lock(mutex_);
    body_ = &body;
    left_ = size_ - 1;
    ++round_;
    first_error_ = {};
  }
  begun_.notify_all();
  const Status mine = status_of(body, 0);
  const MutexLock lock(mutex_);
  note(mine);
  while (left_ != 0) done_.wait(mutex_);
  if (!first_error_.ok()) throw Error(first_error_.error());
}

Status Crew::status_of(const std::function<void(int)>& body, int number) {
  try {
    body(number);
    return {};
  } catch (...) {
    return status_from_current_exception();
  }
}

void Crew::note(const Status& status) {
  if (first_error_.ok()) first_error_ = status;
}

void Crew::work(int number) {
  std::uint64_t seen = 0;
  MutexLock lock(mutex_);
  for (;;) {
    while (!stopped_ && round_ == seen) begun_.wait(mutex_);
    if (stopped_) return;
    seen = round_;
    const std::function<void(int)>& body = *body_;
    lock.unlock();
    const Status status = status_of(body, number);
    lock.lock();
    note(status);
    if (--left_ == 0) done_.notify_all();
  }
}

}  // namespace penstock::towers
