// JPEGs whose scans are decoded as on a device, and their coefficients.
#pragma once

#include "tests/kernels/cases.h"  // first

#include <memory>
#include <optional>
#include <vector>

#include "pipeline/image/device/jpeg_plan.h"
#include "staging/reconstruct/image.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_coefficients.h"

namespace penstock::test {

/// A JPEG with its plan and its memory, each with canaries behind its last byte.
class ScannedJpeg {
 public:
  /// Returns nothing if the plan leaves the file to the host.
  static std::optional<jpeg::PackedImage> plan(std::span<const std::byte> file,
                                               int chunk_bits = jpeg::kChunkBits,
                                               std::optional<image::Geometry> geometry = {}) {
    jpeg::Header header;
    if (jpeg::read_header(file, header) != jpeg::Foreign::none) return std::nullopt;
    if (!geometry) geometry.emplace(image::Size{header.height, header.width});
    return jpeg::plan_jpeg(header, file, *geometry, 3, chunk_bits);
  }

  explicit ScannedJpeg(const jpeg::PackedImage& image)
      : plan_(std::make_unique<jpeg::DevicePlan>(image.plan)),
        layout_(jpeg::layout_of(image.plan, image.plan.top + image.plan.window.height,
                                image.plan.left + image.plan.window.width)),
        bytes_(image.bytes.size()),
        work_(static_cast<std::size_t>(layout_.bytes)),
        scratch_(std::make_unique<reconstruct::EntropyScratch>()) {
    std::memcpy(bytes_.data(), image.bytes.data(), image.bytes.size());
  }

  reconstruct::ScanWork work() const {
    return reconstruct::scan_work_of(plan_.get(), &layout_, work_.data());
  }
  reconstruct::Bytes packed() const {
    return {bytes_.data(), static_cast<std::uint32_t>(bytes_.size())};
  }
  reconstruct::EntropyScratch& scratch() const { return *scratch_; }
  const jpeg::DeviceLayout& layout() const { return layout_; }

  bool decode() const {
    return reconstruct::decode_scan(reconstruct::Alone(), work(), packed(), *scratch_);
  }

  /// The steps of `decode` one by one. Returns the number of rounds after the first; -1 if one of
  /// them fails. `fault(chunks, count)` is called before the blocks are placed.
  template <typename Fault>
  int decode_in_steps(int most_rounds, const Fault& fault) const {
    using namespace reconstruct;
    const Alone team;
    const ScanWork scan = work();
    GroupSums& sums = scratch_->sums;
    if (!prepare_codes(team, *scan.plan, scratch_->codes)) return -1;
    prepare_planes(team, scan, *scratch_);
    if (!unstuff(team, packed(), scan.bytes, scan.segments, layout_.scan.segments, sums)) return -1;
    const std::uint32_t count = divide_scan(team, scan, sums);
    if (count == 0) return -1;
    decode_assumed(team, scan, scratch_->codes, count);
    int rounds = 0;
    for (; rounds < most_rounds && pass_states_on(team, scan, count); ++rounds)
      for (std::uint32_t i = 0; i < count; ++i)
        if (scan.chunks[i].outdated != 0) decode_from_begin(scan, scratch_->codes, i);
    fault(scan.chunks, count);
    place_chunks(team, scan, count, sums);
    for (std::uint32_t i = 0; i < count; ++i)
      if (!is_sound(scan, i, count, sums)) return -1;
    clear_coefficients(team, scan);
    for (std::uint32_t i = 0; i < count; ++i) write_chunk(scan, *scratch_, i, count);
    return rounds;
  }

  /// Returns the coefficients as `coefficients_of` does. REQUIRES: a plan of the whole image.
  std::vector<std::int16_t> coefficients() const {
    std::vector<std::int16_t> all;
    for (int c = 0; c < plan_->components; ++c) {
      const jpeg::DeviceStrip& strip = layout_.strips[c];
      const auto* const values =
          reinterpret_cast<const std::int16_t*>(work_.data() + strip.coefficients);
      all.insert(all.end(), values,
                 values + std::ptrdiff_t{jpeg::kBlockSize} * (strip.last_row - strip.first_row) *
                              (strip.last_block - strip.first_block));
    }
    return all;
  }

 private:
  std::unique_ptr<jpeg::DevicePlan> plan_;
  jpeg::DeviceLayout layout_;
  emulation::Fenced bytes_;
  emulation::Fenced work_;
  std::unique_ptr<reconstruct::EntropyScratch> scratch_;
};

struct ScanCase {
  std::string name;
  std::vector<std::byte> file;
};

/// 96 JPEGs of all common kinds.
inline std::vector<ScanCase> scan_cases() {
  struct Sampling {
    const char* name;
    int channels;
    int horizontal;
    int vertical;
  };
  constexpr Sampling kSamplings[] = {{"gray", 1, 1, 1},  {"4:4:4", 3, 1, 1}, {"4:2:2", 3, 2, 1},
                                     {"4:2:0", 3, 2, 2}, {"4:4:0", 3, 1, 2}, {"4:1:1", 3, 4, 1}};
  constexpr image::Size kSizes[] = {{1, 1},   {8, 8},    {9, 17},    {33, 7},
                                    {40, 64}, {101, 77}, {123, 177}, {375, 500}};
  constexpr int kQualities[] = {1, 10, 35, 60, 75, 90, 97, 100};
  std::vector<ScanCase> cases;
  int number = 0;
  for (const Sampling& s : kSamplings) {
    for (const image::Size& size : kSizes) {
      for (const bool optimised : {false, true}) {
        const int row = (size.width + 8 * s.horizontal - 1) / (8 * s.horizontal);
        const int intervals[] = {0, 1, 7, row};
        const int interval = intervals[number / 3 % 4];
        const int quality = kQualities[number++ % 8];
        // The largest have to fit the working memory.
        const bool large = size.width == 500;
        const JpegOptions options{.quality = large ? std::min(quality, 90) : quality,
                                  .horizontal = s.horizontal,
                                  .vertical = s.vertical,
                                  .restart_interval = interval,
                                  .optimised = optimised};
        cases.push_back({std::string(s.name) + " " + std::to_string(size.width) + "x" +
                             std::to_string(size.height) + " q" + std::to_string(options.quality) +
                             " restart " + std::to_string(interval) +
                             (optimised ? " optimised" : ""),
                         make_jpeg(make_pixels(size.height, size.width, s.channels,
                                               static_cast<std::uint64_t>(number)),
                                   options)});
      }
    }
  }
  return cases;
}

}  // namespace penstock::test
