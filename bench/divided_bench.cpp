// What a feed costs each of several processes that have a tower each: CPU time where each makes the
// batches of its own tower, beside where each makes all of them and drops the others'.
//   penstock_divided_bench IMAGES.tar [PROCESSES [ROUNDS]]
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <penstock/feed.h>
#include <penstock/penstock.h>

#include "bench/measure.h"

namespace penstock::bench {
namespace {

/// Decodes, crops and normalises what a tower of `of` gets in an epoch.
void read_all(const std::string& images, int rank, int of, bool own) {
  const Dataset dataset =
      tar({images})
          .shuffle()
          .map(decode_image("image").random_resized_crop(224).random_flip().normalize())
          .keep({"image"})
          .batch(8);
  std::vector<DevicePtr> towers;
  for (int t = 0; t < (own ? 1 : of); ++t) towers.push_back(device({DeviceKind::host, t}));
  FeedOptions options;
  options.run.threads = 1;
  if (own) options.towers_held = {rank, of};
  Feed feed(dataset, towers, options);
  const int first = own ? rank : 0;
  while (!feed.ended(first))
    for (int t = 0; t < feed.towers(); ++t)
      if (std::optional<StagedBatch> batch = feed.next(first + t)) batch->release();
}

/// CPU seconds of each process, all at once.
std::vector<double> cpu_of(const std::string& images, int processes, bool own) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < processes; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        read_all(images, rank, processes, own);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  std::vector<double> seconds;
  for (const pid_t child : children) {
    int status = 0;
    rusage usage{};
    if (wait4(child, &status, 0, &usage) != child || status != 0) std::exit(1);
    const auto of = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    seconds.push_back(of(usage.ru_utime) + of(usage.ru_stime));
  }
  return seconds;
}

int main_of(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: penstock_divided_bench IMAGES.tar [PROCESSES [ROUNDS]]\n");
    return 2;
  }
  const int processes = argc > 2 ? std::atoi(argv[2]) : 4;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  std::vector<double> of_one, own, all;
  for (int round = 0; round < rounds; ++round) {
    of_one.push_back(cpu_of(argv[1], 1, true).front());
    own.push_back(median(cpu_of(argv[1], processes, true)));
    all.push_back(median(cpu_of(argv[1], processes, false)));
  }
  std::printf(
      "{\"processes\": %d, \"rounds\": %d, \"one_process_cpu_s\": %.3f, \"own_cpu_s\": %.3f, "
      "\"all_cpu_s\": %.3f, \"own_of_all\": %.3f}\n",
      processes, rounds, median(of_one), median(own), median(all), median(own) / median(all));
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  return penstock::bench::main_of(argc, argv);
}
