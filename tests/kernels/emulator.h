// An emulation of CUDA on the host. The threads of a block are threads, so ThreadSanitizer sees the
// data that they share. Barriers are barriers, and the lanes of a warp exchange values. Shared
// memory begins as garbage, and has canaries around it that AddressSanitizer guards. Include this
// header before the bodies of kernels. If a kernel breaks a rule, the program ends with a message.
//
// Blocks begin one after the other on the same threads, without any order between their effects:
// thread t of block b is thread t + b of the host's. So if two blocks access the same memory, that
// is a race like any other. A thread of a block that has ended takes part in no more of the block's
// barriers.
#pragma once

#define PENSTOCK_EMULATED 1

#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PENSTOCK_ASAN 1
#endif
#endif
#if defined(PENSTOCK_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace penstock::emulation {

[[noreturn]] inline void broken(const char* what) {
  std::fprintf(stderr, "emulator: %s\n", what);
  std::abort();
}

struct Index {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};

inline constexpr unsigned kWarpLanes = 32;

struct Warp {
  std::barrier<> barrier{kWarpLanes};
  /// The values of even and of odd shuffles. A thread that is at a shuffle has already read the
  /// values of the shuffle before the last.
  std::array<std::array<std::uint64_t, kWarpLanes>, 2> lanes{};
};

/// Memory of a kernel, filled with garbage, between canaries.
class Fenced {
 public:
  explicit Fenced(std::size_t bytes)
      : bytes_(bytes),
        memory_(static_cast<unsigned char*>(
            std::aligned_alloc(kFence, (bytes + kFence - 1) / kFence * kFence + 2 * kFence))) {
    if (memory_ == nullptr) broken("no memory");
    std::memset(memory_, kCanary, kFence);
    std::memset(data(), 0xa5, bytes);
    std::memset(data() + bytes, kCanary, kFence);
    guard(true);
  }
  ~Fenced() {
    check();
    std::free(memory_);
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  unsigned char* data() const { return memory_ + kFence; }
  std::size_t size() const { return bytes_; }

 private:
  static constexpr std::size_t kFence = 256;
  static constexpr unsigned char kCanary = 0xc9;

  void check() const {
    guard(false);
    for (std::size_t i = 0; i < kFence; ++i)
      if (memory_[i] != kCanary || data()[bytes_ + i] != kCanary)
        broken("a kernel wrote outside of its memory: a canary is dead");
  }
  void guard([[maybe_unused]] bool on) const {
#if defined(PENSTOCK_ASAN)
    for (unsigned char* fence : {memory_, data() + bytes_}) {
      if (on) ASAN_POISON_MEMORY_REGION(fence, kFence);
      if (!on) ASAN_UNPOISON_MEMORY_REGION(fence, kFence);
    }
#endif
  }

  const std::size_t bytes_;
  unsigned char* const memory_;
};

struct BlockState {
  BlockState(unsigned threads, std::size_t shared)
      : all(threads), warps(threads / kWarpLanes), memory(shared) {}
  std::barrier<> all;
  /// The number of all votes, of even and of odd ones. A thread that votes has already read the
  /// result of the vote before the last.
  std::array<std::atomic<unsigned>, 2> votes{};
  std::vector<Warp> warps;
  Fenced memory;
};

inline thread_local BlockState* current_block = nullptr;
inline thread_local unsigned shuffles = 0;  // the number of this thread's shuffles in this block
inline thread_local unsigned ballots = 0;   // and of its votes
inline thread_local std::array<unsigned, 2> counted{};  // votes that it has read

/// Threads that run the same job, each once, whenever `run` is called.
class Crew {
 public:
  explicit Crew(unsigned count) : start_(count + 1), end_(count + 1) {
    for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this, i] { work(i); });
  }
  ~Crew() {
    job_ = nullptr;
    start_.arrive_and_wait();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void run(std::function<void(unsigned)> job) {
    job_ = std::move(job);
    start_.arrive_and_wait();
    end_.arrive_and_wait();
  }

  static Crew& of(unsigned threads) {
    static std::map<unsigned, Crew> all;
    return all.try_emplace(threads, threads).first->second;
  }

 private:
  void work(unsigned i) {
    while (true) {
      start_.arrive_and_wait();
      if (!job_) return;
      job_(i);
      end_.arrive_and_wait();
    }
  }

  std::barrier<> start_, end_;
  std::function<void(unsigned)> job_;
  std::vector<std::jthread> threads_;
};

}  // namespace penstock::emulation

