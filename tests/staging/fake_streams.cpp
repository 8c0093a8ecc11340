#include "tests/staging/fake_streams.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

using Marks = std::shared_ptr<CUevent_st::Marks>;

/// Work, or a wait for the record of that number.
struct CUstream_st {
  struct Work {
    std::function<void()> run{};
    Marks marks{};
    std::uint64_t number = 0;
  };
  std::deque<Work> work;
};

namespace penstock::test {
namespace {

std::mutex mutex;
// Guarded by mutex.
std::condition_variable changed;
std::uintptr_t made = 0;
std::map<cudaStream_t, CUstream_st> streams;  // those that have work
std::set<cudaStream_t> live;                  // handles are numbers, and none is used twice

/// Does what can be done.
void proceed() {
  for (bool any = true; any;) {
    any = false;
    for (auto at = streams.begin(); at != streams.end();) {
      std::deque<CUstream_st::Work>& work = at->second.work;
      while (!work.empty()) {
        const CUstream_st::Work& next = work.front();
        if (next.marks && next.marks->reached < next.number) break;
        if (next.run) next.run();
        work.pop_front();
        any = true;
      }
      at = work.empty() ? streams.erase(at) : std::next(at);
    }
  }
  changed.notify_all();
}

}  // namespace

cudaStream_t make_stream() {
  const std::lock_guard lock(mutex);
  const auto stream = reinterpret_cast<cudaStream_t>(++made);
  live.insert(stream);
  return stream;
}

bool is_live(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  return live.contains(stream);
}

void end_stream(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  live.erase(stream);
  proceed();
}

int live_streams() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(live.size());
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard lock(mutex);
  streams[stream].work.push_back({.run = std::move(work)});
  proceed();
}

void enqueue_record(cudaStream_t stream, CUevent_st& event, std::function<double()> now) {
  const std::lock_guard lock(mutex);
  const auto reach = [marks = event.marks, number = ++event.marks->recorded, now = std::move(now)] {
    marks->reached = number;
    marks->at_ns = now();
  };
  streams[stream].work.push_back({.run = reach});
  proceed();
}

void enqueue_wait(cudaStream_t stream, CUevent_st& event) {
  const std::lock_guard lock(mutex);
  streams[stream].work.push_back({.marks = event.marks, .number = event.marks->recorded});
  proceed();
}

std::function<void()> hold_up(cudaStream_t stream) {
  const auto gate = std::make_shared<CUevent_st::Marks>();
  const std::lock_guard lock(mutex);
  streams[stream].work.push_back({.marks = gate, .number = 1});
  return [gate] {
    const std::lock_guard opening(mutex);
    gate->reached = 1;
    proceed();
  };
}

bool is_reached(const CUevent_st& event) {
  const std::lock_guard lock(mutex);
  return event.marks->reached == event.marks->recorded;
}

double reached_at(const CUevent_st& event) {
  const std::lock_guard lock(mutex);
  return event.marks->at_ns;
}

void await(const CUevent_st& event) {
  std::unique_lock lock(mutex);
  changed.wait(lock,
               [&, number = event.marks->recorded] { return event.marks->reached >= number; });
}

void await(cudaStream_t stream) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return !streams.contains(stream) || streams[stream].work.empty(); });
}

}  // namespace penstock::test
