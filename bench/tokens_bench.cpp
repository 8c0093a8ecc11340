// Shuffled windows of tokens, beside a loop of fseek and fread over the same files and windows:
//   penstock_tokens_bench [ROUNDS] [MIB] [SHARDS] [FOLDER]
// Makes SHARDS files of llm.c's u16 tokens with MIB mebibytes in all, below FOLDER (default: the
// folder of temporary files), and reads them once, so that they are cached. Then all sides take
// turns, in batches of 8 and of 64 windows of 1,025 tokens: the loop, the same with streams that do
// not buffer, the source by pread and by mmap, and fixed_records of the same bytes. The loop has
// its permutation ready, and one buffer for all batches. Pin it (taskset -c 0): then the threads of
// the pipeline share one CPU. Prints a JSON line for each side: nanoseconds of CPU time and of wall
// time a window, and the loop's times divided by them, medians over the rounds.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <penstock/penstock.h>

#include "bench/main.h"
#include "bench/measure.h"

namespace penstock::bench {
namespace {

constexpr std::size_t kWindow = 1024;  // T
constexpr std::size_t kHeader = 256 * sizeof(std::int32_t);
int epochs = 1;  // of each run, which reads about a gibibyte

struct Shards {
  explicit Shards(const std::string& parent) {
    folder = parent + "/penstock-tokens-" + std::to_string(::getpid());
    std::filesystem::create_directory(folder);
  }
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;
  ~Shards() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

  void write(std::size_t count, std::size_t tokens) {
    std::mt19937 random(17);
    std::vector<std::uint16_t> values(tokens);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::uint16_t& value : values) value = static_cast<std::uint16_t>(random() % 50257);
      std::vector<std::int32_t> header(256);
      header[0] = 20240520;
      header[1] = 1;
      header[2] = static_cast<std::int32_t>(tokens);
      paths.push_back(folder + "/" + std::to_string(1000 + i) + ".bin");
      std::FILE* const file = std::fopen(paths.back().c_str(), "wb");
      if (file == nullptr) throw std::runtime_error("cannot write " + paths.back());
      const bool written = std::fwrite(header.data(), 1, kHeader, file) == kHeader &&
                           std::fwrite(values.data(), 2, tokens, file) == tokens;
      if (std::fclose(file) != 0 || !written) throw std::runtime_error("cannot write the shards");
    }
    windows = (tokens - 1) / kWindow;
  }

  std::string folder;
  std::vector<std::string> paths;
  std::size_t windows = 0;  // of each
};

/// The loop: seeks, reads, and converts if the batches have another type than the files.
template <typename To>
class FreadLoop {
 public:
  FreadLoop(const Shards& shards, std::size_t batch, bool buffered)
      : windows_(shards.windows), batch_(batch) {
    for (const std::string& path : shards.paths) {
      files_.push_back(std::fopen(path.c_str(), "rb"));
      if (!buffered) std::setvbuf(files_.back(), nullptr, _IONBF, 0);
    }
    order_.resize(files_.size() * windows_);
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    std::shuffle(order_.begin(), order_.end(), std::mt19937(3));
    row_.resize(kWindow + 1);
    rows_.resize(batch * (kWindow + 1));
  }
  FreadLoop(const FreadLoop&) = delete;
  FreadLoop& operator=(const FreadLoop&) = delete;
  ~FreadLoop() {
    for (std::FILE* file : files_) std::fclose(file);
  }

  std::uint64_t run() {
    std::uint64_t sum = 0;
    for (std::size_t first = 0; first < order_.size(); first += batch_) {
      const std::size_t count = std::min(batch_, order_.size() - first);
      for (std::size_t i = 0; i < count; ++i) read(order_[first + i], &rows_[i * (kWindow + 1)]);
      for (std::size_t i = 0; i < count; ++i) sum += rows_[i * (kWindow + 1)];
    }
    return sum;
  }

 private:
  void read(std::uint32_t window, To* out) {
    std::FILE* const file = files_[window / windows_];
    const std::size_t offset = kHeader + window % windows_ * kWindow * sizeof(std::uint16_t);
    if (fseeko(file, static_cast<off_t>(offset), SEEK_SET) != 0) std::abort();
    if constexpr (sizeof(To) == sizeof(std::uint16_t)) {
      if (std::fread(out, sizeof(To), kWindow + 1, file) != kWindow + 1) std::abort();
    } else {
      if (std::fread(row_.data(), 2, kWindow + 1, file) != kWindow + 1) std::abort();
      for (std::size_t i = 0; i <= kWindow; ++i) out[i] = row_[i];
    }
  }

  std::size_t windows_;
  std::size_t batch_;
  std::vector<std::FILE*> files_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint16_t> row_;
  std::vector<To> rows_;
};

template <typename T>
std::uint64_t first_tokens(const Tensor& batch) {
  const auto row = static_cast<std::size_t>(batch.shape()[1]);
  const std::span<const T> values = batch.values<T>();
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < values.size(); at += row)
    sum += static_cast<std::uint64_t>(values[at]);
  return sum;
}

