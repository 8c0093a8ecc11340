// jpeg_digests FOLDER COUNT own|library: a line for each of the first COUNT files, whole and some
// regions of it, at each scale, with a digest of the pixels, so that machines can be compared.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <hwy/highway.h>

#include <penstock/internal/crc32c.h>

#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/turbo/turbo.h"
#include "tests/support/decoding.h"

namespace penstock {

// By definition, bit by bit: here for machines without ISA-L. Nothing checks a record here.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc) noexcept {
  crc = ~crc;
  for (const std::byte byte : data) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

}  // namespace penstock

namespace penstock::jpeg {
namespace {

using image::DecodePlan;
using image::Rect;

/// FNV-1a.
std::uint64_t digest_of(const std::vector<std::uint8_t>& values) {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const std::uint8_t value : values) digest = (digest ^ value) * 0x100000001b3;
  return digest;
}

/// Part 0 is the whole image, others are regions.
DecodePlan plan_of(const image::ImageInfo& info, int denominator, int part, Rng rng) {
  const int height = (info.size.height + denominator - 1) / denominator;
  const int width = (info.size.width + denominator - 1) / denominator;
  if (part == 0) return {denominator, {0, 0, height, width}};
  const auto below = [&](int limit) {
    return static_cast<int>(rng.below(static_cast<std::uint64_t>(limit)));
  };
  const int top = below(height);
  const int left = below(width);
  return {denominator, {top, left, 1 + below(height - top), 1 + below(width - left)}};
}

int run(const std::string& folder, std::size_t most, bool own) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  paths.resize(std::min(paths.size(), most));
  const auto decoder = own ? make_decoder() : image::make_jpeg_decoder();
  std::uint64_t number = 0;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto bytes = std::as_bytes(std::span(text));
    ++number;
    for (const int denominator : {1, 2, 4, 8}) {
      for (int part = 0; part < 3; ++part) {
        const auto plan = [&](const image::ImageInfo& info) {
          return plan_of(info, denominator, part, Rng(number, static_cast<std::uint64_t>(part), 0));
        };
        const test::DecodeOutcome outcome = test::decode(*decoder, bytes, plan);
        std::printf("%s 1/%d %d %s %dx%d %016llx\n", path.filename().c_str(), denominator, part,
                    outcome.status.ok() ? "good" : outcome.status.error().what(),
                    outcome.pixels.height, outcome.pixels.width,
                    static_cast<unsigned long long>(digest_of(outcome.pixels.values)));
      }
    }
  }
  std::fprintf(stderr, "%zu files, %llu of %zu decodes by the own back end, %s\n", paths.size(),
               static_cast<unsigned long long>(counts().own), 12 * paths.size(),
               hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets()));
  const bool enough = counts().own * 100 >= 12 * paths.size() * 99;
  return !paths.empty() && (enough || !own) ? 0 : 1;
}

}  // namespace
}  // namespace penstock::jpeg

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: jpeg_digests FOLDER COUNT own|library\n");
    return 2;
  }
  return penstock::jpeg::run(argv[1], std::strtoul(argv[2], nullptr, 10),
                             std::string(argv[3]) == "own");
}
