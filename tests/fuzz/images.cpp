// JPEG and PNG: crashes, and whether a region is what a full decode has there.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include <penstock/simd.h>

#include "pipeline/image/png.h"
#include "pipeline/jpeg/records/layout.h"
#include "pipeline/jpeg/turbo/turbo.h"
#include "tests/fuzz/support.h"
#include "tests/support/decoding.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_damage.h"
#include "tests/support/jpeg_pair.h"
#include "tests/support/malformed.h"

namespace penstock::fuzz {
namespace {

using image::DecodePlan;
using image::ImageInfo;
using image::Rect;
using image::Size;
using test::DecodeOutcome;

constexpr int kOptions = 4;  // bytes in front of the file

/// Options of a decode, and of the region that is decoded too.
struct Choice {
  explicit Choice(const Input& input) {
    const auto at = [&](std::size_t i) {
      return i < input.file.size() ? static_cast<unsigned char>(input.file[i]) : 0;
    };
    options.strict = !input.option(0);
    options.strict_images = options.strict && input.option(5);
    options.channels = input.option(1) ? 1 : 3;
    options.orient = input.option(2);
    options.limits = small_limits();
    denominator = 1 << (input.options >> 3 & 3);
    for (std::size_t i = 0; i < 4; ++i) share[i] = at(i);
    file = input.file.size() > kOptions ? input.file.substr(kOptions) : std::string();
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(file)); }
  Size size_of(const ImageInfo& info) const {
    const int by = info.scalable ? denominator : 1;
    return {(info.size.height + by - 1) / by, (info.size.width + by - 1) / by};
  }
  Rect region_of(const ImageInfo& info) const {
    const Size size = size_of(info);
    Rect region;
    region.top = size.height * share[0] / 256;
    region.left = size.width * share[1] / 256;
    region.height = 1 + (size.height - region.top - 1) * share[2] / 255;
    region.width = 1 + (size.width - region.left - 1) * share[3] / 255;
    return region;
  }

