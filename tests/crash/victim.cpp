// The process that the crash harness kills: consumes a graph, acknowledges each batch in a log and
// saves its position now and then.
//
//     crash_victim DATA GRAPH LOG STATE SAVE_EVERY THREADS [MUTANT]
//
// PENSTOCK_KILL_AT="rename:3" kills it when it is at that point for the third time; PENSTOCK_PACE
// is how many microseconds it waits behind each batch.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/internal/crc32c.h>

#include "pipeline/core/kill_point.h"
#include "tests/crash/graphs.h"

namespace {

/// Appends whole lines; each is one write, so that only the system could tear it.
class Log {
 public:
  void open(const char* path) {
    fd_ = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd_ < 0) throw std::runtime_error("can't write the log");
  }
  void add(const std::string& line) const {
    // A newline in front: what a kill tore must not take this line with it.
    const std::string text = "\n" + line + " .\n";
    if (::write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("can't write the log");
  }

 private:
  int fd_ = -1;
};

// Constant once the run begins, but for the count.
Log the_log;
std::string kill_name;
std::atomic<int> kill_count{0};

std::string description(const penstock::Element& element) {
  std::string ids;
  std::uint32_t sum = 0;
  const auto add = [&sum](const void* data, std::size_t size) {
    sum = penstock::crc32c({static_cast<const std::byte*>(data), size}, sum);
  };
  for (std::size_t i = 0; i < element.size(); ++i) {
    const penstock::Tensor tensor = element[i].clone();
    if (tensor.dtype() != penstock::DType::bytes) {
      add(tensor.data(), tensor.nbytes());
      continue;
    }
    for (std::int64_t k = 0; k < tensor.volume(); ++k)
      add(tensor.bytes_at(k).data(), tensor.bytes_at(k).size());
  }
  for (const std::int64_t id : element["id"].to_vector<std::int64_t>())
    ids += (ids.empty() ? "" : ",") + std::to_string(id);
  char text[16];
  std::snprintf(text, sizeof text, "%08x", sum);
  return ids + " " + text;
}

struct Options {
  std::string state_file;
  std::uint64_t save_every = 1;
  bool saves_early = false;  // the mutant
  std::chrono::microseconds pace{0};
};

void consume(const penstock::Dataset& dataset, const penstock::RunOptions& run,
             const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::optional<std::string> saved = penstock::load_state(options.state_file);
  // "<deliveries>:<state>"
  std::uint64_t count = saved ? std::strtoull(saved->c_str(), nullptr, 10) : 0;
  the_log.add("resume " + std::to_string(count));
  penstock::Iterator iterator =
      saved ? dataset.restore(std::string_view(*saved).substr(saved->find(':') + 1), run)
            : dataset.iterate(run);
  bool first = true;
  do {
    for (;;) {
      const std::string early = options.saves_early ? iterator.save() : std::string();
      penstock::Next next = iterator.next();
      if (next.is_end()) break;
      if (first) {
        const std::chrono::duration<double, std::milli> took =
            std::chrono::steady_clock::now() - start;
        the_log.add("first " + std::to_string(took.count()));
        first = false;
      }
      penstock::kill_point("delivered");
      the_log.add("batch " + std::to_string(iterator.epoch()) + " " +
                  (next.has_value() ? description(*next) : next.error().what()));
      penstock::kill_point("acknowledged");
      if (++count % options.save_every == 0) {
        const std::string state = options.saves_early ? early : iterator.save();
        penstock::save_state(options.state_file, std::to_string(count) + ":" + state);
        penstock::kill_point("saved");
        the_log.add("saved " + std::to_string(count) + " " + std::to_string(state.size()));
      }
      std::this_thread::sleep_for(options.pace);
    }
  } while (iterator.next_epoch());
  the_log.add("end");
}

void die_here(const char* name) {
  if (kill_name != name || kill_count.fetch_sub(1) != 1) return;
  the_log.add("kill " + kill_name);
  ::raise(SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  try {
    if (const char* point = std::getenv("PENSTOCK_KILL_AT")) {
      const std::string text = point;
      const std::size_t colon = text.find(':');
      kill_name = text.substr(0, colon);
      kill_count = colon == text.npos ? 0 : std::atoi(text.c_str() + colon + 1);
    }
    const auto graphs = penstock::test::crash_graphs(argv[1]);
    const auto& graph = graphs.at(static_cast<std::size_t>(std::atoi(argv[2])));
    the_log.open(argv[3]);
    penstock::kill_point_observer = die_here;
    Options options;
    options.state_file = argv[4];
    options.save_every = std::strtoull(argv[5], nullptr, 10);
    options.saves_early = argc > 7;
    if (const char* pace = std::getenv("PENSTOCK_PACE"))
      options.pace = std::chrono::microseconds(std::atoi(pace));
    penstock::RunOptions run;
    run.seed = 7;
    run.epochs = 2;
    run.threads = std::atoi(argv[6]);
    run.slots = 1 + run.threads % 3;
    run.on_error = graph.on_error;
    consume(graph.build(), run, options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crash_victim: %s\n", error.what());
    return 1;
  }
}
