// The whole engine beside its limits, interleaved in one run:
//   penstock_pipeline_bench images FOLDER [ROUNDS] [EPOCHS] [TARGET]   images → crops → batches,
//       beside the bare region-decode loop over the same files (already in memory) and crops, on
//       one and two threads; from the first call on, and behind the first epoch. TARGET ("AVX2"…)
//       is the best SIMD target of ours that may be used
//   penstock_pipeline_bench records FOLDER RECORDS [ROUNDS] [EPOCHS] [IO] [TARGET]   the same from
//       what `penstock pack --images FOLDER --out RECORDS` wrote; IO is pread or mmap
//   penstock_pipeline_bench range [ROUNDS]           what an element of almost no work costs
//   penstock_pipeline_bench epochs FOLDER [ROUNDS]   the gap between two epochs, in batches
//   penstock_pipeline_bench damaged CLEAN DAMAGED [ROUNDS]   two folders of TFRecord files that
//       differ in some bad records, with `skip`
// Pin it (taskset) and keep the machine quiet. Ratios are medians over the rounds.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <penstock/penstock.h>
#include <penstock/simd.h>

#include "bench/identity.h"
#include "bench/limits.h"
#include "bench/main.h"
#include "bench/measure.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

Dataset pictures(const Dataset& files) {
  return files.shuffle()
      .map_op(decode_image().random_resized_crop(224).random_flip().normalize().op())
      .batch(64);
}

/// Seconds an image.
struct Cost {
  double whole = 0;   // from the first call on
  double steady = 0;  // behind the first epoch, which touches the slots' memory
};

Cost run_pipeline(const Dataset& dataset, std::uint64_t epochs, int threads, std::uint64_t images) {
  const auto start = Clock::now();
  Iterator iterator = dataset.iterate({.seed = kSeed, .epochs = epochs, .threads = threads});
  std::uint64_t elements = 0;
  double first = 0;
  do {
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
      elements += static_cast<std::uint64_t>(next.value().valid_rows);
    }
    if (iterator.epoch() == 0) first = seconds_since(start);
  } while (iterator.next_epoch());
  const double took = seconds_since(start);
  if (elements != images * epochs) throw std::runtime_error("elements are missing");
  return {took / static_cast<double>(elements),
          (took - first) / static_cast<double>(elements - images)};
}

/// `source` has the folder's images, in their order.
void bench_images(const std::string& folder, const Dataset& source, int rounds,
                  std::uint64_t epochs) {
  const std::vector<std::vector<std::byte>> files = load_images(folder);
  const Dataset dataset = pictures(source);
  std::vector<double> whole[3];
  std::vector<double> steady[3];
  std::vector<double> scaling;
  for (int round = -1; round < rounds; ++round) {
    double loop[3] = {};
    Cost pipeline[3];
    for (const int threads : {1, 2}) {
      // Twice each, in opposite order, so that a drift of the machine falls on both.
      const double each = 2.0 * static_cast<double>(files.size() * epochs);
      loop[threads] = region_loop(files, epochs, threads);
      const Cost one = run_pipeline(dataset, epochs, threads, files.size());
      const Cost two = run_pipeline(dataset, epochs, threads, files.size());
      loop[threads] = (loop[threads] + region_loop(files, epochs, threads)) / each;
      pipeline[threads] = {(one.whole + two.whole) / 2, (one.steady + two.steady) / 2};
    }
    if (round < 0) continue;  // warms up
    for (const int threads : {1, 2}) {
      whole[threads].push_back(loop[threads] / pipeline[threads].whole);
      steady[threads].push_back(loop[threads] / pipeline[threads].steady);
    }
    scaling.push_back((pipeline[1].steady / pipeline[2].steady) / (loop[1] / loop[2]));
    std::printf(
        "us an image: bare %.0f, %.0f on two threads; pipeline %.0f, %.0f; of the bare loop's "
        "throughput %.3f, %.3f; with its start %.3f, %.3f\n",
        1e6 * loop[1], 1e6 * loop[2], 1e6 * pipeline[1].steady, 1e6 * pipeline[2].steady,
        steady[1].back(), steady[2].back(), whole[1].back(), whole[2].back());
  }
  std::printf(
      "images: of the bare loop's throughput %.3f, %.3f on two threads; with its start %.3f, %.3f; "
      "of its scaling %.3f\n",
      median(steady[1]), median(steady[2]), median(whole[1]), median(whole[2]), median(scaling));
}

void bench_range(int rounds) {
  constexpr std::int64_t kCount = 50'000'000;
  std::vector<double> each[2];
  for (int round = -1; round < rounds; ++round) {
    for (const int batchwise : {0, 1}) {
      const Dataset numbers = range(kCount);
      const Dataset mapped =
          batchwise != 0 ? numbers.map_batchwise(identities) : numbers.map(identity);
      const auto start = Clock::now();
      Iterator iterator = mapped.batch(1024).iterate({.threads = 1});
      std::int64_t elements = 0;
      for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
        elements += next.value().valid_rows;
      }
      if (elements != kCount) throw std::runtime_error("elements are missing");
      if (round >= 0) each[batchwise].push_back(1e9 * seconds_since(start) / kCount);
    }
  }
  for (std::vector<double>& times : each) std::sort(times.begin(), times.end());
  std::printf("range: %.1f ns an element (%.1f … %.1f), batch-wise %.1f ns (%.1f … %.1f)\n",
              median(each[0]), each[0].front(), each[0].back(), median(each[1]), each[1].front(),
              each[1].back());
}