  DecodeOptions options;
  int denominator = 1;
  int share[4] = {};
  std::string file;
};

void require_image(const DecodeOutcome& outcome, Size size) {
  if (!outcome.status.ok()) return require_answer(outcome.status.error());
  require(outcome.pixels.height == size.height && outcome.pixels.width == size.width,
          "an image of another size");
}

/// Decodes all and a region, and compares.
DecodeOutcome decode_both(image::Decoder& decoder, const Choice& choice) {
  Rect region;
  const auto whole_plan = [&](const ImageInfo& info) {
    const Size size = choice.size_of(info);
    return DecodePlan{info.scalable ? choice.denominator : 1, {0, 0, size.height, size.width}};
  };
  const auto part_plan = [&](const ImageInfo& info) {
    region = choice.region_of(info);
    return DecodePlan{info.scalable ? choice.denominator : 1, region};
  };
  DecodeOutcome whole = test::decode(decoder, choice.bytes(), whole_plan, choice.options);
  require_image(whole, choice.size_of(whole.info));
  const DecodeOutcome part = test::decode(decoder, choice.bytes(), part_plan, choice.options);
  require_image(part, {region.height, region.width});
  if (choice.options.strict && whole.status.ok()) {
    require(part.status.ok(), "a region of a sound image is refused");
    const std::string difference = test::difference(whole.pixels, part.pixels, region);
    require(difference.empty(), "a region differs: " + difference);
  }
  return whole;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string with_repaired_chunks(const std::string& file) {
  const Bytes bytes = std::as_bytes(std::span(file));
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  test::malformed::repair_chunks(repaired);
  return text_of(repaired);
}

std::string with_choice(unsigned options, const std::vector<std::byte>& bytes) {
  return with_options(options, "\x40\x50\x60\x70" + text_of(bytes));
}

}  // namespace

void run_jpeg(Bytes bytes) {
  static const std::unique_ptr<image::Decoder> decoder = image::make_jpeg_decoder();
  const Choice choice{Input(bytes)};
  const DecodeOutcome whole = decode_both(*decoder, choice);
  const bool judged = whole.status.ok() || whole.status.error().code() == ErrorCode::data_loss;
  if (choice.denominator != 1 || !judged || whole.info.size.width == 0) return;
  // What the library itself says, where it was asked the same.
  std::vector<unsigned char> row(std::size_t{4} * static_cast<std::size_t>(whole.info.size.width) +
                                 64);
  const test::Verdict verdict = test::plain_verdict(choice.bytes(), row.data());
  const test::Verdict worst = !choice.options.strict         ? test::Verdict::warned
                              : choice.options.strict_images ? test::Verdict::good
                                                             : test::Verdict::harmless;
  require(whole.status.ok() == (verdict <= worst), "a verdict that is not libjpeg-turbo's");
}

void run_own_jpeg(Bytes bytes) {
  static const bool chosen = [] {
    const char* name = std::getenv("PENSTOCK_SIMD");
    if (name != nullptr) choose_simd(name);
    return name != nullptr;
  }();
  static_cast<void>(chosen);
  static test::JpegPair pair;
  const Choice choice{Input(bytes)};
  if (jpeg::is_record(choice.bytes())) return;  // not for libjpeg-turbo; `image_record` is
  const auto compare = [&](const test::Keeper::Plan& plan) {
    const std::string difference = pair.difference(choice.bytes(), plan, false, choice.options);
    require(difference.empty(), "not what libjpeg-turbo says: " + difference);
  };
  compare([&](const ImageInfo& info) {
    const Size size = choice.size_of(info);
    return DecodePlan{choice.denominator, {0, 0, size.height, size.width}};
  });
  compare([&](const ImageInfo& info) {
    return DecodePlan{choice.denominator, choice.region_of(info)};
  });
}

std::vector<std::string> jpeg_seeds() {
  using test::make_jpeg;
  using test::make_pixels;
  std::vector<std::string> seeds{with_options(0, "")};
  const std::vector<std::byte> files[] = {
      make_jpeg(make_pixels(33, 45, 3), {.horizontal = 2, .vertical = 2}),
      make_jpeg(make_pixels(30, 40, 3), {.restart_interval = 2}),
      make_jpeg(make_pixels(33, 45, 3), {.horizontal = 2, .progressive = true}),
      make_jpeg(make_pixels(30, 31, 1)),
      make_jpeg(make_pixels(20, 25, 4)),
      make_jpeg(make_pixels(20, 25, 4), {.ycck = true}),
      make_jpeg(make_pixels(24, 24, 3), {.arithmetic = true}),
      make_jpeg(make_pixels(24, 24, 3), {.progressive = true, .arithmetic = true}),
      make_jpeg(make_pixels(17, 9, 3), {.factors = {1, 1, 2, 2, 1, 2}}),
      test::make_many_scans(4, 2),
  };
  for (const auto& file : files) {
    for (const unsigned options : {0U, 2U, 4U, 8U, 24U})
      seeds.push_back(with_choice(options, file));
  }
  return seeds;
}

void run_png(Bytes bytes) {
  static const std::unique_ptr<image::Decoder> decoder = image::make_png_decoder();
  const Input input(bytes);
  Choice choice(input);
  if (input.option(3)) choice.file = with_repaired_chunks(choice.file);
  decode_both(*decoder, choice);
}

std::vector<std::string> png_seeds() {
  std::vector<std::string> seeds{with_options(0, "")};
  const std::vector<std::uint8_t> rows(9 * 9 * 8, 0x5a);
  constexpr int kSide = 9;
  const struct {
    int color_type, depth, bits;
  } kinds[] = {{PNG_COLOR_TYPE_GRAY, 1, 1},        {PNG_COLOR_TYPE_GRAY, 16, 16},
               {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 16}, {PNG_COLOR_TYPE_RGB, 8, 24},
               {PNG_COLOR_TYPE_RGB_ALPHA, 16, 64}, {PNG_COLOR_TYPE_PALETTE, 4, 4}};
  for (const auto& kind : kinds) {
    for (const bool interlaced : {false, true}) {
      const auto stride = static_cast<std::size_t>((kSide * kind.bits + 7) / 8);
      const auto file = test::make_png(kSide, kSide, std::span(rows).first(kSide * stride),
                                       {.color_type = kind.color_type,
                                        .depth = kind.depth,
                                        .interlaced = interlaced,
                                        .transparent = kind.color_type == PNG_COLOR_TYPE_PALETTE,
                                        .exif = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 0}});
      for (const unsigned options : {8U, 10U, 12U}) seeds.push_back(with_choice(options, file));
    }
  }
  return seeds;
}

}  // namespace penstock::fuzz
