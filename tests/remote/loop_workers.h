// Workers in this process, with loops or gRPC as links.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/serve.h>

#include "pipeline/remote/transport.h"
#include "tests/remote/loop_transport.h"

namespace penstock::test {

/// A number of workers for one dataset. Their build id shows that they are the same program.
class WorkersHere {
 public:
  WorkersHere(Dataset dataset, int count, int threads, WorkerSecurity security = {},
              std::uint64_t cache_bytes = 0)
      : dataset_(std::move(dataset)), threads_(threads), security_(std::move(security)) {
    for (int i = 0; i < count; ++i) {
      // A sharded feed is several runs, and workers may serve several feeds at once.
      servers_.push_back(serve(dataset_, {.threads = threads_,
                                          .cache_bytes = cache_bytes,
                                          .most_runs = cache_bytes > 0 ? 16 : 4,
                                          .security = security_}));
      addresses_.push_back(servers_.back()->address());
    }
  }

  const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  WorkerOptions options(int local_threads = 0) const {
    WorkerOptions options;
    options.addresses = addresses_;
    options.local_threads = local_threads;
    options.security = security_;
    return options;
  }
  InputServer& operator[](std::size_t i) { return *servers_[i]; }

 protected:
  void end(std::size_t i) { servers_[i].reset(); }
  void begin(std::size_t i) {
    servers_[i] =
        serve(dataset_, {.address = addresses_[i], .threads = threads_, .security = security_});
  }

 private:
  Dataset dataset_;
  int threads_;
  WorkerSecurity security_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<InputServer>> servers_;
};

/// Workers on loops, which can be killed.
class LoopWorkers : public WorkersHere {
 public:
  explicit LoopWorkers(Dataset dataset, int count = 1, int threads = 1,
                       std::uint64_t cache_bytes = 0)
      : WorkersHere((remote::use_worker_transport(loop_transport()), std::move(dataset)), count,
                    threads, {}, cache_bytes) {}

  /// Ends a worker like the death of its process.
  void kill(std::size_t i) {
    cut_loop(addresses()[i]);
    end(i);
  }
  void revive(std::size_t i) { begin(i); }

  /// Kills or freezes one worker after the other, and lets it resume 5 or 30 ms later, until told
  /// to stop. Pauses for up to `pause_ms` in between.
  void trouble(const std::stop_token& stop, unsigned seed, int pause_ms,
               const std::function<void()>& counted = {}) {
    std::minstd_rand random(seed);
    while (!stop.stop_requested()) {
      const std::size_t i = random() % addresses().size();
      if (random() % 2 == 0) {
        kill(i);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        revive(i);
      } else {
        set_loop(addresses()[i], Loop::frozen);
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        set_loop(addresses()[i], Loop::works);
      }
      if (counted) counted();
      std::this_thread::sleep_for(
          std::chrono::milliseconds(random() % static_cast<unsigned>(pause_ms)));
    }
  }
};

}  // namespace penstock::test
