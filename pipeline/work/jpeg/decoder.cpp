#include "pipeline/work/jpeg/decoder.h"

#include <atomic>

#include "pipeline/work/image/exif.h"
#include "pipeline/work/image/jpeg.h"
#include "pipeline/work/jpeg/picture.h"

namespace penstock::jpeg {

namespace {

using image::DecodeJob;
using image::DecodePlan;
using image::ImageInfo;
using image::PixelSink;

struct Counters {
  std::atomic<std::uint64_t> own{0};
  std::array<std::atomic<std::uint64_t>, kForeignCount> foreign{};
};

Counters& counters() noexcept {
  static Counters counters;
  return counters;
}

std::atomic<Backend>& chosen() noexcept {
  static std::atomic<Backend> chosen{Backend::automatic};
  return chosen;
}

bool own_chosen() noexcept {
  const Backend backend = chosen().load(std::memory_order_relaxed);
  return backend == Backend::own || (backend == Backend::automatic && has_vectors());
}

/// Stands between a sink that has its plan, and perhaps rows, and a decoder that starts anew.
class Resumed final : public PixelSink {
 public:
  Resumed(PixelSink& sink, const DecodePlan& plan, int given)
      : sink_(sink), plan_(plan), given_(given) {}

  DecodePlan plan(const ImageInfo&) override { return plan_; }
  void rows(const std::uint8_t* pixels, std::size_t stride, int count) override {
    const int passed = std::min(given_, count);
    given_ -= passed;
    if (passed < count)
      sink_.rows(pixels + static_cast<std::size_t>(passed) * stride, stride, count - passed);
  }

 private:
  PixelSink& sink_;
  DecodePlan plan_;
  int given_;
};

class OwnDecoder final : public image::Decoder {
 public:
  OwnDecoder() : library_(image::make_jpeg_decoder()) {}

  void decode(std::span<DecodeJob> jobs, const DecodeOptions& options) override {
    for (DecodeJob& job : jobs) {
      try {
        decode_one(job, options);
      } catch (...) {
        job.status = status_from_current_exception();
      }
    }
  }

 private:
  void decode_one(DecodeJob& job, const DecodeOptions& options) {
    Foreign foreign = read_header(job.bytes, header_);
    const int channels = header_.color == ColorModel::gray ? 1 : options.channels;
    if (foreign == Foreign::none) foreign = picture_.begin(header_, job.bytes, channels);
    if (foreign != Foreign::none) return leave(job, options, foreign);

    image::check_pixels(static_cast<std::uint64_t>(header_.width),
                        static_cast<std::uint64_t>(header_.height), options.limits);
    ImageInfo info;
    info.size = {header_.height, header_.width};
    info.channels = channels;
    if (options.orient) info.orientation = image::jpeg_orientation(job.bytes);
    PixelSink& sink = *job.sink;
    const DecodePlan plan = sink.plan(info);
    job.status = Status();
    if (plan.region.empty()) return;
    foreign = picture_.choose(plan, options.limits.max_codec_bytes);
    if (foreign == Foreign::none) {
      while (!picture_.done() && picture_.advance(sink)) {
      }
      if (!picture_.done()) foreign = Foreign::data;
    }
    if (foreign != Foreign::none) {
      Resumed resumed(sink, plan, picture_.given());
      job.sink = &resumed;
      leave(job, options, foreign);
      job.sink = &sink;
      return;
    }
    job.denominator = plan.denominator;
    job.rows = plan.region.height;
    job.rows_spared = picture_.shrunk().height - plan.region.height;
    counters().own.fetch_add(1, std::memory_order_relaxed);
  }

  void leave(DecodeJob& job, const DecodeOptions& options, Foreign reason) {
    counters().foreign[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    library_->decode({&job, 1}, options);
  }

  std::unique_ptr<image::Decoder> library_;
  Header header_;
  Picture picture_;
};

}  // namespace

std::unique_ptr<image::Decoder> make_decoder() {
  return std::make_unique<OwnDecoder>();
}

void choose(Backend backend) noexcept {
  chosen().store(backend, std::memory_order_relaxed);
}

std::string describe_choice() {
  const bool forced = chosen().load(std::memory_order_relaxed) != Backend::automatic;
  if (!own_chosen())
    return forced ? "libjpeg-turbo, as asked for" : "libjpeg-turbo, as there are no vectors here";
  return std::string("own back end") + (forced ? ", as asked for" : ", the faster one here") +
         "; libjpeg-turbo for what it does not know, and for what looks damaged";
}

std::unique_ptr<image::Decoder> make_chosen_decoder() {
  return own_chosen() ? make_decoder() : image::make_jpeg_decoder();
}

Counts counts() noexcept {
  const Counters& all = counters();
  Counts counts;
  counts.own = all.own.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < kForeignCount; ++i)
    counts.foreign[i] = all.foreign[i].load(std::memory_order_relaxed);
  return counts;
}

}  // namespace penstock::jpeg