void bench_epochs(const std::string& folder, int rounds) {
  const Dataset dataset = pictures(images(folder));
  std::vector<double> gaps;
  for (int round = 0; round < rounds; ++round) {
    Iterator iterator = dataset.iterate({.seed = kSeed, .epochs = 4, .threads = 2});
    std::vector<double> between;
    std::vector<double> boundary;
    auto last = Clock::now();
    bool first = true;
    do {
      bool new_epoch = true;
      for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
        const double gap = seconds_since(last);
        last = Clock::now();
        if (first) {
          first = false;  // the start of the run
        } else {
          (new_epoch ? boundary : between).push_back(gap);
        }
        new_epoch = false;
      }
    } while (iterator.next_epoch());
    gaps.push_back(median(boundary) / median(between));
  }
  std::printf("epochs: the gap is %.2f of the median between batches\n", median(gaps));
}

/// Elements that were delivered each second, over `epochs` epochs behind one that is not measured.
double rate_of(const Dataset& dataset, std::uint64_t epochs, std::uint64_t& errors) {
  Iterator iterator =
      dataset.iterate({.seed = kSeed, .epochs = epochs + 1, .on_error = OnError::skip});
  std::uint64_t elements = 0;
  Clock::time_point start;
  do {
    if (iterator.epoch() == 1) {
      start = Clock::now();
      elements = 0;
    }
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
      elements += static_cast<std::uint64_t>(next.value().valid_rows);
    }
  } while (iterator.next_epoch());
  errors = iterator.stats().errors.count / (epochs + 1);
  return static_cast<double>(elements) / seconds_since(start);
}

void bench_damaged(const std::string& clean, const std::string& damaged, int rounds) {
  const auto open = [](const std::string& folder) {
    return tfrecord({folder + "/*.tfrecord"})
        .shuffle()
        .map_op(parse_example(
            {{.key = "image/encoded", .component = "image"},
             {.key = "image/class/label", .dtype = DType::i64, .component = "label"}}))
        .map_op(decode_image().resize(224, 224).random_flip().normalize().op())
        .batch(64);
  };
  const Dataset with[2] = {open(clean), open(damaged)};
  constexpr std::uint64_t kEpochs = 1;
  std::vector<double> ratios;
  std::uint64_t errors[2] = {};
  for (int round = 0; round < rounds; ++round) {
    double rate[2] = {};
    // The first of a pair is the clean one and the damaged one in turn.
    for (const int side : {round % 2, 1 - round % 2}) {
      rate[side] = rate_of(with[side], kEpochs, errors[side]);
    }
    ratios.push_back(rate[1] / rate[0]);
    std::printf("elements/s: clean %.0f, damaged %.0f; ratio %.3f\n", rate[0], rate[1],
                ratios.back());
  }
  if (errors[0] != 0) throw std::runtime_error("the clean records are not");
  std::printf("damaged: %llu of %lld records bad, throughput %.3f of the clean run's\n",
              static_cast<unsigned long long>(errors[1]),
              static_cast<long long>(tfrecord({damaged + "/*.tfrecord"}).cardinality()),
              median(ratios));
}

}  // namespace

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto rounds = [&](int at, int otherwise) {
    return argc > at ? std::max(1, std::atoi(argv[at])) : otherwise;
  };
  if (what == "images" && argc > 2) {
    if (argc > 5) choose_simd(argv[5]);
    bench_images(argv[2], images(argv[2]), rounds(3, 7),
                 static_cast<std::uint64_t>(std::max(2, rounds(4, 3))));
  } else if (what == "records" && argc > 3) {
    FileOptions options;
    options.files = make_file_system(argc > 6 ? argv[6] : "pread");
    if (argc > 7) choose_simd(argv[7]);
    bench_images(argv[2], image_records({argv[3]}, options), rounds(4, 7),
                 static_cast<std::uint64_t>(std::max(2, rounds(5, 3))));
  } else if (what == "range") {
    bench_range(rounds(2, 5));
  } else if (what == "epochs" && argc > 2) {
    bench_epochs(argv[2], rounds(3, 7));
  } else if (what == "damaged" && argc > 3) {
    bench_damaged(argv[2], argv[3], rounds(4, 5));
  } else {
    std::fprintf(
        stderr,
        "usage: penstock_pipeline_bench images FOLDER [ROUNDS] [EPOCHS] [TARGET] | records FOLDER "
        "RECORDS [ROUNDS] [EPOCHS] [IO] [TARGET] | range [ROUNDS] | epochs FOLDER [ROUNDS] | "
        "damaged CLEAN "
        "DAMAGED "
        "[ROUNDS]\n");
    return 2;
  }
  return 0;
}

}  // namespace penstock::bench
