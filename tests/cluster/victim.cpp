// One rank of a job that the kill harness torments: trains a small model on made-up points, and
// says in a log which elements each tower was given.
//
//     cluster_victim RENDEZVOUS RANK WORLD CHECKPOINTS LOG RUN PEER_TIMEOUT_MS [INTERFACE TLS]
//
// RUN tells starts apart. TLS: a folder with rank.pem, rank.key, ca.pem. Ends with 0, or with 75
// and on stdout what ended the job. PENSTOCK_KILL_AT="sum:3" kills it when it is at that point for
// the third time; PENSTOCK_PACE is how many microseconds a tower waits in each step.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "cluster/job.h"
#include "pipeline/core/kill_point.h"
#include "tests/towers/twins.h"

namespace {

using namespace penstock;

constexpr int kTowers = 4;

// Constant once the run begins, but for the count.
int the_log = -1;
std::string the_run;
std::string kill_name;
int first_tower = 0;  // of all processes'
std::atomic<int> kill_count{0};

/// One write, so that only the system could tear it; a newline in front: what a kill tore must not
/// take this line with it.
void log(const std::string& line) {
  const std::string text = "\n" + the_run + " " + line + " .\n";
  if (::write(the_log, text.data(), text.size()) != static_cast<ssize_t>(text.size())) ::abort();
}

void die_here(const char* name) {
  if (kill_name != name || kill_count.fetch_sub(1) != 1) return;
  log("kill " + kill_name);
  ::raise(SIGKILL);
}

/// Says which elements it was given.
class Told final : public towers::test::Hidden {
 public:
  explicit Told(const towers::Scope& scope) : Hidden(scope) {
    if (const char* pace = std::getenv("PENSTOCK_PACE"))
      pace_ = std::chrono::microseconds(std::atoi(pace));
  }
  towers::Loss forward(const towers::Batch& batch, const towers::Pass& pass) override {
    if (pass.training) {
      std::string ids;
      for (std::int64_t r = 0; r < batch.valid_rows(); ++r)
        ids +=
            (ids.empty() ? "" : ",") + std::to_string(batch.i64("id")[static_cast<std::size_t>(r)]);
      log("step " + std::to_string(pass.step) + " " + std::to_string(first_tower + pass.tower) +
          " " + (ids.empty() ? "-" : ids));
      std::this_thread::sleep_for(pace_);
    }
    return Hidden::forward(batch, pass);
  }

 private:
  std::chrono::microseconds pace_{0};
};

/// A job with places to die at.
class Mortal final : public towers::Peers {
 public:
  explicit Mortal(cluster::Job& job) : job_(job) {}
  int rank() const noexcept override { return job_.rank(); }
  int size() const noexcept override { return job_.size(); }
  void sum(std::span<float> values) override {
    kill_point("sum");
    job_.sum(values);
    kill_point("summed");
  }
  void gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    kill_point("gather");
    job_.gather(mine, all);
    kill_point("gathered");
  }
  void gather_between_towers(std::span<const std::byte> mine, std::span<std::byte> all) override {
    kill_point("between towers");
    job_.gather_between_towers(mine, all);
  }
  void fail(const Status& error) noexcept override { job_.fail(error); }

 private:
  cluster::Job& job_;
};

class Observer final : public towers::TrainObserver {
  void on_step(const towers::StepReport& /*report*/) override { kill_point("step"); }
};

Dataset data() {
  std::vector<std::int64_t> ids(203);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  const auto count = static_cast<std::int64_t>(ids.size());
  return zip({towers::test::points(count),
              tensors({{"id", Tensor::of<std::int64_t>({count}, ids)}})})
      .shuffle({.seed = 3});
}

int train(towers::Peers* peers, int world, const std::string& folder) {
  const int rank = peers == nullptr ? 0 : peers->rank();
  first_tower = kTowers / world * rank;
  towers::TrainOptions options = towers::test::options_for(kTowers / world, 2);
  options.deterministic = true;
  options.epochs = 3;
  options.seed = 11;
  options.checkpoint_folder = folder;
  options.checkpoint_every = 5;
  options.feed.end = EpochEnd::pad;
  options.strategy.peers = peers;
  towers::Trainer trainer(towers::test::maker<Told>(), data(), std::nullopt, options);
  Observer observer;
  const towers::TrainResult result = trainer.run(observer);
  if (rank == 0) log("end " + std::to_string(result.steps) + " " + std::to_string(result.digest));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8 && argc != 10) return 2;
  ::alarm(240);
  cluster::Cluster cluster;
  cluster.rendezvous = argv[1];
  cluster.rank = std::atoi(argv[2]);
  cluster.world = std::atoi(argv[3]);
  the_log = ::open(argv[5], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  the_run = argv[6];
  if (const char* point = std::getenv("PENSTOCK_KILL_AT")) {
    const std::string text = point;
    const std::size_t colon = text.find(':');
    kill_name = text.substr(0, colon);
    kill_count = colon == std::string::npos ? 0 : std::atoi(text.c_str() + colon + 1);
    kill_point_observer = die_here;
  }
  cluster::RendezvousOptions options;
  options.peer_timeout = std::chrono::milliseconds(std::atoi(argv[7]));
  options.join_timeout = std::chrono::seconds(10);
  cluster::ProcessGroupOptions group;
  if (argc == 10) {
    group.interface = argv[8];
    group.insecure = true;
    const std::string tls = argv[9];
    options.tls = {tls + "/rank.pem", tls + "/rank.key", tls + "/ca.pem"};
    options.token = "the job's";
  }
  try {
    if (cluster.world == 1) return train(nullptr, 1, argv[4]);
    cluster::Job job(cluster, options, group, {{"version", "1"}});
    kill_point("joined");
    Mortal mortal(job);
    try {
      return train(&mortal, cluster.world, argv[4]);
    } catch (const Error& error) {
      // Who was lost is known better than what broke.
      std::printf("%s\n", job.status().ok() ? error.what() : job.status().error().what());
      return 75;
    }
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 75;
  }
}
