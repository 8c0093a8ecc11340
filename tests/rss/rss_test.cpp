// What the program has of memory, seen from outside: the budget, and what program, stacks, indices
// and decoders' tables take. Each graph runs in budgets from the least that is accepted upward,
// with 1, 2 and 8 threads.
//
// PENSTOCK_RSS=full: all graphs and the large images, a quarter of an hour; the script
// tools/reliability.sh asks for that and writes the figures to bench/results/reliability.md.
// PENSTOCK_RSS_ONLY=PART: of them the graphs with this in their name.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/rss/data.h"
#include "tests/support/figure.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

using Flags = std::vector<std::string>;

constexpr std::uint64_t kMebibyte = 1U << 20;
/// What a process may have beside its budget.
constexpr std::uint64_t kBeside = 48 * kMebibyte;

bool in_full() {
  const char* wanted = std::getenv("PENSTOCK_RSS");
  return wanted != nullptr && std::string(wanted) == "full";
}

/// Prints a row of a table, which `tools/reliability.sh` collects.
void row(const char* text) {
  std::printf("figure: | %s\n", text);
  std::fflush(stdout);
}

struct Graph {
  std::string name;
  Flags flags;
  bool always = false;  // also where there is little time
};

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Bytes in memory that no file holds. Nothing once the process is gone.
std::optional<std::uint64_t> resident(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  std::uint64_t kibibytes = 0;
  bool found = false;
  for (std::string word; status >> word;) {
    if (word != "RssAnon:" && word != "RssShmem:") continue;
    std::uint64_t some = 0;
    status >> some;
    kibibytes += some;
    found = true;
  }
  if (!found) return {};
  return kibibytes << 10;
}

struct Measured {
  int code = -1;
  std::string digest;
  std::string error;
  std::uint64_t peak = 0;
};

