// NCCL, of which one thread drives all ranks: calls enqueue, and streams exchange.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "staging/host/host_device.h"
#include "tests/towers/fake_gpu.h"
#include "tests/towers/fake_parts.h"

namespace penstock::towers::test {
namespace {

/// What the ranks' streams do together, once.
struct Round {
  std::vector<std::pair<float*, std::size_t>> values;  // of each rank that has come
  std::size_t arrived = 0;
};
struct Group {
  Group(std::size_t count, bool is_whole) : ranks(count), whole(is_whole) {}
  std::mutex mutex;
  std::condition_variable changed;
  const std::size_t ranks;
  const bool whole;  // all ranks are one process's, which calls for all at once
  // Guarded by mutex.
  bool aborted = false;
  std::map<std::uint64_t, std::shared_ptr<Round>> rounds;
};
struct Communicator {
  std::shared_ptr<Group> group;
  int rank;
  std::uint64_t rounds = 0;  // of its caller
  std::atomic<int> state{Nccl::kSuccess};
  bool in_call = false;  // guarded by known_mutex
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

// Those that there are, under the pointers that they are known by: memory of their own, which is
// given back with them, so that sanitizers see misuse too.
std::mutex known_mutex;
std::map<void*, std::pair<std::unique_ptr<char>, CommunicatorPtr>> known;  // guarded by known_mutex

[[noreturn]] void misused(const char* what) {
  std::fprintf(stderr, "the fake NCCL: %s\n", what);
  std::abort();
}

/// With known_mutex held.
CommunicatorPtr find(void* object) {
  const auto at = known.find(object);
  if (at == known.end()) misused("a communicator that was aborted or destroyed is used");
  return at->second.second;
}
CommunicatorPtr live(void* object) {
  const std::lock_guard lock(known_mutex);
  return find(object);
}
CommunicatorPtr ended(void* object) {
  const std::lock_guard lock(known_mutex);
  CommunicatorPtr one = find(object);
  if (one->in_call) misused("a communicator is ended while a call is using it");
  known.erase(object);
  return one;
}

/// A call that waits for the end of its thread's group.
struct Call {
  CommunicatorPtr of;
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

/// With known_mutex held.
void* make(const std::shared_ptr<Group>& group, int rank) {
  auto handle = std::make_unique<char>();
  void* const communicator = handle.get();
  auto one = std::make_shared<Communicator>();
  one->group = group;
  one->rank = rank;
  known[communicator] = {std::move(handle), std::move(one)};
  return communicator;
}

int init_all(void** communicators, int count, const int*) {
  const auto group = std::make_shared<Group>(static_cast<std::size_t>(count), true);
  const std::lock_guard lock(known_mutex);
  for (int rank = 0; rank < count; ++rank) communicators[rank] = make(group, rank);
  return 0;
}
int unique_id(Nccl::UniqueId* id) {
  static std::atomic<int> made{0};
  std::snprintf(id->bytes, sizeof id->bytes, "group %d", ++made);
  return 0;
}
int init_rank(void** communicator, int count, Nccl::UniqueId id, int rank) {
  static std::map<std::string, std::weak_ptr<Group>> groups;  // guarded by known_mutex
  const std::lock_guard lock(known_mutex);
  std::weak_ptr<Group>& place = groups[id.bytes];
  std::shared_ptr<Group> group = place.lock();
  if (group == nullptr)
    place = group = std::make_shared<Group>(static_cast<std::size_t>(count), false);
  if (rank < 0 || rank >= count || group->ranks != static_cast<std::size_t>(count)) return 4;
  *communicator = make(group, rank);
  return 0;
}
int destroy_communicator(void* object) {
  ended(object);
  return 0;
}
int abort_communicator(void* object) {
  const CommunicatorPtr one = ended(object);
  const std::lock_guard lock(one->group->mutex);
  one->group->aborted = true;
  one->group->changed.notify_all();
  return 0;
}
int async_error(void* object, int* state) {
  *state = live(object)->state;
  return 0;
}
int group_start() {
  in_group = true;
  return 0;
}
int all_reduce(const void* from, void* to, std::size_t count, int type, int op, void* object,
               void*) {
  CommunicatorPtr me = live(object);
  if (from != to || type != Nccl::kFloat || op != Nccl::kSum || !in_group) return 4;
  if (trouble_now().refuses == me->rank) return 1;
  {
    const std::lock_guard lock(known_mutex);
    me->in_call = true;
  }
  calls.push_back({std::move(me), static_cast<float*>(to), count, current_stream()});
  return 0;
}

void add_up(const Round& round) {
  const auto [first, count] = round.values[0];
  for (const auto& [values, as_many] : round.values)
    if (as_many != count) misused("ranks exchange different numbers of values");
  for (std::size_t i = 0; i < count; ++i) {
    float sum = first[i];
    for (std::size_t r = 1; r < round.values.size(); ++r) sum += round.values[r].first[i];
    for (const auto& [values, as_many] : round.values) values[i] = sum;
  }
  const std::lock_guard lock(trouble_mutex);
  exchanges.push_back(count);
}

/// By a rank's stream: the last to come adds up for all.
void take_part(Round& round, const Call& mine, const NcclTrouble& now) {
  Group& group = *mine.of->group;
  std::unique_lock lock(group.mutex);
  if (now.reports == mine.of->rank) mine.of->state = 2;
  if (now.reports != mine.of->rank && now.hangs != mine.of->rank) {
    round.values[static_cast<std::size_t>(mine.of->rank)] = {mine.values, mine.count};
    if (++round.arrived == group.ranks) {
      add_up(round);
      group.changed.notify_all();
    }
  }
  group.changed.wait(lock, [&] { return group.aborted || round.arrived == group.ranks; });
}

int enqueue(const std::vector<Call>& made) {
  for (std::size_t r = 1; r < made.size(); ++r)
    if (made[r].of->rank != made[r - 1].of->rank + 1 || made[r].count != made[0].count) return 5;
  if (!made.empty() && made.front().of->group->whole &&
      made.size() != made.front().of->group->ranks)
    return 5;
  const NcclTrouble now = trouble_now();
  for (const Call& call : made) {
    std::shared_ptr<Round> round;
    {
      Group& group = *call.of->group;
      const std::lock_guard lock(group.mutex);
      std::shared_ptr<Round>& place = group.rounds[call.of->rounds++];
      if (place == nullptr) place = std::make_shared<Round>();
      place->values.resize(group.ranks);
      round = place;
    }
    static_cast<HostDevice&>(call.stream.device()).launch(call.stream, {.run = [round, call, now] {
                                                            take_part(*round, call, now);
                                                          }});
  }
  return 0;
}

// One thread has to call for all of a process's ranks, in their order, for as many values.
int group_end() {
  const std::vector<Call> made = std::exchange(calls, {});
  in_group = false;
  const int result = enqueue(made);
  if (const NcclTrouble now = trouble_now(); now.meanwhile) now.meanwhile();
  const std::lock_guard lock(known_mutex);
  for (const Call& call : made) call.of->in_call = false;
  return result;
}

}  // namespace

Nccl fake_nccl() {
  Nccl nccl;
  nccl.init_all = init_all, nccl.unique_id = unique_id, nccl.init_rank = init_rank;
  nccl.destroy = destroy_communicator, nccl.abort = abort_communicator;
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

int nccl_communicators() {
  const std::lock_guard lock(known_mutex);
  return static_cast<int>(known.size());
}

}  // namespace penstock::towers::test
