// The command for an input worker, which makes elements for runs of other processes.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include <penstock/log.h>
#include <penstock/serve.h>

#include "pipelines/kinds.h"
#include "pipelines/pipeline_spec.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "report/format.h"
#include "tools/penstock/commands/checks.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/run/build.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/interrupts.h"
#include "tools/penstock/support/messages.h"

namespace penstock::tool {
namespace {

using namespace std::chrono_literals;

/// Builds the dataset of a graph that came over the network. Such a graph may name only files below
/// the folder, and may write nothing.
Dataset dataset_of(const std::string& toml, const FileSystemPtr& files) {
  PipelineSpec spec = [&] {
    try {
      return pipeline_from_toml(toml, "the run's graph");
    } catch (const UsageError& error) {
      throw Error(ErrorCode::invalid_argument, error.what());
    }
  }();
  for (const Settings& stage : spec.stages)
    if (!stage.kind().output.empty())
      throw Error(ErrorCode::invalid_argument,
                  "an input worker writes no files, but the stage " + stage.kind().name + " does");
  if (spec.source->kind().find("index_folder") != nullptr)
    spec.source->set("index_folder", std::string("-"));
  try {
    return build(spec, files);
  } catch (const UsageError& error) {
    throw Error(ErrorCode::invalid_argument, error.what());
  }
}

class Serve final : public Command {
 public:
  explicit Serve(CLI::App& program)
      : Command(program, "serve",
                "run an input worker, which makes elements for runs of other processes (--workers)",
                "penstock serve --listen 127.0.0.1:7070 --root /data\n"
                "  penstock profile photos --workers 127.0.0.1:7070 --batch 64") {
    const auto add = [this](const char* flag, auto& value, const char* type, const char* help) {
      return app()->add_option(flag, value, help)->type_name(type);
    };
    add("--listen", options_.address, "HOST:PORT",
        "where to listen (default 127.0.0.1:0: any free port, which is printed)");
    add("--root", root_, "DIR",
        "the only folder that runs may read; relative paths start here (default: the current "
        "folder)");
    add("--threads", options_.threads, "N", "compute threads for each run (default: all)")
        ->check(CLI::Range(1, 1023));
    add("--memory", memory_, "BYTES",
        "memory for all elements in flight (default: a quarter of the container's memory, at most "
        "2GiB)");
    add("--cache-memory", cache_memory_, "BYTES",
        "part of --memory to cache elements in, for other runs of the same graph, seed and epoch "
        "(default: no cache)");
    add("--runs", options_.most_runs, "N",
        "most runs at a time, which share the memory (default 4)")
        ->check(CLI::Range(1, 1000));
    add("--io", io_, "NAME", "how files are read: pread (default), io_uring or mmap")
        ->check(CLI::IsMember({"pread", "io_uring", "mmap"}));
    add("--announce", options_.announce, "URL",
        "etcd://HOST:PORT/PREFIX: register here, so that runs with the same URL in --workers find "
        "this worker");
    add("--advertise", options_.public_address, "HOST:PORT",
        "address at which runs reach this worker, if not --listen");
    add("--tls-cert", options_.security.certificate, "FILE",
        "PEM file with this process's certificate");
    add("--tls-key", options_.security.key, "FILE",
        "PEM file with the private key of that certificate");
    add("--tls-ca", options_.security.authority, "FILE",
        "PEM file with the trusted CA certificates");
    add("--token-file", token_file_, "FILE",
        "file with the token that runs must present; required beyond loopback");
  }

  int run() override {
    options_.memory_bytes = bytes_of("--memory", memory_);
    options_.cache_bytes = bytes_of("--cache-memory", cache_memory_);
    if (!token_file_.empty()) options_.security.token = token_in(token_file_);
    Interrupts interrupts(kOk);
    const FileSystemPtr files = files_below(io_, root_);
    // Of the flags, only --root counts from another folder than the current one.
    WorkerSecurity& security = options_.security;
    for (std::string* path : {&security.certificate, &security.key, &security.authority})
      if (!path->empty()) *path = std::filesystem::absolute(*path);
    std::filesystem::current_path(root_);
    const auto server =
        serve([files](const std::string& graph) { return dataset_of(graph, files); }, options_);
    if (security == WorkerSecurity())
      log(LogLevel::warning,
          "any process on this machine can use this worker; --tls-cert, --tls-key, --tls-ca and "
          "--token-file restrict access");
    std::printf("serving %s at %s\n", root_.c_str(), server->address().c_str());
    std::fflush(stdout);
    std::atomic<bool> told{false};
    const Cancellation cancellation(interrupts, [&] {
      server->drain();
      told = true;
    });
    while (!told || !server->drained()) std::this_thread::sleep_for(20ms);
    const ServeStats stats = server->stats();
    std::printf("served %s in %s; refused %s\n",
                plural(stats.elements, "element", "elements").c_str(),
                plural(stats.groups, "group", "groups").c_str(), grouped(stats.refused).c_str());
    if (options_.cache_bytes > 0)
      std::printf("cache: %s elements hit, %s missed, %s evicted; peak use %s of %s\n",
                  grouped(stats.cache_hits).c_str(), grouped(stats.cache_misses).c_str(),
                  grouped(stats.cache_evicted).c_str(),
                  human_bytes(static_cast<double>(stats.cache_peak_bytes)).c_str(),
                  human_bytes(static_cast<double>(options_.cache_bytes)).c_str());
    return kOk;
  }

 private:
  /// Returns the value of a flag in bytes, or 0 if the flag was not given.
  static std::uint64_t bytes_of(const char* flag, const std::string& text) {
    try {
      return text.empty() ? 0 : static_cast<std::uint64_t>(parse_bytes(text));
    } catch (const UsageError& error) {
      throw error.at(flag);
    }
  }

  ServeOptions options_;
  std::string root_ = ".";
  std::string memory_;
  std::string cache_memory_;
  std::string io_ = "pread";
  std::string token_file_;
};

}  // namespace

std::unique_ptr<Command> make_serve(CLI::App& program) {
  return std::make_unique<Serve>(program);
}

}  // namespace penstock::tool
