// penstock_records_bench FOLDER [ROUNDS [TARGET]]: the fused image op on plain JPEGs, on records of
// coefficients and on indexed ones, with Huffman tables that all share and with their own, beside
// the bare region-decode loop over the plain ones: one thread, everything in memory, the same
// crops, a few files at a time in turns. And the entropy stage alone beside jpeg_read_coefficients.
// TARGET ("AVX2", "SSE4"…) is the best SIMD target of ours that may be used. Prints a JSON line for
// each: medians, microseconds an image.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <penstock/image.h>
#include <penstock/simd.h>

#include "bench/measure.h"
#include "bench/one_thread.h"
#include "bench/region_loop.h"
#include "pipeline/jpeg/records/make.h"
#include "pipeline/jpeg/records/packed_row.h"

namespace penstock::bench {
namespace {

std::uint64_t bytes_of(const Files& files) {
  std::uint64_t bytes = 0;
  for (const auto& file : files) bytes += file.size();
  return bytes;
}

/// What can't be a record stays as it is.
Files make_records(const Files& files, jpeg::RecordKind kind,
                   const jpeg::SharedTables* tables = nullptr) {
  Files records;
  for (const auto& file : files) {
    jpeg::Made made = jpeg::make_record(file, {.kind = kind, .tables = tables});
    records.push_back(made.record.empty() ? file : std::move(made.record));
  }
  return records;
}

jpeg::SharedTables tables_for(const Files& files) {
  jpeg::CoefficientImage image;
  jpeg::TableSample all;
  for (const auto& file : files) {
    if (jpeg::read_coefficients(file, {}, image) != jpeg::Foreign::none) continue;
    jpeg::TableSample one;
    one.add(image);
    all.add(one);
  }
  return all.tables();
}

/// The op, with rows as the engine gives them.
class Fused {
 public:
  Fused()
      : op_(decode_image("image").random_resized_crop(224).random_flip().normalize().op()),
        names_(Names::intern(std::vector<std::string>{"image"})),
        items_(op_->preferred_group()) {
    const Spec output = op_->infer(Spec({{"image", DType::bytes, Shape()}}));
    row_bytes_ = static_cast<std::size_t>(output[0].shape.volume()) * size_of(output[0].dtype);
    slots_ = allocate_buffer(kRows * row_bytes_);
    base_ = slots_->data();
  }
  void set_key(std::uint64_t key) { context_.set_key(key); }
  void run(const Files& files, std::size_t first, std::size_t last) {
    for (; first < last; first += items_.size()) {
      const std::size_t count = std::min(items_.size(), last - first);
      for (std::size_t i = 0; i < count; ++i) {
        const auto& file = files[first + i];
        items_[i].ordinal = first + i;
        items_[i].element.reset(names_);
        items_[i].element[0] =
            Tensor::bytes({reinterpret_cast<const char*>(file.data()), file.size()}, BufferPtr());
        items_[i].row = Row(&base_, &row_bytes_, (first + i) % kRows);
      }
      op_->run({items_.data(), count}, context_);
      for (std::size_t i = 0; i < count; ++i)
        if (!items_[i].status.ok()) throw Error(items_[i].status.error());
    }
  }

 private:
  static constexpr std::size_t kRows = 128;  // two slots
  WorkOpPtr op_;
  const Names* names_;
  std::vector<WorkItem> items_;
  Context context_;
  std::size_t row_bytes_ = 0;
  BufferPtr slots_;
  std::byte* base_ = nullptr;
};

struct Side {
  std::string name;
  std::function<void(std::size_t first, std::size_t last)> work;
  std::vector<double> times{};  // of each round, seconds a file
};

/// In turns, so that all see the same machine; each turn begins with another.
void race(std::vector<Side>& sides, std::size_t files, int rounds,
          const std::function<void(std::uint64_t)>& begin) {
  // Enough to fill the lanes of a decoder.
  const std::size_t turn = std::max<std::size_t>(files / 30, 64);
  for (int round = -1; round < rounds; ++round) {
    begin(static_cast<std::uint64_t>(round + 1));
    std::vector<double> took(sides.size());
    for (std::size_t first = 0; first < files; first += turn) {
      const std::size_t last = std::min(first + turn, files);
      for (std::size_t i = 0; i < sides.size(); ++i) {
        const std::size_t side = (i + first / turn) % sides.size();
        const double start = cpu_seconds();
        sides[side].work(first, last);
        took[side] += cpu_seconds() - start;
      }
    }
    if (round < 0) continue;  // warms up
    for (std::size_t i = 0; i < sides.size(); ++i)
      sides[i].times.push_back(took[i] / static_cast<double>(files));
  }
}

/// The first side is what the others are compared with.
void report(const char* what, const std::string& target, const std::vector<Side>& sides) {
  std::printf(R"({"bench":"records","what":"%s","target":"%s")", what, target.c_str());
  for (const Side& side : sides) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < side.times.size(); ++i)
      ratios.push_back(sides[0].times[i] / side.times[i]);
    std::printf(R"(,"%s_us":%.1f,"%s_ratio":%.3f)", side.name.c_str(), 1e6 * median(side.times),
                side.name.c_str(), median(ratios));
  }
  std::printf("}\n");
  std::fflush(stdout);
}

