// What ThreadSanitizer must be right about: hands plain memory through oneTBB tasks as the engine
// does, correctly
// (`race`) or with a second writer planted (`race planted`). Only the second may be reported.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <penstock/internal/thread_annotations.h>

namespace penstock {
namespace {

constexpr int kRounds = 200;
constexpr int kTasks = 8;

/// Counts finished tasks; whoever waits sees what they wrote.
class Finish {
 public:
  void done() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++done_;
    changed_.notify_all();
  }
  void wait_for(int tasks) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (done_ < tasks) changed_.wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int done_ GUARDED_BY(mutex_) = 0;
};

/// Waits until two have come, or there is nobody to come; orders nothing between them. Else a busy
/// machine may run the tasks one behind another, ordered by what counts them.
void meet(std::atomic<int>& begun) {
  begun.fetch_add(1, std::memory_order_relaxed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (begun.load(std::memory_order_relaxed) < 2 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

/// What was written before `enqueue` is read in the task, what the task wrote is read after
/// waiting.
long enqueued(tbb::task_arena& arena, bool planted) {
  std::vector<long> in(kTasks), out(kTasks);
  long shared = 0;
  std::atomic<int> begun{0};
  Finish finish;
  for (int i = 0; i < kTasks; ++i) {
    in[i] = i;
    arena.enqueue([&, i] {
      out[i] = in[i] + 1;
      if (planted) {
        meet(begun);
        ++shared;
      }
      finish.done();
    });
  }
  finish.wait_for(kTasks);
  long sum = shared;
  for (const long value : out) sum += value;
  return sum;
}

/// The same through a task group and a parallel loop, whose joins are oneTBB's own.
long joined(tbb::task_arena& arena) {
  std::vector<long> values(kTasks);
  arena.execute([&] {
    tbb::task_group group;
    for (int i = 0; i < kTasks; ++i) group.run([&values, i] { values[i] = i; });
    group.wait();
    tbb::parallel_for(std::size_t{0}, values.size(), [&](std::size_t i) { values[i] += 1; });
  });
  long sum = 0;
  for (const long value : values) sum += value;
  return sum;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  const bool planted = argc > 1 && std::string_view(argv[1]) == "planted";
  tbb::global_control workers(tbb::global_control::max_allowed_parallelism, 5);
  tbb::task_arena arena(4, 0);
  long sum = 0;
  for (int round = 0; round < penstock::kRounds; ++round)
    sum += penstock::enqueued(arena, planted) + penstock::joined(arena);
  std::printf("%ld\n", sum);
  return 0;
}