inline thread_local penstock::emulation::Index threadIdx, blockIdx, blockDim, gridDim;

inline void __syncthreads() {
  using namespace penstock::emulation;
  if (current_block == nullptr) broken("a barrier in a kernel that shares no memory");
  current_block->all.arrive_and_wait();
}

inline int __syncthreads_or(int vote) {
  using namespace penstock::emulation;
  if (current_block == nullptr) broken("a vote in a kernel that shares no memory");
  const unsigned parity = ballots++ % 2;
  if (vote != 0) current_block->votes[parity].fetch_add(1, std::memory_order_relaxed);
  current_block->all.arrive_and_wait();
  const unsigned all = current_block->votes[parity].load(std::memory_order_relaxed);
  const bool any = all != counted[parity];
  counted[parity] = all;
  return any ? 1 : 0;
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane) {
  using namespace penstock::emulation;
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  if (mask != 0xffffffffU || current_block == nullptr) broken("a shuffle of less than a warp");
  Warp& warp = current_block->warps[threadIdx.x / kWarpLanes];
  auto& lanes = warp.lanes[shuffles++ % 2];
  const unsigned mine = threadIdx.x % kWarpLanes;
  std::memcpy(&lanes[mine], &value, sizeof(T));
  warp.barrier.arrive_and_wait();
  T other{};
  std::memcpy(&other, &lanes[mine ^ static_cast<unsigned>(lane)], sizeof(T));
  return other;
}

inline float atomicAdd(float* to, float value) {
  return std::atomic_ref<float>(*to).fetch_add(value, std::memory_order_relaxed);
}

namespace penstock::emulation {

/// A queue of launches without order between them: if two access the same memory, that is a race.
class Queue {
 public:
  template <typename Body>
  void add(const Body& body, Index grid) {
    constexpr unsigned kThreads = Body::kThreads;
    static_assert(kThreads % kWarpLanes == 0);
    constexpr bool kShares = requires {
      typename Body::Shared;
    };
    const unsigned blocks = grid.x * grid.y * grid.z;
    std::vector<std::shared_ptr<BlockState>> states;
    if constexpr (kShares) {
      for (unsigned b = 0; b < blocks; ++b)
        states.push_back(std::make_shared<BlockState>(kThreads, sizeof(typename Body::Shared)));
    }
    jobs_[kThreads].push_back([body, grid, blocks, states = std::move(states)](unsigned host) {
      blockDim = {kThreads, 1, 1};
      gridDim = grid;
      for (unsigned b = 0; b < blocks; ++b) {
        blockIdx = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
        threadIdx = {(host + kThreads - b % kThreads) % kThreads, 0, 0};
        if constexpr (kShares) {
          current_block = states[b].get();
          shuffles = ballots = 0;
          counted = {};
          body(*reinterpret_cast<typename Body::Shared*>(current_block->memory.data()));
          current_block->warps[threadIdx.x / kWarpLanes].barrier.arrive_and_drop();
          current_block->all.arrive_and_drop();
          current_block = nullptr;
        } else {
          body();
        }
      }
    });
  }
  /// Runs all launches. Returns when they have ended, with an empty queue.
  void run() {
    for (const auto& [threads, jobs] : jobs_) {
      Crew::of(threads).run([&jobs = jobs](unsigned host) {
        for (const auto& job : jobs) job(host);
      });
    }
    jobs_.clear();
  }

 private:
  std::map<unsigned, std::vector<std::function<void(unsigned)>>> jobs_;
};

/// Launches a body over a grid, and returns when it has ended.
template <typename Body>
void launch(const Body& body, Index grid) {
  Queue queue;
  queue.add(body, grid);
  queue.run();
}

}  // namespace penstock::emulation
