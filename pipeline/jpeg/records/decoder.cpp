#include "pipeline/jpeg/records/decoder.h"

#include <atomic>

#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/picture.h"
#include "pipeline/jpeg/records/make.h"
#include "pipeline/jpeg/records/packed_row.h"
#include "pipeline/jpeg/resumed.h"
#include "pipeline/jpeg/turbo/turbo.h"

namespace penstock::jpeg {

namespace {

using image::DecodeJob;
using image::DecodePlan;
using image::ImageInfo;

std::array<std::atomic<std::uint64_t>, kRecordKinds>& record_counters() noexcept {
  static std::array<std::atomic<std::uint64_t>, kRecordKinds> counters{};
  return counters;
}

/// The largest sampling factor.
constexpr int kMaxFactor = 4;

/// Returns the most bytes that `jpeg_of` takes: our coefficients, those of the library, and a file
/// that grows while it is written.
std::uint64_t bytes_of_jpeg_of(const Record& record) noexcept {
  const std::uint64_t file = record.payload.size() + record.metadata.size();
  if (record.kind != RecordKind::coefficients) return file;
  const BlockGrid grid(record.header);
  std::uint64_t blocks = 0;
  for (std::size_t c = 0; c < grid.across.size(); ++c) {
    // The library pads them to whole MCUs.
    blocks += static_cast<std::uint64_t>(grid.across[c] + kMaxFactor) *
              static_cast<std::uint64_t>(grid.down[c] + kMaxFactor);
  }
  return 2 * sizeof(std::int16_t) * kBlockSize * blocks + 4 * file;
}

class RecordDecoder final : public image::Decoder {
 public:
  void decode(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept override {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      std::size_t indexed = 0;
      while (i + indexed < jobs.size() && is_indexed(jobs[i + indexed])) ++indexed;
      try {
        if (indexed > 0 && own_back_end()) {
          if (!own_) own_ = make_decoder();
          own_->decode(jobs.subspan(i, indexed), options);
          i += indexed - 1;
        } else {
          decode_one(jobs[i], options);
        }
      } catch (...) {
        jobs[i].status = status_from_current_exception();
      }
    }
  }

 private:
  static bool is_indexed(const DecodeJob& job) noexcept {
    constexpr std::size_t kKindAt = 5;
    return job.bytes.size() > kKindAt &&
           job.bytes[kKindAt] == static_cast<std::byte>(RecordKind::indexed);
  }

  void decode_one(DecodeJob& job, const DecodeOptions& options) {
    const Record record = read_record(job.bytes);
    const Header& header = record.header;
    image::check_pixels(static_cast<std::uint64_t>(header.width),
                        static_cast<std::uint64_t>(header.height), options.limits);
    const int channels = header.color == ColorModel::gray ? 1 : options.channels;
    if (record.kind != RecordKind::coefficients || !own_back_end() ||
        picture_.begin(header, channels) != Foreign::none)
      return leave(record, job, options);
    ImageInfo info;
    info.size = {header.height, header.width};
    info.channels = channels;
    if (options.orient) info.orientation = record.orientation;
    const DecodePlan plan = job.sink->plan(info);
    job.status = Status();
    if (plan.region.empty()) return;
    if (picture_.choose(plan, options.limits.max_codec_bytes, *job.sink) != Foreign::none)
      return leave_planned(record, job, options, plan);
    const image::Size shrunk = picture_.shrunk();
    if (plan.region == image::Rect{0, 0, shrunk.height, shrunk.width}) record.check_rest();
    deliver(record, *job.sink);
    job.denominator = plan.denominator;
    job.rows = plan.region.height;
    job.rows_spared = shrunk.height - plan.region.height;
    count_record(record.kind);
  }

  void deliver(const Record& record, image::PixelSink& sink) {
    const Header& header = record.header;
    const BlockGrid grid(header);
    do {
      picture_.open_row();
      if (!picture_.wanted()) continue;
      for (int c = 0; c < header.component_count; ++c) {
        const auto place = static_cast<std::size_t>(c);
        Plane& plane = picture_.scan().planes[place];
        if (plane.side == 0) continue;
        std::size_t part = grid.first_part(picture_.row(), c);
        std::uint8_t* target = plane.target;
        for (int y = 0; y < grid.rows_in(picture_.row(), c); ++y, ++part) {
          const PackedRow row = open_row(record.read_part(part), grid.across[place]);
          if (!row.valid || !transform_row(row, plane, target))
            throw Error(ErrorCode::data_loss,
                        "image record: part " + std::to_string(part) + " is no row of blocks");
          target += static_cast<std::size_t>(plane.side) * plane.stride;
        }
      }
    } while (picture_.close_row(sink) == Picture::Progress::more);
  }

  void leave(const Record& record, DecodeJob& job, const DecodeOptions& options) {
    const std::uint64_t bytes = bytes_of_jpeg_of(record);
    if (bytes > image::kUnaskedBytes) job.sink->make_room(bytes);
    const std::vector<std::byte> jpeg = jpeg_of(record, options.limits);
    if (!library_) library_ = image::make_jpeg_decoder();
    DecodeJob whole{jpeg, job.sink};
    library_->decode({&whole, 1}, options);
    whole.bytes = job.bytes;
    job = std::move(whole);
  }

  /// The same for a sink that has chosen its plan already.
  void leave_planned(const Record& record, DecodeJob& job, const DecodeOptions& options,
                     const DecodePlan& plan) {
    Resumed planned(*job.sink, plan, 0);
    DecodeJob again{job.bytes, &planned};
    leave(record, again, options);
    again.sink = job.sink;
    job = std::move(again);
  }

  std::unique_ptr<image::Decoder> library_;  // null until it is needed
  std::unique_ptr<image::Decoder> own_;      // for the files in indexed records
  Picture picture_;
};

}  // namespace

std::unique_ptr<image::Decoder> make_record_decoder() {
  return std::make_unique<RecordDecoder>();
}

void count_record(RecordKind kind) noexcept {
  record_counters()[static_cast<std::size_t>(kind) - 1].fetch_add(1, std::memory_order_relaxed);
}

std::string describe_record_choice() {
  if (!own_back_end())
    return "written as JPEGs again for libjpeg-turbo, the back end here; its pixels are the same";
  return "records of coefficients are expanded, which takes no entropy decoding; of indexed ones "
         "the intervals are decoded that a crop touches";
}

std::array<std::uint64_t, kRecordKinds> record_counts() noexcept {
  std::array<std::uint64_t, kRecordKinds> counts{};
  for (std::size_t i = 0; i < kRecordKinds; ++i)
    counts[i] = record_counters()[i].load(std::memory_order_relaxed);
  return counts;
}

}  // namespace penstock::jpeg
