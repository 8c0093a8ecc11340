// One process of a job with parameter servers that the kill harness torments: trains a small model
// on made-up points, or serves it, and says in a log what it did (served_log.h).
//
//     cluster_served_victim chief|worker|ps INDEX TRAINERS SERVERS STRATEGY CHECKPOINTS LOG TIMEOUT
//
// SERVERS: addresses, "a:1,b:2"; TIMEOUT: of peers, in ms. Ends with 0, or with 75 and on stdout
// what ended the job. PENSTOCK_PACE is how many microseconds a tower waits in each step.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "cluster/parameter_servers.h"
#include "tests/cluster/told_server.h"
#include "tests/towers/twins.h"
#include "towers/servers/served_job.h"
#include "towers/servers/shard_server.h"

namespace {

using namespace penstock;
using std::chrono::milliseconds;

int the_log = -1;
std::mutex newest_mutex;
std::string newest_ids;  // guarded by that: of the only tower's batch

/// One write, so that only the system could tear it; a newline in front: what a kill tore must not
/// take this line with it.
void log(const std::string& line) {
  const std::string text = "\n" + line + " .\n";
  if (::write(the_log, text.data(), text.size()) != static_cast<ssize_t>(text.size())) ::abort();
}

class Told final : public towers::test::Hidden {
 public:
  using Hidden::Hidden;
  towers::Loss forward(const towers::Batch& batch, const towers::Pass& pass) override {
    if (pass.training) {
      std::string ids;
      for (std::int64_t r = 0; r < batch.valid_rows(); ++r)
        ids +=
            (ids.empty() ? "" : ",") + std::to_string(batch.i64("id")[static_cast<std::size_t>(r)]);
      const std::lock_guard lock(newest_mutex);
      newest_ids = ids.empty() ? "-" : ids;
    }
    if (const char* pace = std::getenv("PENSTOCK_PACE"); pace != nullptr && pass.training)
      std::this_thread::sleep_for(std::chrono::microseconds(std::atoi(pace)));
    return Hidden::forward(batch, pass);
  }
};

Dataset data() {
  std::vector<std::int64_t> ids(203);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  const auto count = static_cast<std::int64_t>(ids.size());
  return zip({towers::test::points(count),
              tensors({{"id", Tensor::of<std::int64_t>({count}, ids)}})})
      .shuffle({.seed = 3});
}

int serve(const std::vector<std::string>& addresses, std::size_t index,
          const cluster::RendezvousOptions& options) {
  towers::ShardServer rules({.peer_timeout = options.peer_timeout,
                             .join_timeout = options.join_timeout,
                             .connect = [&](const std::string& address) {
                               for (std::size_t at = 0; at < addresses.size(); ++at)
                                 if (addresses[at] == address)
                                   return cluster::open_parameter_server("ps " + std::to_string(at),
                                                                         address, options);
                               throw Error(ErrorCode::not_found, "no server at " + address);
                             }});
  cluster::test::Taking taking(rules, log);
  const auto served = cluster::serve_parameters(taking, addresses[index], options, [&] {
    rules.look();
    taking.note_losses();
  });
  const auto until = std::chrono::steady_clock::now() + options.join_timeout;
  for (;;) {
    const std::optional<Status> ended = rules.ended(milliseconds(200));
    if (!ended && !taking.begun() && std::chrono::steady_clock::now() > until)
      throw Error(ErrorCode::no_progress, "the chief did not come");
    if (!ended) continue;
    // The others ask how it ended.
    std::this_thread::sleep_for(options.peer_timeout / 2);
    rules.wait_until_known(options.peer_timeout);
    if (ended->ok()) return 0;
    std::printf("%s\n", ended->error().what());
    return 75;
  }
}

int train(const std::vector<std::string>& addresses, int process, int processes,
          const std::string& strategy, const std::string& folder,
          const cluster::RendezvousOptions& options) {
  towers::ServedJob job;
  job.addresses = addresses;
  job.process = process;
  job.processes = processes;
  job.incarnation = std::to_string(::getpid()) + "-" +
                    std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
  job.beat_every = options.peer_timeout / 5;
  job.join_timeout = options.join_timeout;
  job.lost_wait = options.join_timeout;
  std::vector<std::unique_ptr<towers::ParameterServer>> servers;
  for (std::size_t s = 0; s < addresses.size(); ++s) {
    servers.push_back(
        cluster::open_parameter_server("ps " + std::to_string(s), addresses[s], options));
    job.servers.push_back(std::make_shared<cluster::test::Hearing>(
        *servers.back(), static_cast<int>(s), log, [](int) {
          const std::lock_guard lock(newest_mutex);
          return newest_ids;
        }));
  }
  towers::TrainOptions train = towers::test::options_for(1, 4);
  train.epochs = 3;
  train.seed = 11;
  if (process == 0) train.checkpoint_folder = folder;
  train.checkpoint_every = 5;
  train.feed.end = EpochEnd::pad;
  train.strategy.kind = towers::parse_strategy(strategy);
  train.strategy.served = &job;
  towers::Trainer trainer(towers::test::maker<Told>(), data(), std::nullopt, train);
  towers::TrainObserver observer;
  const towers::TrainResult result = trainer.run(observer);
  if (process == 0)
    log("end " + std::to_string(result.steps) + " " + std::to_string(result.digest));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) return 2;
  ::alarm(300);
  const std::string role = argv[1];
  const int index = std::atoi(argv[2]);
  std::vector<std::string> addresses;
  std::istringstream list(argv[4]);
  for (std::string one; std::getline(list, one, ',');) addresses.push_back(one);
  the_log = ::open(argv[7], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  cluster::RendezvousOptions options;
  options.peer_timeout = milliseconds(std::atoi(argv[8]));
  options.join_timeout = milliseconds(10'000);
  try {
    if (role == "ps") return serve(addresses, static_cast<std::size_t>(index), options);
    return train(addresses, role == "chief" ? 0 : index + 1, std::atoi(argv[3]), argv[5], argv[6],
                 options);
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 75;
  }
}
