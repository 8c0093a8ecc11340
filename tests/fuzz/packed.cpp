// Image records, one and a file of them, and what a device makes of one.
#include <cstring>
#include <memory>

#include <penstock/image.h>

#include "pipeline/image/on_device.h"
#include "pipeline/io/memory.h"
#include "pipeline/jpeg/records/decoder.h"
#include "pipeline/jpeg/records/make.h"
#include "pipeline/sources/image_records.h"
#include "pipeline/sources/image_records_format.h"
#include "staging/reconstruct/twin.h"
#include "tests/fuzz/support.h"
#include "tests/support/context.h"
#include "tests/support/decoding.h"
#include "tests/support/image_records.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_coefficients.h"

namespace penstock::fuzz {
namespace {

using image::DecodePlan;
using image::ImageInfo;

DecodePlan whole(const ImageInfo& info, int denominator) {
  return {denominator,
          {0, 0, (info.size.height + denominator - 1) / denominator,
           (info.size.width + denominator - 1) / denominator}};
}

std::vector<std::vector<std::byte>> records() {
  using test::make_jpeg;
  using test::make_pixels;
  std::vector<std::vector<std::byte>> all;
  for (const auto kind : {jpeg::RecordKind::coefficients, jpeg::RecordKind::indexed}) {
    for (const auto& file : {make_jpeg(make_pixels(33, 85, 3), {.horizontal = 2, .vertical = 2}),
                             make_jpeg(make_pixels(30, 110, 3), {.quality = 99}),
                             make_jpeg(make_pixels(30, 31, 1), {.progressive = true}),
                             make_jpeg(make_pixels(17, 9, 3), {.factors = {1, 1, 2, 2, 1, 2}}),
                             // More than libjpeg's first piece of memory.
                             test::with_segment(make_jpeg(make_pixels(8, 8, 3)), JPEG_APP0 + 1,
                                                std::vector<std::byte>(5000))})
      all.push_back(jpeg::make_record(file, {.kind = kind}).record);
    std::vector<std::byte> with_tail = make_jpeg(make_pixels(8, 8, 3));
    with_tail.resize(with_tail.size() + 40, std::byte{7});
    all.push_back(jpeg::make_record(with_tail, {.kind = kind, .keep_tail = true}).record);
  }
  return all;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void run_image_record(Bytes bytes) {
  static const std::unique_ptr<image::Decoder> decoder = jpeg::make_record_decoder();
  Input input(bytes);
  const bool lies = input.option(0);
  const auto file = std::as_writable_bytes(std::span(input.file));
  if (lies) test::sign_record(file);
  if (!jpeg::is_record(file)) return;
  DecodeOptions options;
  options.channels = input.option(1) ? 1 : 3;
  options.limits = small_limits();
  const int denominator = 1 << (input.options >> 2 & 3);
  // Memory of its own, so that a read beyond it shows.
  const std::vector<std::byte> record(file.begin(), file.end());
  const test::DecodeOutcome all = test::decode(
      *decoder, record, [&](const ImageInfo& info) { return whole(info, denominator); }, options);
  DecodePlan plan;
  const test::DecodeOutcome part = test::decode(
      *decoder, record,
      [&](const ImageInfo& info) {
        plan = whole(info, denominator);
        plan.region.top = plan.region.height / 3;
        plan.region.left = plan.region.width / 3;
        plan.region.height = (plan.region.height + 2) / 3;
        plan.region.width = (plan.region.width + 2) / 3;
        return plan;
      },
      options);
  for (const test::DecodeOutcome* outcome : {&all, &part})
    if (!outcome->status.ok()) require_answer(outcome->status.error());
  // An index that lies under right checksums points elsewhere.
  if (all.status.ok() && !lies) {
    require(part.status.ok(), "a region of a sound record is refused");
    const std::string difference = test::difference(all.pixels, part.pixels, plan.region);
    require(difference.empty(), "a region differs: " + difference);
  }
  try {
    const jpeg::Record read = jpeg::read_record(record);
    static_cast<void>(jpeg::jpeg_of(read, options.limits));
    static_cast<void>(read.read_tail());
  } catch (const Error& error) {
    require_answer(error);
  }
}

std::vector<std::string> image_record_seeds() {
  std::vector<std::string> seeds;
  for (const auto& record : records())
    for (const unsigned options : {0U, 1U, 3U, 5U, 9U, 13U})
      seeds.push_back(with_options(options, text_of(record)));
  return seeds;
}

namespace {

/// What a chain makes of an image.
WorkItem made_by(const ImageOps& ops, std::span<const std::byte> image) {
  WorkItem item;
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  item.element = Element{{"image", Tensor::bytes(text, BufferPtr())}};
  test::HeapContext context;
  ops.op()->run({&item, 1}, context);
  return item;
}

/// The same by the kernels' twin, from what the host hands on, in memory of its own.
std::vector<std::uint8_t> made_from(const WorkItem& handed, image::Size size) {
  static std::vector<std::uint8_t> work(static_cast<std::size_t>(reconstruct::kImageWork));
  const auto plan = std::make_unique<jpeg::DevicePlan>();
  std::memcpy(plan.get(), handed.element["image_plan"].data(), sizeof(*plan));
  const std::string_view text = handed.element["image"].bytes_at();
  const std::vector<std::uint8_t> packed(text.begin(), text.end());
  const std::array<std::uint64_t, 2> offsets{0, packed.size()};
  std::vector<std::uint8_t> out(static_cast<std::size_t>(3 * size.height * size.width));
  reconstruct::Batch batch;
  batch.offsets = offsets.data();
  batch.packed = packed.data();
  batch.plans = plan.get();
  batch.work = work.data();
  batch.out = out.data();
  batch.count = 1;
  batch.height = size.height;
  batch.width = size.width;
  batch.channels = 3;
  batch.bytes = 1;
  reconstruct::run_here(batch);
  return out;
}

}  // namespace

void run_reconstruct(Bytes bytes) {
  Input input(bytes);
  const bool lies = input.option(0);
  const auto file = std::as_writable_bytes(std::span(input.file));
  if (lies) test::sign_record(file);
  if (!jpeg::is_record(file)) return;
  DecodeOptions options;
  options.limits = small_limits();
  const ImageOps image = decode_image("image", options);
  const ImageOps chains[] = {image.resize(9, 7), image.center_crop(20, 21).random_flip(1),
                             image.random_resized_crop(12, {.min_scale = 0.05}).random_flip(),
                             image.resize(3, 40).random_pad_crop(8, 8, 3)};
  const ImageOps& ops = chains[input.options >> 1 & 3];
  const std::vector<std::byte> record(file.begin(), file.end());
  const WorkItem here = made_by(ops, record);
  const WorkItem handed = made_by(ops.on_device(), record);
  for (const WorkItem* item : {&here, &handed})
    if (!item->status.ok()) require_answer(item->status.error());
  if (!handed.status.ok()) {
    // The host looks at values too, which a device takes as they are.
    require(!here.status.ok(), "a sound record is not handed on");
    return;
  }
  const std::vector<std::uint8_t> pixels = made_from(handed, image::size_on_device(ops.chain()));
  if (lies) return;
  require(here.status.ok(), "a damaged record is handed on");
  const Tensor& expected = here.element["image"];
  require(expected.nbytes() == pixels.size() &&
              std::memcmp(expected.data(), pixels.data(), pixels.size()) == 0,
          "the device's pixels are others");
}

std::vector<std::string> reconstruct_seeds() {
  std::vector<std::string> seeds;
  for (const auto& record : records())
    for (unsigned options = 0; options < 8; ++options)
      seeds.push_back(with_options(options, text_of(record)));
  return seeds;
}

void run_image_records(Bytes bytes) {
  Input input(bytes);
  if (input.option(0)) test::sign_records(input.file);
  FileOptions options;
  options.limits = small_limits();
  read_all(input.file, [&](FileSystemPtr files) {
    options.files = std::move(files);
    return make_image_records_source({"file"}, options);
  });
}

std::vector<std::string> image_records_seeds() {
  using namespace records_file;
  std::string file = text_of(make_header(ImageRecordKind::coefficients));
  Contents contents;
  contents.class_names = {"cat", "dog"};
  std::uint64_t number = 0;
  for (const auto& record : records()) {
    const std::string key = "cat/" + std::to_string(number);
    Frame frame;
    frame.key_bytes = key.size();
    frame.image_bytes = record.size();
    frame.number = number;
    frame.as_it_is = number++ % 3 == 2;
    contents.entries.push_back({file.size(), frame.size()});
    contents.as_they_are += frame.as_it_is ? 1 : 0;
    file += text_of(make_frame(frame, key)) + text_of(record);
  }
  file += text_of(make_index(contents, file.size()));
  test::sign_records(file);
  return {with_options(0, file), with_options(1, file)};
}

}  // namespace penstock::fuzz