/// All blocks to coefficients, none to samples; checksums included.
void expand(const std::vector<std::byte>& bytes) {
  if (!jpeg::is_record(bytes)) return read_coefficients(bytes);
  const jpeg::Record record = jpeg::read_record(bytes);
  const jpeg::BlockGrid grid(record.header);
  jpeg::Plane plane;
  plane.side = jpeg::kBlockSide;
  for (int y = 0; y < grid.imcu_rows; ++y) {
    for (int c = 0; c < record.header.component_count; ++c) {
      const int across = grid.across[static_cast<std::size_t>(c)];
      plane.first_block = plane.last_block = across;
      const std::size_t part = grid.first_part(y, c);
      for (int i = 0; i < grid.rows_in(y, c); ++i) {
        const auto row =
            jpeg::open_row(record.read_part(part + static_cast<std::size_t>(i)), across);
        if (!jpeg::transform_row(row, plane, nullptr)) std::abort();
      }
    }
  }
}

int run(const std::string& folder, int rounds, const std::string& target) {
  if (!target.empty()) choose_simd(target);
  const std::string name = simd();
  const Files plain = load_files(folder);
  const Files coefficients = make_records(plain, jpeg::RecordKind::coefficients);
  const jpeg::SharedTables tables = tables_for(plain);
  const Files indexed = make_records(plain, jpeg::RecordKind::indexed, &tables);
  const Files indexed_own = make_records(plain, jpeg::RecordKind::indexed);
  const auto share = [&](const Files& files) {
    return static_cast<double>(bytes_of(files)) / static_cast<double>(bytes_of(plain));
  };
  std::printf(R"({"bench":"records","what":"bytes","files":%zu,"plain":%.0f,"coefficients":%.3f,)"
              R"("indexed":%.3f,"indexed_own":%.3f})"
              "\n",
              plain.size(),
              static_cast<double>(bytes_of(plain)) / static_cast<double>(plain.size()),
              share(coefficients), share(indexed), share(indexed_own));
  const auto each = [](const Files& files, auto work) {
    return [&files, work](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) work(files[i]);
    };
  };
  std::vector<Side> entropy{{"libjpeg", each(plain, read_coefficients)},
                            {"coefficients", each(coefficients, expand)}};
  race(entropy, plain.size(), rounds, [](std::uint64_t) {});
  report("entropy", name, entropy);

  RegionLoop loop(224);
  std::uint64_t key = 0;
  Fused fused;
  const auto op = [&](const Files& files) {
    return [&](std::size_t first, std::size_t last) { fused.run(files, first, last); };
  };
  std::vector<Side> sides{{"loop",
                           [&](std::size_t first, std::size_t last) {
                             for (std::size_t i = first; i < last; ++i)
                               loop.decode(plain[i], Rng(key, i, 0), i);
                           }},
                          {"plain", op(plain)},
                          {"coefficients", op(coefficients)},
                          {"indexed", op(indexed)},
                          {"indexed_own", op(indexed_own)}};
  race(sides, plain.size(), rounds, [&](std::uint64_t round) {
    key = round;
    fused.set_key(round);
  });
  report("op", name, sides);
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: penstock_records_bench FOLDER [ROUNDS [TARGET]]\n");
    return 2;
  }
  try {
    return penstock::bench::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 7,
                                argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
