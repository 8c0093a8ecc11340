// penstock_jpeg_bench FOLDER [ROUNDS [TARGET]]: our JPEG decoder beside libjpeg-turbo, one thread,
// the same files in memory, interleaved. TARGET ("AVX2", "SSE4"…) is the best SIMD target of ours
// that may be used. Prints a JSON line for each comparison: medians, microseconds a file.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// After <cstdio>, which it needs.
#include <jpeglib.h>

#include "bench/one_thread.h"
#include "bench/region_loop.h"
#include "pipeline/work/jpeg/decoder.h"
#include "pipeline/work/jpeg/picture.h"
#include "tests/support/simd.h"

namespace penstock::bench {
namespace {

using Work = std::function<void(const std::vector<std::byte>&)>;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// File by file in turns, so that both sides see the same machine.
void compare(const char* what, const Files& files, int rounds, const std::string& target,
             const Work& ours, const Work& theirs) {
  std::vector<double> our_times;
  std::vector<double> their_times;
  std::vector<double> ratios;
  for (int round = -1; round < rounds; ++round) {
    double mine = 0;
    double other = 0;
    for (const auto& file : files) {
      const double start = cpu_seconds();
      ours(file);
      const double middle = cpu_seconds();
      theirs(file);
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

/// All symbols of a file, with no block kept.
class Entropy {
 public:
  void operator()(const std::vector<std::byte>& file) {
    if (jpeg::read_header(file, header_) != jpeg::Foreign::none) return;
    if (picture_.begin(header_, file, 1) != jpeg::Foreign::none) return;
    // The last pixel: its row, and so all in front of it, must be decoded.
    if (picture_.choose({.region = {header_.height - 1, header_.width - 1, 1, 1}}, 1U << 30) !=
        jpeg::Foreign::none)
      return;
    Whole sink;
    do {
      picture_.begin_row();
      jpeg::finish_row(picture_.scan());
    } while (picture_.end_row(sink) == jpeg::Picture::Progress::more);
  }

 private:
  jpeg::Header header_;
  jpeg::Picture picture_;
};

void read_coefficients(const std::vector<std::byte>& file) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  jpeg_read_coefficients(&info);
  jpeg_destroy_decompress(&info);
}

int run(const std::string& folder, int rounds, const std::string& target) {
  if (!target.empty()) test::use_target(target);
  const std::string name = hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets());
  const Files files = load_files(folder);
  auto entropy = std::make_unique<Entropy>();
  compare(
      "entropy", files, rounds, name, [&](const auto& file) { (*entropy)(file); },
      read_coefficients);
  const auto decoder = jpeg::make_decoder();
  RegionLoop loop(224);
  compare(
      "whole", files, rounds, name,
      [&](const auto& file) {
        Whole sink;
        std::array<image::DecodeJob, 1> job = {image::DecodeJob{file, &sink}};
        decoder->decode(job, {});
      },
      [&](const auto& file) { loop.decode_whole(file); });
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: penstock_jpeg_bench FOLDER [ROUNDS [TARGET]]\n");
    return 2;
  }
  return penstock::bench::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 7, argc > 3 ? argv[3] : "");
}
