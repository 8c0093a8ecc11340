// One limit, measured once, as one JSON line of the names that `penstock profile --json` uses:
//   penstock_limits region FOLDER THREADS EPOCHS         regions of random-resized crops of 224
//   penstock_limits whole FOLDER THREADS EPOCHS [SIDE]   whole images, scaled down towards SIDE
//   penstock_limits pread EPOCHS PIECE FILE...           these files, PIECE bytes at a time
//   penstock_limits jumps EPOCHS PIECE FILE...           the same, piece after piece at random
//   penstock_limits direct EPOCHS PIECE FILE...          the same past the page cache, eight at
//   once
// bench/suite.py runs it in turns with what it is the limit of.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "bench/limits.h"
#include "bench/measure.h"

namespace penstock::bench {
namespace {

void report(const std::string& name, std::uint64_t elements, double seconds, double cpu,
            std::uint64_t bytes) {
  std::printf(
      "{\"name\": \"%s\", \"elements\": %llu, \"elements_per_second\": %.1f, "
      "\"cpu_seconds_per_1000\": %.6f, \"bytes_per_second\": %.0f}\n",
      name.c_str(), static_cast<unsigned long long>(elements),
      static_cast<double>(elements) / seconds, 1000 * cpu / static_cast<double>(elements),
      static_cast<double>(bytes) / seconds);
}

std::optional<ReadWay> way_named(const std::string& name) {
  if (name == "pread") return ReadWay::in_order;
  if (name == "jumps") return ReadWay::at_random;
  if (name == "direct") return ReadWay::direct;
  return {};
}

int run(const std::vector<std::string>& args) {
  const bool reads = !args.empty() && args[0] != "region" && args[0] != "whole";
  const auto way = reads ? way_named(args[0]) : std::nullopt;
  if (args.size() < 4 || (reads ? !way : args.size() > 5)) {
    std::fprintf(stderr,
                 "usage: penstock_limits region|whole FOLDER THREADS EPOCHS [SIDE]\n"
                 "       penstock_limits pread|jumps|direct EPOCHS PIECE FILE...\n");
    return 2;
  }
  if (way) {
    const double cpu = process_seconds();
    const std::vector<std::string> paths(args.begin() + 3, args.end());
    const std::uint64_t epochs = std::stoull(args[1]);
    const ReadLoop read = read_loop(paths, epochs, std::stoull(args[2]), *way);
    report(args[0], paths.size() * epochs, read.seconds, process_seconds() - cpu, read.bytes);
    return 0;
  }
  const Files files = load_images(args[1]);
  if (files.empty()) {
    std::fprintf(stderr, "no images in %s\n", args[1].c_str());
    return 1;
  }
  const int threads = std::stoi(args[2]);
  const std::uint64_t epochs = std::stoull(args[3]);
  const double cpu = process_seconds();
  const bool region = args[0] == "region";
  const double seconds =
      region ? region_loop(files, epochs, threads)
             : whole_loop(files, epochs, threads, args.size() > 4 ? std::stoi(args[4]) : 0);
  report(region ? "region decode" : "whole decode", files.size() * epochs, seconds,
         process_seconds() - cpu, 0);
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  try {
    return penstock::bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