/// Returns the sum of the first values of all windows.
std::uint64_t run_pipeline(const Dataset& batches) {
  std::uint64_t sum = 0;
  Iterator iterator =
      batches.iterate({.seed = 3, .epochs = static_cast<std::uint64_t>(epochs), .threads = 1});
  do {
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
      const Tensor& batch = next.value()[0];
      sum += batch.dtype() == DType::i32   ? first_tokens<std::int32_t>(batch)
             : batch.dtype() == DType::u16 ? first_tokens<std::uint16_t>(batch)
                                           : first_tokens<std::uint8_t>(batch);
    }
  } while (iterator.next_epoch());
  return sum;
}

struct Side {
  std::string name;
  std::string loop;  // the side that it is compared with
  std::function<std::uint64_t()> work;
  std::vector<double> cpu{}, wall{};
  std::uint64_t sum = 0;
};

void race(std::vector<Side>& sides, int rounds, double windows) {
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t i = 0; i < sides.size(); ++i) {
      Side& side = sides[(i + static_cast<std::size_t>(round + 1)) % sides.size()];
      const auto start = std::chrono::steady_clock::now();
      const double before = process_seconds();
      side.sum = side.work();
      if (round < 0) continue;  // warms up
      side.cpu.push_back(1e9 * (process_seconds() - before) / windows);
      side.wall.push_back(1e9 * seconds_since(start) / windows);
    }
  }
}

double ratio(const std::vector<double>& loop, const std::vector<double>& side) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < side.size(); ++i) ratios.push_back(loop[i] / side[i]);
  return median(ratios);
}

void bench(const Shards& shards, std::int64_t batch, int rounds) {
  const auto rows = static_cast<std::size_t>(batch);
  const auto repeated = [&]<typename T>(T, bool buffered) {
    return [loop = std::make_shared<FreadLoop<T>>(shards, rows, buffered)] {
      std::uint64_t sum = 0;
      for (int epoch = 0; epoch < epochs; ++epoch) sum += loop->run();
      return sum;
    };
  };
  const auto pipeline = [&](DType dtype, const char* io) {
    TokenShardsOptions options;
    options.dtype = dtype;
    options.files = make_file_system(io);
    const Dataset batches = token_shards(shards.paths, kWindow, options).shuffle().batch(batch);
    return [batches] { return run_pipeline(batches); };
  };
  FixedRecordOptions fixed;
  fixed.header_bytes = kHeader;
  fixed.footer_bytes = sizeof(std::uint16_t);
  const Dataset records = fixed_records(shards.paths, 2 * kWindow, fixed).shuffle().batch(batch);
  std::vector<Side> sides{
      {"fread i32", "fread i32", repeated(std::int32_t{}, true)},
      {"unbuffered i32", "fread i32", repeated(std::int32_t{}, false)},
      {"token_shards i32", "fread i32", pipeline(DType::i32, "pread")},
      {"token_shards i32 mmap", "fread i32", pipeline(DType::i32, "mmap")},
      {"fread u16", "fread u16", repeated(std::uint16_t{}, true)},
      {"unbuffered u16", "fread u16", repeated(std::uint16_t{}, false)},
      {"token_shards u16", "fread u16", pipeline(DType::u16, "pread")},
      {"token_shards u16 mmap", "fread u16", pipeline(DType::u16, "mmap")},
      {"fixed_records", "fread u16", [records] { return run_pipeline(records); }},
  };
  race(sides, rounds, static_cast<double>(shards.paths.size() * shards.windows * epochs));
  for (const Side& side : sides) {
    const Side& loop = *std::ranges::find(sides, side.loop, &Side::name);
    if (side.name != "fixed_records" && side.sum != loop.sum)
      throw std::logic_error(side.name + " gave other windows than the loop");
    std::printf(
        R"({"bench":"tokens","batch":%lld,"side":"%s","cpu_ns":%.0f,"wall_ns":%.0f,"cpu_ratio":%.3f,)"
        R"("wall_ratio":%.3f})"
        "\n",
        static_cast<long long>(batch), side.name.c_str(), median(side.cpu), median(side.wall),
        ratio(loop.cpu, side.cpu), ratio(loop.wall, side.wall));
  }
  std::fflush(stdout);
}

}  // namespace

int run(int argc, char** argv) {
  const auto number = [&](int i, int fallback) {
    return argc > i ? std::max(1, std::atoi(argv[i])) : fallback;
  };
  const int rounds = number(1, 7);
  const int mebibytes = number(2, 256);
  epochs = std::max(1, 1024 / mebibytes);
  const auto tokens = static_cast<std::size_t>(mebibytes) << 19;
  const auto count = static_cast<std::size_t>(number(3, 4));
  Shards shards(argc > 4 ? argv[4] : std::filesystem::temp_directory_path().string());
  shards.write(count, tokens / count / kWindow * kWindow + 1);
  for (const std::int64_t batch : {8, 64}) bench(shards, batch, rounds);
  return 0;
}

}  // namespace penstock::bench