class Rss : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    full_ = in_full();
    const std::uint32_t large = full_ ? 6000 : 2600;
    const std::uint32_t largest = full_ ? 9000 : 3600;
    for (const auto& [name, side, factor] : {std::tuple{"progressive", large, 2},
                                             {"whole", large, 1},
                                             {"progressive9000", largest, 2}})
      write_jpegs(name, side, true, factor);
    write_jpegs("baseline9000", largest, false, 2);
    write_pngs("png", full_ ? 5000 : 2000, false);
    write_pngs("interlaced", full_ ? 4000 : 1500, true);
    synth({"small", "--images", "300", "--size", "375x500"});
    if (!full_) return;
    synth({"tails", "--images", "300", "--size", "375x500", "--heavy-tail", "0.7"});
    synth({"gzip", "--format", "tfrecord", "--compression", "gzip", "--shards", "4", "--images",
           "300", "--size", "375x500"});
    synth({"zlib", "--format", "tfrecord", "--compression", "zlib", "--shards", "4", "--images",
           "300", "--size", "375x500"});
    synth({"tar", "--format", "tar", "--shards", "4", "--images", "300", "--size", "375x500"});
    synth({"csv", "--format", "csv", "--images", "60000"});
    synth({"idx", "--format", "idx", "--compression", "gzip", "--images", "20000"});
    synth({"cifar", "--format", "cifar10", "--images", "10000"});
    for (const char* kind : {"coefficients", "indexed"}) {
      for (const char* data : {"small", "baseline9000"}) {
        EXPECT_EQ(run_program({"pack", "--images", *folder_ / data, "--jpeg", kind, "--out",
                               *folder_ / (std::string(data) + "-" + kind + ".pnr"), "--quiet"})
                      .code,
                  0);
      }
    }
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string folder(const std::string& name) {
    const std::string path = *folder_ / name;
    std::filesystem::create_directories(path);
    return path;
  }
  static void write_jpegs(const char* name, std::uint32_t side, bool progressive, int factor) {
    const std::string to = folder(name);
    for (const char* file : {"/a.jpg", "/b.jpg", "/c.jpg"}) {
      if (file[1] == 'a') {
        write_large_jpeg(to + file, side, progressive, factor);
      } else {
        std::filesystem::copy_file(to + "/a.jpg", to + file);
      }
    }
  }
  static void write_pngs(const char* name, std::uint32_t side, bool interlaced) {
    const std::string to = folder(name);
    write_large_png(to + "/a.png", side, interlaced);
    std::filesystem::copy_file(to + "/a.png", to + "/b.png");
    std::filesystem::copy_file(to + "/a.png", to + "/c.png");
  }
  static void synth(Flags flags) {
    flags[0] = *folder_ / flags[0];
    EXPECT_EQ(run_program(Flags{"synth"} + flags).code, 0);
  }

  static std::vector<Graph> graphs() {
    const auto at = [](const char* name) { return *folder_ / name; };
    const auto images = [&](const char* name) { return Flags{"--images", at(name)}; };
    const auto records = [&](const char* name) { return Flags{"--records", at(name)}; };
    const Flags train{"--shuffle", "--random-resized-crop", "224", "--flip", "--normalize"};
    const Flags stream{"--shuffle", "64", "--random-resized-crop", "224", "--normalize"};
    const Flags valid{"--resize", "256", "--center-crop", "224", "--normalize"};
    const Flags example{"--example", "image/encoded,image/class/label"};
    const Flags by1{"--batch", "1"};
    const Flags by8{"--batch", "8"};
    const Flags by32{"--batch", "32"};
    const Flags whole{"--decode"};
    std::vector<Graph> all{
        {"progressive, resized", images("progressive") + valid + by1, true},
        {"progressive, cropped", images("progressive") + train + Flags{"--batch", "2"}, true},
        {"progressive 4:4:4, resized", images("whole") + valid + by1},
        {"progressive, decoded", images("progressive") + whole},
        {"progressive, decoded, batched",
         images("progressive") + whole + Flags{"--padded-batch", "1"}},
        {"progressive 9000, resized", images("progressive9000") + valid + by1},
        {"baseline 9000, resized", images("baseline9000") + valid + by1, true},
        {"baseline 9000, cropped", images("baseline9000") + train + Flags{"--batch", "2"}},
        {"baseline 9000 by libjpeg-turbo",
         images("baseline9000") + valid + by1 + Flags{"--jpeg-backend", "libjpeg-turbo"}},
        {"baseline 9000, jittered",
         images("baseline9000") + Flags{"--resize", "1000x1000", "--color-jitter", "0.4"} + by1},
        {"PNG, resized", images("png") + valid + by1},
        {"PNG, decoded", images("png") + whole},
        {"interlaced PNG, resized", images("interlaced") + valid + by1, true},
        {"interlaced PNG, cropped", images("interlaced") + train + Flags{"--batch", "2"}},
        {"375x500, trained on", images("small") + train + by32 + Flags{"--epochs", "2"}, true},
        {"375x500, resized", images("small") + valid + by32},
        {"375x500, small batches", images("small") + train + by1},
        {"375x500, decoded", images("small") + whole + by8},
        {"375x500, decoded, elements", images("small") + whole},
        {"375x500, jittered",
         images("small") + Flags{"--random-resized-crop", "224", "--color-jitter", "0.4"} + by8},
        {"375x500 by libjpeg-turbo",
         images("small") + train + by32 + Flags{"--jpeg-backend", "libjpeg-turbo"}},
        {"375x500, cached", images("small") + Flags{"--random-resized-crop", "32", "--cache"} +
                                by8 + Flags{"--epochs", "2"}},
        {"375x500, files cached",
         images("small") + Flags{"--cache"} + stream + by8 + Flags{"--epochs", "2"}},
        {"numbers, cached", Flags{"--range", "300000", "--cache"} + by32 + Flags{"--epochs", "2"},
         true},
        {"numbers, shuffled", Flags{"--range", "200000", "--unique", "--shuffle", "100000"} + by32,
         true},
        {"numbers, windows", Flags{"--range", "200000", "--unique", "--window", "100000"}, true},
        {"numbers, padded", Flags{"--range", "200000", "--unique", "--padded-batch", "100000"},
         true},
        {"375x500, windows",
         images("small") + Flags{"--random-resized-crop", "64", "--window", "4"}},
        {"375x500, rebatched", images("small") + train + by8 + Flags{"--rebatch", "20"}},
    };
    if (!full_) {
      std::erase_if(all, [](const Graph& graph) { return !graph.always; });
      return all;
    }
    const std::vector<Graph> more{
        {"heavy tails, trained on", images("tails") + train + by32},
        {"heavy tails, decoded", images("tails") + whole},
        {"coefficient records", records("small-coefficients.pnr") + train + by32},
        {"indexed records", records("small-indexed.pnr") + train + by32},
        {"coefficient records 9000", records("baseline9000-coefficients.pnr") + valid + by1},
        {"indexed records 9000", records("baseline9000-indexed.pnr") + valid + by1},
        {"coefficient records by libjpeg-turbo", records("small-coefficients.pnr") + train + by32 +
                                                     Flags{"--jpeg-backend", "libjpeg-turbo"}},
        {"TFRecord, gzip", Flags{"--tfrecord", at("gzip/*.gz")} + example + stream + by32},
        {"TFRecord, zlib", Flags{"--tfrecord", at("zlib/*")} + example + stream + by8},
        {"TFRecord, gzip, shuffled", Flags{"--tfrecord", at("gzip/*.gz"), "--shuffle", "64"} + by8},
        {"tar", Flags{"--tar", at("tar/*.tar")} + train + by32},
        {"CSV", Flags{"--csv", at("csv/*.csv"), "--shuffle", "1000"} + by32},
        {"CSV, windows", Flags{"--csv", at("csv/*.csv"), "--window", "16"} + by32},
        {"IDX, gzip", Flags{"--idx", at("idx/images-idx3-ubyte.gz"), "--shuffle"} + by32},
        {"CIFAR-10", Flags{"--cifar10", at("cifar/*.bin"), "--shuffle", "--random-pad-crop", "32,4",
                           "--normalize"} +
                         by32},
    };
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  static Measured run(const Graph& graph, std::uint64_t budget, int threads) {
    Program program(Flags{"profile"} + graph.flags +
                    Flags{"--seed", "5", "--digest", "--quiet", "--json", "-", "--memory",
                          std::to_string(budget), "--threads", std::to_string(threads)});
    Measured measured;
    while (const auto now = resident(program.id())) {
      measured.peak = std::max(measured.peak, *now);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const Outcome outcome = program.wait();
    measured.code = outcome.code;
    measured.error = outcome.err;
    if (outcome.code == 0) measured.digest = outcome.json()["digest"].dump();
    return measured;
  }

  /// The number behind `words` in an error, in bytes.
  static std::optional<std::uint64_t> number_behind(const std::string& words,
                                                    const std::string& text) {
    const std::size_t at = text.rfind(words);
    if (at == std::string::npos) return {};
    return std::strtoull(text.c_str() + at + words.size(), nullptr, 10);
  }

  struct Largest {
    std::uint64_t over = 0;  // beyond the budget
    std::uint64_t peak = 0;
    std::uint64_t budget = 0;
    int threads = 0;
  };

  void measure(const Graph& graph) {
    SCOPED_TRACE(graph.name);
    const Measured refused = run(graph, 1, 1);
    ASSERT_NE(refused.code, 0);
    std::uint64_t budget = number_behind("the plan needs at least ", refused.error).value_or(4096);
    const std::uint64_t least = budget;
    std::string digest;
    Largest largest;
    const auto note = [&](const Measured& measured, int threads) {
      const std::uint64_t over = measured.peak > budget ? measured.peak - budget : 0;
      if (over >= largest.over) largest = {over, measured.peak, budget, threads};
      EXPECT_LE(over, kBeside) << budget << " bytes, " << threads << " threads, has "
                               << measured.peak;
      ++runs_;
    };
    // Upward until it is enough; where an error says what is, that must be.
    int named = 0;  // what is done with the pixels may ask behind the decoder
    for (;;) {
      const Measured one = run(graph, budget, 1);
      note(one, 1);
      if (one.code == 0) {
        digest = one.digest;
        break;
      }
      ASSERT_LT(named, 2) << one.error;
      EXPECT_NE(one.error.find("memory budget"), std::string::npos) << one.error;
      const auto takes = number_behind("raise it to at least --memory ", one.error);
      const Measured other = run(graph, budget, 8);
      note(other, 8);
      if (takes) {
        EXPECT_EQ(one.error, other.error);
      }
      named += takes ? 1 : 0;
      ASSERT_LT(budget, std::uint64_t{8} << 30);
      budget = takes ? *takes << 20 : 2 * budget;
    }
    const std::uint64_t enough = budget;
    for (const std::uint64_t factor : {1, 4}) {
      for (const int threads : {1, 2, 8}) {
        if (factor == 1 && threads == 1) continue;
        budget = std::min(factor * enough, std::max(enough, std::uint64_t{2} << 30));
        const Measured measured = run(graph, budget, threads);
        note(measured, threads);
        EXPECT_EQ(measured.code, 0) << measured.error;
        EXPECT_EQ(measured.digest, digest) << budget << " bytes, " << threads << " threads";
      }
    }
    const auto mib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / kMebibyte; };
    std::array<char, 200> text{};
    std::snprintf(text.data(), text.size(), "%s | %.1f | %.1f | %.1f of %.1f | %d |",
                  graph.name.c_str(), mib(enough), mib(largest.over), mib(largest.peak),
                  mib(largest.budget), largest.threads);
    row(text.data());
    EXPECT_LE(least, enough);
    most_ = std::max(most_, largest.over);
  }

  static TempFolder* folder_;
  static bool full_;
  int runs_ = 0;
  std::uint64_t most_ = 0;
};

TempFolder* Rss::folder_ = nullptr;
bool Rss::full_ = false;

TEST_F(Rss, IsNeverFarBeyondTheBudget) {
  std::vector<Graph> all = graphs();
  const char* const only = std::getenv("PENSTOCK_RSS_ONLY");
  if (only != nullptr) {
    std::erase_if(
        all, [only](const Graph& graph) { return graph.name.find(only) == std::string::npos; });
  }
  row("graph | suffices | beyond | had, of | threads |");
  row("---|---|---|---|---|");
  for (const Graph& graph : all) measure(graph);
  figure("memory", "%zu graphs, %d runs, at most %.1f MiB beyond the budget", all.size(), runs_,
         static_cast<double>(most_) / kMebibyte);
  EXPECT_GE(all.size(), only != nullptr ? 1U : full_ ? 40U : 5U);
}

}  // namespace
}  // namespace penstock::test
