#include <penstock/serve.h>

#include <algorithm>
#include <list>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/plan.h>
#include <penstock/sources.h>

#include "pipeline/io/posix_files.h"
#include "pipeline/remote/local_link.h"
#include "pipeline/remote/session.h"
#include "pipeline/remote/transport.h"

namespace penstock {
namespace remote {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{20};
constexpr milliseconds kLease{10'000};
/// A run's least share of the memory. Requests have up to as many bytes.
constexpr std::uint64_t kLeastForRun = 1 << 20;
/// Links without a hello: how many there may be beside the places for runs, and for how long.
constexpr std::size_t kMostSilent = 4;
constexpr milliseconds kMostSilence{10'000};

class Server final : public InputServer {
 public:
  Server(std::optional<Dataset> dataset, MakeDataset make, ServeOptions options) {
    served_.dataset = std::move(dataset);
    served_.make = std::move(make);
    served_.options = std::move(options);
    ServeOptions& own = served_.options;
    if (own.most_runs < 1)
      throw Error(ErrorCode::invalid_argument, "a worker has to serve at least one run");
    const RunOptions usual{.memory_bytes = own.memory_bytes};
    const std::uint64_t all = compile(range(1), usual).memory_limit();
    const auto runs = static_cast<std::uint64_t>(own.most_runs);
    const std::uint64_t least = runs * kLeastForRun;
    if (all < least || all - least < own.cache_bytes)
      throw Error(ErrorCode::resource_exhausted,
                  "a worker of " + std::to_string(runs) + " runs at a time needs at least " +
                      std::to_string(least) + " bytes beside its cache of " +
                      std::to_string(own.cache_bytes) + ", and its memory budget is " +
                      std::to_string(all));
    if (own.cache_bytes > 0) served_.cache = std::make_unique<ElementCache>(own.cache_bytes);
    own.memory_bytes = (all - own.cache_bytes) / runs;
    port_ = worker_transport().listen(own.address, own.security,
                                      [this](WorkerLink& link) { return accept(link); });
    if (own.security == WorkerSecurity())
      local_port_ =
          listen_locally(port_->address(), [this](WorkerLink& link) { return accept(link); });
    thread_ = start_thread("an input worker", [this](const std::stop_token& stop) { look(stop); });
    if (!own.announce.empty()) {
      const std::string at = own.public_address.empty() ? port_->address() : own.public_address;
      announced_ = worker_transport().announce(own.announce, own.security, kLease, at);
    }
  }
  ~Server() override {
    announced_.reset();
    local_port_.reset();
    port_.reset();  // now its sessions know that their links are gone
    thread_ = {};
    std::list<std::shared_ptr<Session>> rest;
    {
      const MutexLock lock(mutex_);
      rest.swap(sessions_);
    }
    // Groups under way end soon, because they see that their results are no longer wanted.
    for (const auto& session : rest)
      while (!session->over()) std::this_thread::sleep_for(milliseconds(1));
  }

  std::string address() const override { return port_->address(); }
  void drain() noexcept override {
    announced_.reset();
    draining_ = true;
    try {
      port_->set_serving(false);
    } catch (...) {  // requests see the old status, and are refused later
    }
    const MutexLock lock(mutex_);
    for (const auto& session : sessions_) session->leave();
  }
  bool drained() const noexcept override {
    if (!draining_) return false;
    const MutexLock lock(mutex_);
    return std::ranges::all_of(sessions_, [](const auto& session) { return session->idle(); });
  }
  ServeStats stats() const override {
    const MutexLock lock(mutex_);
    ServeStats stats{.runs = served_.runs.load(),
                     .groups = served_.groups.load(),
                     .elements = served_.elements.load(),
                     .refused = served_.refused.load() + port_->refused() +
                                (local_port_ ? local_port_->refused() : 0)};
    if (served_.cache) {
      const ElementCache::Figures cache = served_.cache->figures();
      stats.cache_hits = cache.hits;
      stats.cache_misses = cache.misses;
      stats.cache_evicted = cache.evicted;
      stats.cache_bytes = cache.bytes;
      stats.cache_peak_bytes = cache.most_bytes;
    }
    return stats;
  }

 private:
  std::shared_ptr<LinkListener> accept(WorkerLink& link) {
    const auto full = [this] { return draining_ || served_.runs >= served_.options.most_runs; };
    if (full()) return nullptr;
    // Starts a thread, which takes time.
    const auto made = std::make_shared<Session>(served_, link);
    const MutexLock lock(mutex_);
    if (full()) return nullptr;
    // The oldest stranger makes room for the next. All runs of a job may come at the same moment.
    const std::size_t most = static_cast<std::size_t>(served_.options.most_runs) + kMostSilent;
    std::size_t silent = 0;
    for (auto at = sessions_.rbegin(); at != sessions_.rend(); ++at)
      if ((*at)->awaits_hello() && ++silent >= most) (*at)->close();
    return sessions_.emplace_back(made);
  }

  // Sessions are destroyed here, and not on their own threads.
  void look(const std::stop_token& stop) noexcept {
    Mutex waiting;
    StoppableCondVar never;
    while (!stop.stop_requested()) {
      std::list<std::shared_ptr<Session>> over;
      {
        const MutexLock lock(mutex_);
        const auto now = std::chrono::steady_clock::now();
        for (auto at = sessions_.begin(); at != sessions_.end();) {
          const auto next = std::next(at);
          if ((*at)->awaits_hello() && now - (*at)->began() > kMostSilence) (*at)->close();
          if ((*at)->over() && at->use_count() == 1) over.splice(over.end(), sessions_, at);
          at = next;
        }
      }
      over.clear();
      const MutexLock lock(waiting);
      never.wait_for(waiting, stop, kLook);
    }
  }

  Served served_;
  std::atomic<bool> draining_{false};
  mutable Mutex mutex_;
  std::list<std::shared_ptr<Session>> sessions_ GUARDED_BY(mutex_);
  std::unique_ptr<WorkerPort> port_;
  std::unique_ptr<WorkerPort> local_port_;  // null: runs of this machine come to the other, too
  std::unique_ptr<WorkerWatch> announced_;
  Thread thread_;
};

}  // namespace
}  // namespace remote

FileSystemPtr files_below(const std::string& name, const std::string& folder) {
  return make_local_file_system(name, folder_root(folder));
}

std::unique_ptr<InputServer> serve(Dataset dataset, ServeOptions options) {
  return std::make_unique<remote::Server>(std::move(dataset), nullptr, std::move(options));
}

std::unique_ptr<InputServer> serve(MakeDataset graph, ServeOptions options) {
  return std::make_unique<remote::Server>(std::nullopt, std::move(graph), std::move(options));
}

}  // namespace penstock
