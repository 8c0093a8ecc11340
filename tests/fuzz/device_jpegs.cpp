// JPEGs whose scans are decoded as on a device, by the kernels' twin.
#include <array>
#include <memory>
#include <vector>

#include "pipeline/image/device/jpeg_plan.h"
#include "pipeline/jpeg/decoder.h"
#include "staging/reconstruct/twin.h"
#include "tests/fuzz/support.h"
#include "tests/support/decoding.h"
#include "tests/support/images.h"

namespace penstock::fuzz {
namespace {

/// Returns whether the twin decodes the image, to `out`. The plan and the packed bytes are in
/// memory of their own, so that a read beyond it shows.
bool decode_as_device(const jpeg::PackedImage& image, int height, int width, int channels,
                      std::vector<std::uint8_t>& out) {
  static std::vector<std::uint8_t> work(static_cast<std::size_t>(reconstruct::kImageWork));
  const auto plan = std::make_unique<jpeg::DevicePlan>(image.plan);
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(image.bytes.data());
  const std::vector<std::uint8_t> packed(begin, begin + image.bytes.size());
  const std::array<std::uint64_t, 2> offsets{0, packed.size()};
  std::int32_t fit = -1;
  out.assign(static_cast<std::size_t>(height * width * channels), 0);
  reconstruct::Batch batch;
  batch.offsets = offsets.data();
  batch.packed = packed.data();
  batch.plans = plan.get();
  batch.work = work.data();
  batch.out = out.data();
  batch.jpegs = 1;
  batch.fits = &fit;
  batch.count = 1;
  batch.height = height;
  batch.width = width;
  batch.channels = channels;
  batch.bytes = 1;
  reconstruct::run_here(batch);
  return fit == static_cast<std::int32_t>(jpeg::PlanFit::fits);
}

}  // namespace

void run_device_jpeg(Bytes bytes) {
  static const std::unique_ptr<image::Decoder> decoder = jpeg::make_decoder();
  constexpr std::array kChunks = {jpeg::kLeastChunkBits, 100, 512, jpeg::kChunkBits};
  const Input input(bytes);
  const auto all = std::as_bytes(std::span(input.file));
  const std::vector<std::byte> file(all.begin(), all.end());
  jpeg::Header header;
  if (jpeg::read_header(file, header) != jpeg::Foreign::none) return;
  DecodeOptions options;
  options.limits = small_limits();
  options.orient = false;
  if (static_cast<std::uint64_t>(header.height) * static_cast<std::uint64_t>(header.width) >
      options.limits.max_pixels)
    return;
  image::Geometry geometry({header.height, header.width});
  image::Rect part{0, 0, header.height, header.width};
  if (input.option(2)) {
    part = {header.height / 3, header.width / 3, (header.height + 2) / 3, (header.width + 2) / 3};
    geometry.crop(part);
  }
  const auto plan = jpeg::plan_jpeg(header, file, geometry, 3, kChunks[input.options & 3]);
  if (!plan) return;
  const int channels = header.color == jpeg::ColorModel::gray ? 1 : 3;
  std::vector<std::uint8_t> pixels;
  if (!decode_as_device(*plan, part.height, part.width, channels, pixels)) return;
  const std::uint64_t before = jpeg::counts().own;
  const test::DecodeOutcome host = test::decode(
      *decoder, file,
      [&](const image::ImageInfo&) {
        return image::DecodePlan{1, part};
      },
      options);
  require(host.status.ok() && jpeg::counts().own > before,
          "a device decodes a scan that the host leaves to libjpeg-turbo");
  require(host.pixels.values == pixels, "a device decodes other pixels");
}

std::vector<std::string> device_jpeg_seeds() {
  using test::make_jpeg;
  using test::make_pixels;
  std::vector<std::string> seeds;
  for (const auto& file :
       {make_jpeg(make_pixels(33, 45, 3), {.horizontal = 2, .vertical = 2}),
        make_jpeg(make_pixels(30, 40, 3), {.quality = 50, .restart_interval = 2}),
        make_jpeg(make_pixels(30, 31, 1), {.optimised = true}),
        make_jpeg(make_pixels(24, 9, 3), {.quality = 99, .horizontal = 2, .restart_interval = 1})})
    for (unsigned choice = 0; choice < 8; ++choice)
      seeds.push_back(
          with_options(choice, {reinterpret_cast<const char*>(file.data()), file.size()}));
  return seeds;
}

}  // namespace penstock::fuzz
