// How the rate of a run grows with its input workers, where each element takes 20 ms that no core
// is busy for.
//   penstock_workers_scale_bench [SECONDS [WORKERS,...]]
// Each worker is a process with one thread; the trainer makes nothing itself. Sleeping stands in
// for cores that this machine does not have, so that what is seen is whether the trainer finds
// enough for all of them to do. For each number of workers: elements a second from the second batch
// on, and of the ideal (50 a worker).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/penstock.h>
#include <penstock/serve.h>

namespace ps = penstock;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kWork{20};
constexpr int kBatch = 32;

ps::Dataset dataset() {
  return ps::range(1'000'000'000)
      .shuffle({.seed = 1})
      .map(
          [](ps::Element e, ps::Rng&) {
            std::this_thread::sleep_for(kWork);
            return e;
          },
          {.name = "sleep"})
      .batch(kBatch);
}

class Worker {
 public:
  Worker() {
    int ends[2];
    if (::pipe(ends) != 0) throw ps::Error(ps::ErrorCode::unavailable, "pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(ends[1], 1);
      ::execl("/proc/self/exe", "workers_scale_bench", "--serve", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(ends[1]);
    char text[64]{};
    const ssize_t got = ::read(ends[0], text, sizeof text - 1);
    ::close(ends[0]);
    address_.assign(text, got > 0 ? static_cast<std::size_t>(got - 1) : 0);
  }
  Worker(Worker&& other) noexcept
      : process_(std::exchange(other.process_, 0)), address_(std::move(other.address_)) {}
  ~Worker() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  const std::string& address() const { return address_; }

 private:
  pid_t process_ = 0;
  std::string address_;
};

void measure(int count, double seconds) {
  std::vector<Worker> workers;
  ps::RunOptions options{.seed = 7};
  options.workers.local_threads = 0;
  for (int i = 0; i < count; ++i)
    options.workers.addresses.push_back(workers.emplace_back().address());
  ps::Iterator run = dataset().iterate(options);
  // The first are made while not all workers are connected.
  for (int i = 0; i < 2 + 2 * count; ++i) run.next();
  const Clock::time_point begin = Clock::now();
  std::uint64_t elements = 0;
  double took = 0;
  do {
    run.next();
    elements += kBatch;
    took = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (took < seconds);
  const double rate = static_cast<double>(elements) / took;
  const double ideal = count / std::chrono::duration<double>(kWork).count();
  std::printf("%3d workers  %7.1f elements/s  %.3f of the ideal\n", count, rate, rate / ideal);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1 && std::string(argv[1]) == "--serve") {
    const auto worker = ps::serve(dataset(), {.threads = 1});
    std::printf("%s\n", worker->address().c_str());
    std::fflush(stdout);
    for (;;) ::pause();
  }
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  std::string counts = argc > 2 ? argv[2] : "1,2,4,8,16";
  for (char* at = counts.data(); *at != '\0';) {
    measure(static_cast<int>(std::strtol(at, &at, 10)), seconds);
    if (*at == ',') ++at;
  }
} catch (const ps::Error& error) {
  std::fprintf(stderr, "workers_scale_bench: %s\n", error.what());
  return 1;
}
