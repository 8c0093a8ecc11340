// penstock_jpeg_bench FOLDER [ROUNDS [TARGET [entropy|whole]]]: our JPEG decoder beside
// libjpeg-turbo, one thread, the same files in memory, interleaved. TARGET ("AVX2", "SSE4"…) is the
// best SIMD target of ours that may be used. Prints a JSON line for each comparison: medians,
// microseconds a file.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/simd.h>

#include "bench/measure.h"
#include "bench/one_thread.h"
#include "bench/region_loop.h"
#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/lanes.h"
#include "pipeline/jpeg/picture.h"

namespace penstock::bench {
namespace {

/// Files that a worker gets at once.
constexpr std::size_t kHand = 32;
using Work = std::function<void(std::span<const std::vector<std::byte>>)>;

/// Hand by hand in turns, so that both sides see the same machine.
void compare(const char* what, const Files& files, int rounds, const std::string& target,
             std::size_t hand_size, const Work& ours, const Work& theirs) {
  std::vector<double> our_times;
  std::vector<double> their_times;
  std::vector<double> ratios;
  for (int round = -1; round < rounds; ++round) {
    double mine = 0;
    double other = 0;
    for (std::size_t first = 0; first < files.size(); first += hand_size) {
      const std::span hand(files.data() + first, std::min(hand_size, files.size() - first));
      const double start = cpu_seconds();
      ours(hand);
      const double middle = cpu_seconds();
      theirs(hand);
      mine += middle - start;
      other += cpu_seconds() - middle;
    }
    if (round < 0) continue;  // warms up
    const double count = static_cast<double>(files.size());
    our_times.push_back(mine / count * 1e6);
    their_times.push_back(other / count * 1e6);
    ratios.push_back(other / mine);
  }
  std::printf(
      R"({"bench":"jpeg","what":"%s","target":"%s","ours_us":%.1f,"libjpeg_us":%.1f,"ratio":%.3f})"
      "\n",
      what, target.c_str(), median(our_times), median(their_times), median(ratios));
  std::fflush(stdout);
}

/// Wants the whole image and drops it.
class Whole final : public image::PixelSink {
 public:
  image::DecodePlan plan(const image::ImageInfo& info) override {
    return {.region = {0, 0, info.size.height, info.size.width}};
  }
  void rows(const std::uint8_t*, std::size_t, int) override {}
};

/// All symbols of some files, with no block kept: of all files at once, so that lanes never lack
/// one until the end.
class Entropy {
 public:
  Entropy() {
    if (jpeg::Lanes::supported()) lanes_ = std::make_unique<jpeg::Lanes>();
  }

  void operator()(std::span<const std::vector<std::byte>> files) {
    if (lanes_) {
      in_lanes(files);
    } else {
      for (const auto& file : files)
        if (File& one = files_[0]; begin(one, file)) finish(one);
    }
  }

 private:
  struct File {
    jpeg::Header header;
    jpeg::Picture picture;
    bool busy = false;
    bool added = false;
  };

  static bool begin(File& one, const std::vector<std::byte>& file) {
    const jpeg::Header& header = one.header;
    // The last pixel: its row, and so all in front of it, must be decoded.
    Whole sink;
    const bool ready = jpeg::read_header(file, one.header) == jpeg::Foreign::none &&
                       one.picture.begin(header, file, 1) == jpeg::Foreign::none &&
                       one.picture.choose({.region = {header.height - 1, header.width - 1, 1, 1}},
                                          1U << 30, sink) == jpeg::Foreign::none;
    if (ready) one.picture.begin_row();
    return ready;
  }

  /// False behind the last row.
  static bool next_row(File& one) {
    Whole sink;
    if (one.picture.end_row(sink) != jpeg::Picture::Progress::more) return false;
    one.picture.begin_row();
    return true;
  }

  static void finish(File& one) {
    do {
      jpeg::finish_row(one.picture.scan());
    } while (next_row(one));
  }

  void in_lanes(std::span<const std::vector<std::byte>> files) {
    // The longest first, as the decoder does it.
    std::vector<const std::vector<std::byte>*> waiting;
    for (const auto& file : files) waiting.push_back(&file);
    std::ranges::sort(waiting, {}, [](const auto* file) { return file->size(); });
    for (;;) {
      for (File& one : files_) {
        while (!one.busy && !waiting.empty()) {
          one.busy = begin(one, *waiting.back());
          waiting.pop_back();
        }
        if (one.busy && !one.added) lanes_->add(one.picture.scan());
        one.added = one.busy;
      }
      if (lanes_->count() == 0) return;
      jpeg::Scan& scan = lanes_->finish_any();
      File& one = *std::ranges::find_if(
          files_, [&](File& of) { return of.busy && &of.picture.scan() == &scan; });
      if (next_row(one)) continue;
      lanes_->remove(scan);
      one.busy = one.added = false;
    }
  }

  std::unique_ptr<jpeg::Lanes> lanes_;
  std::array<File, jpeg::kLaneCount> files_;
};

int run(const std::string& folder, int rounds, const std::string& target, const std::string& what) {
  if (!target.empty()) choose_simd(target);
  const std::string name = simd();
  const Files files = load_files(folder);
  auto entropy = std::make_unique<Entropy>();
  const auto each = [](const auto& work) {
    return [&work](std::span<const std::vector<std::byte>> hand) {
      for (const auto& file : hand) work(file);
    };
  };
  if (what != "whole")
    compare(
        "entropy", files, rounds, name, files.size(), [&](const auto& hand) { (*entropy)(hand); },
        each(read_coefficients));
  if (what == "entropy") return 0;
  const auto decoder = jpeg::make_decoder();
  RegionLoop loop(224);
  const auto decode_whole = [&](const auto& file) { loop.decode_whole(file); };
  std::array<Whole, kHand> sinks;
  std::vector<image::DecodeJob> jobs;
  compare(
      "whole", files, rounds, name, kHand,
      [&](const auto& hand) {
        jobs.clear();
        for (const auto& file : hand) jobs.push_back({file, &sinks[jobs.size()]});
        decoder->decode(jobs, {});
      },
      each(decode_whole));
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: penstock_jpeg_bench FOLDER [ROUNDS [TARGET [entropy|whole]]]\n");
    return 2;
  }
  return penstock::bench::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 7, argc > 3 ? argv[3] : "",
                              argc > 4 ? argv[4] : "");
}
