// Records from a server that answers late, beside curl at its best through the same server:
//   penstock_remote_bench [MS] [MB/S OF A CONNECTION] [ROUNDS] [RECORDS]
// The server is a process of its own; each answer begins MS later. Records of 110 kB in three tar
// shards are batched as bytes, front to back and in a perfect shuffle, with the index known.
// `curl --parallel` fetches the same bytes in ranges of 4 MiB, 8, 16 or 32 at once. In turns;
// prints a JSON line of medians over the rounds: MB/s, their ratios to curl's, bytes that came for
// each that was needed, requests, and the time to the first batch.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/penstock.h>
#include <penstock/remote_files.h>

#include "bench/main.h"
#include "bench/measure.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/tar.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kShards = 3;
constexpr std::size_t kRecordBytes = 110'000;
constexpr std::size_t kCurlRange = 4 << 20;

/// Serves shards from another process, until this one ends.
class ServerProcess {
 public:
  ServerProcess(std::size_t records, const test::HttpServerOptions& options) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve(records, options, ends[1]);
    }
    ::close(ends[1]);
    if (::read(ends[0], &port_, sizeof(port_)) != sizeof(port_))
      throw std::runtime_error("the server did not start");
    ::close(ends[0]);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  [[noreturn]] static void serve(std::size_t records, const test::HttpServerOptions& options,
                                 int out) {
    test::HttpServer::Files files;
    for (int shard = 0; shard < kShards; ++shard) {
      std::string tar;
      for (std::size_t i = 0; i < records / kShards; ++i)
        tar += test::tar_member(std::to_string(i) + ".bin",
                                test::noise(kRecordBytes, i * kShards + shard));
      files["/" + std::to_string(shard) + ".tar"] = tar + test::tar_end();
    }
    const test::HttpServer server(std::move(files), options);
    const std::uint16_t port = server.port();
    if (::write(out, &port, sizeof(port)) == sizeof(port)) ::pause();
    ::_exit(0);
  }

  pid_t process_ = -1;
  std::uint16_t port_ = 0;
};

struct Figures {
  double mb_s = 0;
  double first_batch_ms = 0;
  double fetched = 0;  // bytes for each that was needed
  double requests = 0;
};

Figures read_all(const std::string& url, bool shuffled, const std::string& indices) {
  TarOptions options;
  options.index_folder = indices;
  const RemoteStats before = remote_stats();
  const auto start = Clock::now();
  Dataset records = tar({url + "/{0..2}.tar"}, options);
  if (shuffled) records = records.shuffle();
  Iterator iterator = records.batch(16).iterate({});
  Figures figures;
  std::uint64_t bytes = 0;
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    if (next.is_error()) throw next.error();
    if (bytes == 0) figures.first_batch_ms = 1e3 * seconds_since(start);
    bytes += 16 * kRecordBytes;
  }
  figures.mb_s = 1e-6 * static_cast<double>(bytes) / seconds_since(start);
  const RemoteStats after = remote_stats();
  figures.fetched = static_cast<double>(after.bytes - before.bytes) /
                    static_cast<double>(after.bytes_needed - before.bytes_needed);
  figures.requests = static_cast<double>(after.requests - before.requests);
  return figures;
}

/// MB/s at the best of three numbers of transfers at once.
double curl_rate(const std::string& url, std::uint64_t shard_bytes, const std::string& folder) {
  std::string config;
  for (int shard = 0; shard < kShards; ++shard)
    for (std::uint64_t at = 0; at < shard_bytes; at += kCurlRange)
      config += std::string(config.empty() ? "" : "next\n") + "url = \"" + url + "/" +
                std::to_string(shard) + ".tar\"\nrange = " + std::to_string(at) + "-" +
                std::to_string(std::min(at + kCurlRange, shard_bytes) - 1) +
                "\noutput = /dev/null\nsilent\n";
  const std::string file = folder + "/curl";
  if (std::FILE* const out = std::fopen(file.c_str(), "w")) {
    std::fputs(config.c_str(), out);
    std::fclose(out);
  }
  double best = 0;
  for (const char* most : {"8", "16", "32"}) {
    const auto start = Clock::now();
    const std::string command = "curl --parallel --parallel-immediate --parallel-max " +
                                std::string(most) + " -K " + file + " 2>/dev/null";
    if (std::system(command.c_str()) != 0)  // NOLINT(concurrency-mt-unsafe)
      throw std::runtime_error("curl failed");
    best = std::max(best, 1e-6 * static_cast<double>(kShards * shard_bytes) / seconds_since(start));
  }
  return best;
}

}  // namespace

int run(int argc, char** argv) {
  const int ms = argc > 1 ? std::atoi(argv[1]) : 20;
  const double connection = argc > 2 ? 1e6 * std::atof(argv[2]) : 0;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 3;
  const std::size_t records = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 900;
  const ServerProcess server(
      records, {.latency = std::chrono::milliseconds(ms), .bytes_per_second = connection});
  const std::string folder =
      std::filesystem::temp_directory_path() / ("penstock-remote-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::uint64_t shard_bytes = default_file_system()->info(server.url() + "/0.tar").size;
  read_all(server.url(), false, folder);  // makes the index
  std::vector<double> curl, in_order, shuffled, first, fetched, requests;
  for (int round = 0; round < rounds; ++round) {
    curl.push_back(curl_rate(server.url(), shard_bytes, folder));
    in_order.push_back(read_all(server.url(), false, folder).mb_s);
    const Figures figures = read_all(server.url(), true, folder);
    shuffled.push_back(figures.mb_s);
    first.push_back(figures.first_batch_ms);
    fetched.push_back(figures.fetched);
    requests.push_back(figures.requests);
  }
  std::filesystem::remove_all(folder);
  std::printf(
      "{\"ms\": %d, \"connection_mb_s\": %.0f, \"records\": %zu, \"curl_mb_s\": %.1f, "
      "\"in_order_mb_s\": %.1f, \"shuffled_mb_s\": %.1f, \"in_order_of_curl\": %.2f, "
      "\"shuffled_of_curl\": %.2f, \"first_batch_ms\": %.0f, \"fetched_of_needed\": %.3f, "
      "\"requests\": %.0f}\n",
      ms, 1e-6 * connection, records, median(curl), median(in_order), median(shuffled),
      median(in_order) / median(curl), median(shuffled) / median(curl), median(first),
      median(fetched), median(requests));
  return 0;
}

}  // namespace penstock::bench
