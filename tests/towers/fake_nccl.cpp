// NCCL among threads.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/towers/fake_gpu.h"
#include "tests/towers/fake_parts.h"

namespace penstock::towers::test {
namespace {

struct Group {
  explicit Group(std::size_t ranks) : buffers(ranks) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<float*> buffers;
  std::size_t arrived = 0;
  std::uint64_t generation = 0;
  bool aborted = false;
};
struct Communicator {
  std::shared_ptr<Group> group;
  int rank;
  std::atomic<int> state{Nccl::kSuccess};
};

std::mutex trouble_mutex;
NcclTrouble trouble;  // guarded by trouble_mutex
std::atomic<int> exchanges{0};

NcclTrouble trouble_now() {
  const std::lock_guard lock(trouble_mutex);
  return trouble;
}

int init_all(void** communicators, int count, const int*) {
  const auto group = std::make_shared<Group>(static_cast<std::size_t>(count));
  for (int rank = 0; rank < count; ++rank) communicators[rank] = new Communicator{group, rank};
  return 0;
}
int destroy_communicator(void* object) {
  delete static_cast<Communicator*>(object);
  return 0;
}
int abort_communicator(void* object) {
  auto& one = *static_cast<Communicator*>(object);
  const std::lock_guard lock(one.group->mutex);
  one.group->aborted = true;
  one.group->changed.notify_all();
  return 0;  // the object stays: others may be in a call
}
int async_error(void* object, int* state) {
  *state = static_cast<Communicator*>(object)->state;
  return 0;
}
int all_reduce(const void* from, void* to, std::size_t count, int type, int op, void* object,
               void*) {
  auto& me = *static_cast<Communicator*>(object);
  Group& group = *me.group;
  if (from != to || type != Nccl::kFloat || op != Nccl::kSum) return 4;
  const NcclTrouble now = trouble_now();
  if (now.refuses == me.rank) return 1;
  current_stream().synchronize();
  if (now.reports == me.rank) me.state = 2;
  std::unique_lock lock(group.mutex);
  if (now.hangs == me.rank || now.reports == me.rank) {
    group.changed.wait(lock, [&] { return group.aborted; });
    return 0;
  }
  group.buffers[static_cast<std::size_t>(me.rank)] = static_cast<float*>(to);
  if (++group.arrived == group.buffers.size()) {
    for (std::size_t i = 0; i < count; ++i) {
      float sum = group.buffers[0][i];
      for (std::size_t r = 1; r < group.buffers.size(); ++r) sum += group.buffers[r][i];
      for (float* buffer : group.buffers) buffer[i] = sum;
    }
    group.arrived = 0;
    ++group.generation;
    ++exchanges;
    group.changed.notify_all();
  } else {
    const std::uint64_t mine = group.generation;
    group.changed.wait(lock, [&] { return group.generation != mine || group.aborted; });
  }
  return 0;
}

}  // namespace

Nccl fake_nccl() {
  Nccl nccl;
  nccl.init_all = init_all, nccl.destroy = destroy_communicator, nccl.abort = abort_communicator;
  nccl.async_error = async_error, nccl.all_reduce = all_reduce;
  nccl.group_start = nccl.group_end = [] { return 0; };
  nccl.error_string = [](int) { return "the fake's error"; };
  return nccl;
}

void set_nccl_trouble(const NcclTrouble& now) {
  const std::lock_guard lock(trouble_mutex);
  trouble = now;
}

int nccl_exchanges() {
  return exchanges.exchange(0);
}

}  // namespace penstock::towers::test
