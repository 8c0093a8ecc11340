// NCCL, of which one thread drives all ranks.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/towers/fake_gpu.h"
#include "tests/towers/fake_parts.h"

namespace penstock::towers::test {
namespace {

struct Group {
  explicit Group(std::size_t count) : ranks(count) {}
  std::mutex mutex;
  std::condition_variable changed;
  const std::size_t ranks;
  bool aborted = false;
};
struct Communicator {
  std::shared_ptr<Group> group;
  int rank;
  std::atomic<int> state{Nccl::kSuccess};
};

/// A call that waits for the end of its thread's group.
struct Call {
  Communicator* of;
  float* values;
  std::size_t count;
  StreamView stream;
};
thread_local std::vector<Call> calls;
thread_local bool in_group = false;

std::mutex trouble_mutex;
NcclTrouble trouble;                 // guarded by trouble_mutex
std::vector<std::size_t> exchanges;  // guarded by trouble_mutex

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
int group_start() {
  in_group = true;
  return 0;
}
int all_reduce(const void* from, void* to, std::size_t count, int type, int op, void* object,
               void*) {
  auto& me = *static_cast<Communicator*>(object);
  if (from != to || type != Nccl::kFloat || op != Nccl::kSum || !in_group) return 4;
  if (trouble_now().refuses == me.rank) return 1;
  calls.push_back({&me, static_cast<float*>(to), count, current_stream()});
  return 0;
}
// One thread has to call for all ranks, in their order, for as many values.
int group_end() {
  const std::vector<Call> all = std::move(calls);
  calls.clear();
  in_group = false;
  if (all.empty()) return 0;
  Group& group = *all.front().of->group;
  const NcclTrouble now = trouble_now();
  if (all.size() != group.ranks) return 5;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].of->rank != static_cast<int>(r) || all[r].count != all[0].count) return 5;
    all[r].stream.synchronize();
    if (now.reports == all[r].of->rank) all[r].of->state = 2;
    if (now.reports != all[r].of->rank && now.hangs != all[r].of->rank) continue;
    std::unique_lock lock(group.mutex);
    group.changed.wait(lock, [&] { return group.aborted; });
    return 0;
  }
  for (std::size_t i = 0; i < all[0].count; ++i) {
    float sum = all[0].values[i];
    for (std::size_t r = 1; r < all.size(); ++r) sum += all[r].values[i];
    for (const Call& call : all) call.values[i] = sum;
  }
  const std::lock_guard lock(trouble_mutex);
  exchanges.push_back(all[0].count);
  return 0;
}

}  // namespace

Nccl fake_nccl() {
  Nccl nccl;
  nccl.init_all = init_all, nccl.destroy = destroy_communicator, nccl.abort = abort_communicator;
  nccl.async_error = async_error, nccl.all_reduce = all_reduce;
  nccl.group_start = group_start, nccl.group_end = group_end;
  nccl.error_string = [](int) { return "the fake's error"; };
  return nccl;
}

void set_nccl_trouble(const NcclTrouble& now) {
  const std::lock_guard lock(trouble_mutex);
  trouble = now;
}

std::vector<std::size_t> nccl_exchanges() {
  const std::lock_guard lock(trouble_mutex);
  return std::exchange(exchanges, {});
}

}  // namespace penstock::towers::test
