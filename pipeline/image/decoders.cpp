#include "pipeline/image/decoders.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <new>
#include <string>

#include <penstock/internal/other_format.h>
#include <penstock/log.h>

#include "pipeline/image/png.h"
#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/records/decoder.h"

namespace penstock::image {

namespace {

template <std::size_t N>
bool starts_with(std::span<const std::byte> bytes, const std::array<std::uint8_t, N>& magic) {
  return bytes.size() >= N &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](std::uint8_t a, std::byte b) { return std::byte{a} == b; });
}

struct Counters {
  std::atomic<std::uint64_t> jpeg{0};
  std::atomic<std::uint64_t> png{0};
  std::atomic<std::uint64_t> warned{0};
  std::array<std::atomic<std::uint64_t>, 4> scales{};
  std::atomic<std::uint64_t> rows{0};
  std::atomic<std::uint64_t> rows_spared{0};
  std::atomic<std::uint64_t> timed_ns{0};
  std::atomic<std::uint64_t> timed_pixels_ns{0};
};

Counters& counters() noexcept {
  static Counters counters;
  return counters;
}

Status unknown_format(const DecodeJob& job) noexcept {
  try {
    if (job.bytes.empty()) return {ErrorCode::data_loss, "an empty image"};
    const OtherFormat* const other = find_other_format(
        job.bytes.first(std::min(job.bytes.size(), kOtherFormatHead)), job.bytes.size());
    return {ErrorCode::data_loss, std::string("neither a JPEG nor a PNG") +
                                      (other != nullptr ? ", but " + other->text() : "")};
  } catch (...) {
    return status_from_current_exception();
  }
}

/// A sink that takes the whole image and drops it.
class Verifier final : public PixelSink {
 public:
  explicit Verifier(CodecBudget* budget) : taken_(budget) {}
  DecodePlan plan(const ImageInfo& info) override {
    return {.region = {0, 0, info.size.height, info.size.width}};
  }
  void rows(const std::uint8_t*, std::size_t, int) override {}
  void make_room(std::uint64_t bytes) override { taken_.take(bytes); }

 private:
  TakenBytes taken_;
};

}  // namespace

Format detect_format(std::span<const std::byte> bytes) noexcept {
  constexpr std::array<std::uint8_t, 3> kJpeg = {0xff, 0xd8, 0xff};
  constexpr std::array<std::uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (starts_with(bytes, kJpeg)) return Format::jpeg;
  if (starts_with(bytes, kPng)) return Format::png;
  if (jpeg::is_record(bytes)) return Format::record;
  return Format::unknown;
}

Decoders::Decoders()
    : jpeg_(jpeg::make_chosen_decoder()),
      png_(make_png_decoder()),
      record_(jpeg::make_record_decoder()) {}

Decoder& Decoders::decoder_of(Format format) noexcept {
  switch (format) {
    case Format::png:
      return *png_;
    case Format::record:
      return *record_;
    default:
      return *jpeg_;
  }
}

void Decoders::decode(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept {
  const auto format_at = [&](std::size_t i) { return detect_format(jobs[i].bytes); };
  for (std::size_t first = 0; first < jobs.size();) {
    const Format format = format_at(first);
    std::size_t last = first + 1;
    while (last < jobs.size() && format_at(last) == format) ++last;
    const std::span<DecodeJob> run = jobs.subspan(first, last - first);
    if (format == Format::unknown) {
      for (DecodeJob& job : run) job.status = unknown_format(job);
    } else {
      decoder_of(format).decode(run, options);
      count(format, run);
    }
    first = last;
  }
}

void Decoders::count(Format format, std::span<const DecodeJob> jobs) noexcept {
  Counters& all = counters();
  std::atomic<std::uint64_t>& images = format == Format::png ? all.png : all.jpeg;
  images.fetch_add(jobs.size(), std::memory_order_relaxed);
  if (format != Format::png) count_work(jobs);
  for (const DecodeJob& job : jobs) {
    if (job.warning.empty() || !job.status.ok()) continue;
    all.warned.fetch_add(1, std::memory_order_relaxed);
    log_warning(format, job.warning);
  }
}

void Decoders::log_warning(Format format, const std::string& warning) noexcept {
  // All images of a data set may have a warning: only the first ones take the log's lock.
  static std::array<std::atomic<bool>, 4> logged{};
  std::atomic<bool>& done = logged[static_cast<std::size_t>(format)];
  if (done.load(std::memory_order_relaxed)) return;
  try {
    const std::string name = format == Format::png ? "PNG" : "JPEG";
    const std::string text =
        "a " + name + " is decoded in spite of a warning: " + warning +
        "; such images are counted, and --strict-images (strict_images) refuses them";
    if (log_once(LogLevel::warning, "warned " + name, text))
      done.store(true, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {  // the count has it
  }
}

void Decoders::count_work(std::span<const DecodeJob> jobs) noexcept {
  Counters& all = counters();
  for (const DecodeJob& job : jobs) {
    if (job.denominator == 0) continue;
    const auto scale = static_cast<std::size_t>(std::countr_zero(unsigned(job.denominator)));
    all.scales[scale].fetch_add(1, std::memory_order_relaxed);
    all.rows.fetch_add(static_cast<std::uint64_t>(job.rows), std::memory_order_relaxed);
    all.rows_spared.fetch_add(static_cast<std::uint64_t>(job.rows_spared),
                              std::memory_order_relaxed);
  }
}

JpegWork jpeg_work() noexcept {
  const Counters& all = counters();
  JpegWork work;
  for (std::size_t i = 0; i < work.images.size(); ++i)
    work.images[i] = all.scales[i].load(std::memory_order_relaxed);
  work.rows = all.rows.load(std::memory_order_relaxed);
  work.rows_spared = all.rows_spared.load(std::memory_order_relaxed);
  work.timed_ns = all.timed_ns.load(std::memory_order_relaxed);
  work.timed_pixels_ns = all.timed_pixels_ns.load(std::memory_order_relaxed);
  return work;
}

void count_timed(std::uint64_t all_ns, std::uint64_t pixels_ns) noexcept {
  Counters& all = counters();
  all.timed_ns.fetch_add(all_ns, std::memory_order_relaxed);
  all.timed_pixels_ns.fetch_add(pixels_ns, std::memory_order_relaxed);
}

DecoderStats decoder_stats() noexcept {
  const Counters& all = counters();
  return {all.jpeg.load(std::memory_order_relaxed), all.png.load(std::memory_order_relaxed),
          all.warned.load(std::memory_order_relaxed)};
}

Status verify_image(std::span<const std::byte> bytes, const DecodeOptions& options,
                    CodecBudget* budget) {
  thread_local Decoders decoders;
  Verifier verifier(budget);
  std::array<DecodeJob, 1> job = {DecodeJob{bytes, &verifier}};
  decoders.decode(job, options);
  return job[0].status;
}

}  // namespace penstock::image
