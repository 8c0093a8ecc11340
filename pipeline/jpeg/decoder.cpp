#include "pipeline/jpeg/decoder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <optional>

#include "pipeline/codec/exif.h"
#include "pipeline/jpeg/lanes.h"
#include "pipeline/jpeg/picture.h"
#include "pipeline/jpeg/records/decoder.h"
#include "pipeline/jpeg/records/layout.h"
#include "pipeline/jpeg/resumed.h"
#include "pipeline/jpeg/turbo/turbo.h"

namespace penstock::jpeg {

namespace {

using image::DecodeJob;
using image::DecodePlan;
using image::ImageInfo;

/// A lane takes the next image when its image ends. So many images in one call keep the lanes busy.
constexpr std::size_t kHand = 32;

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

/// An image that is being decoded.
struct Slot {
  DecodeJob* job = nullptr;  ///< of the current call; null between calls
  Header header;
  std::optional<Record> record;     ///< an indexed one
  std::span<const std::byte> file;  ///< the job's bytes, or the file in its record
  DecodePlan plan;
  Picture picture;
};

class OwnDecoder final : public image::Decoder {
 public:
  explicit OwnDecoder(std::size_t few) : few_(few), library_(image::make_jpeg_decoder()) {}

  std::size_t lanes() const noexcept override { return Lanes::supported() ? kHand : kFewImages; }

  void decode(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept override {
    for (; jobs.size() > kHand; jobs = jobs.subspan(kHand)) decode_hand(jobs.first(kHand), options);
    decode_hand(jobs, options);
  }

 private:
  void decode_hand(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept {
    // The longest images first: then all end at about the same time.
    std::ranges::transform(jobs, waiting_.begin(), [](DecodeJob& job) { return &job; });
    waiting_count_ = jobs.size();
    std::ranges::sort(std::span(waiting_).first(waiting_count_), {},
                      [](const DecodeJob* job) { return job->bytes.size(); });
    if (jobs.size() > few_ && Lanes::supported() && has_lanes()) decode_in_lanes(options);
    decode_in_turns(options);
  }

  /// Returns false if there is no memory for the lanes. Then images are decoded in turn.
  bool has_lanes() noexcept {
    try {
      if (!lanes_) lanes_ = std::make_unique<Lanes>();
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  void decode_in_lanes(const DecodeOptions& options) noexcept {
    for (;;) {
      while (waiting_count_ > 0 && left() > few_ && lanes_->count() < kLaneCount) {
        if (Slot* slot = start_next(options)) lanes_->add(slot->picture.scan());
      }
      if (lanes_->count() == 0) return;
      Scan& scan = lanes_->finish_any();
      Slot& slot = *std::ranges::find_if(
          slots_, [&](Slot& one) { return one.job != nullptr && &one.picture.scan() == &scan; });
      end_row(slot, options);
      if (slot.job == nullptr) {
        lanes_->remove(scan);
      } else if (left() <= few_) {
        lanes_->hand_back(scan);
      }
    }
  }

  std::size_t left() const noexcept { return waiting_count_ + lanes_->count(); }

  void decode_in_turns(const DecodeOptions& options) noexcept {
    for (;;) {
      std::array<Slot*, 2> pair{};
      std::size_t count = 0;
      for (Slot& slot : slots_)
        if (slot.job != nullptr && count < 2) pair[count++] = &slot;
      while (count < 2 && waiting_count_ > 0)
        if (Slot* slot = start_next(options)) pair[count++] = slot;
      if (count == 0) return;
      Slot* ended = pair[0];
      if (count == 2) {
        Scan& scan = pair[1]->picture.scan();
        if (&finish_either(pair[0]->picture.scan(), scan) == &scan) ended = pair[1];
      } else {
        finish_row(ended->picture.scan());
      }
      end_row(*ended, options);
    }
  }

  /// Begins the next job. Returns null if the job ends with that.
  Slot* start_next(const DecodeOptions& options) noexcept {
    Slot& slot = *std::ranges::find_if(slots_, [](const Slot& one) { return one.job == nullptr; });
    DecodeJob& job = *waiting_[--waiting_count_];
    start(slot, job, options);
    return slot.job == nullptr ? nullptr : &slot;
  }

  /// Calls `act`. If it throws, the error becomes the job's status.
  template <typename Act>
  static void guarded(Slot& slot, Act act) noexcept {
    try {
      act();
    } catch (...) {
      slot.job->status = status_from_current_exception();
      slot.job = nullptr;
    }
  }

  void start(Slot& slot, DecodeJob& job, const DecodeOptions& options) noexcept {
    slot.job = &job;
    guarded(slot, [&] {
      const Foreign foreign = begin(slot, options);
      if (foreign != Foreign::none) {
        leave(slot, job, options, foreign);
        slot.job = nullptr;
      }
    });
  }

  /// Begins an image. If the library must decode it from the header on, returns the reason.
  Foreign begin(Slot& slot, const DecodeOptions& options) {
    DecodeJob& job = *slot.job;
    const Header& header = slot.header;
    slot.record.reset();
    slot.file = job.bytes;
    if (is_record(job.bytes)) {
      slot.record = read_record(job.bytes);
      slot.file = slot.record->payload;
      static_cast<void>(slot.record->read_part(0));
    }
    Foreign foreign = read_header(slot.file, slot.header);
    if (foreign != Foreign::none) return foreign;
    ImageInfo info;
    info.channels = header.color == ColorModel::gray ? 1 : options.channels;
    foreign = slot.picture.begin(header, slot.file, info.channels);
    if (foreign != Foreign::none) return foreign;
    image::check_pixels(static_cast<std::uint64_t>(header.width),
                        static_cast<std::uint64_t>(header.height), options.limits);
    info.size = {header.height, header.width};
    if (options.orient)
      info.orientation =
          slot.record ? slot.record->orientation : image::jpeg_orientation(job.bytes);
    slot.plan = job.sink->plan(info);
    job.status = Status();
    if (slot.plan.region.empty()) {
      slot.job = nullptr;
      return Foreign::none;
    }
    foreign = slot.picture.choose(slot.plan, options.limits.max_codec_bytes, *job.sink);
    if (foreign != Foreign::none) {
      resume(slot, options, foreign);
    } else {
      if (slot.record) slot.picture.use_intervals(*slot.record);
      slot.picture.begin_row();
    }
    return Foreign::none;
  }

  void end_row(Slot& slot, const DecodeOptions& options) noexcept {
    guarded(slot, [&] {
      switch (slot.picture.end_row(*slot.job->sink)) {
        case Picture::Progress::more:
          return slot.picture.begin_row();
        case Picture::Progress::left:
          return resume(slot, options, Foreign::data);
        case Picture::Progress::done:
          break;
      }
      DecodeJob& job = *slot.job;
      job.denominator = slot.plan.denominator;
      job.rows = slot.plan.region.height;
      job.rows_spared = slot.picture.shrunk().height - slot.plan.region.height;
      if (slot.record) {
        if (slot.plan.region ==
            image::Rect{0, 0, slot.picture.shrunk().height, slot.picture.shrunk().width})
          slot.record->check_rest();
        count_record(RecordKind::indexed);
      } else {
        counters().own.fetch_add(1, std::memory_order_relaxed);
      }
      slot.job = nullptr;
    });
  }

  /// Lets the library decode the whole image again, for the rows that were not given yet.
  void resume(Slot& slot, const DecodeOptions& options, Foreign reason) {
    DecodeJob& job = *slot.job;
    Resumed resumed(*job.sink, slot.plan, slot.picture.given());
    DecodeJob again{job.bytes, &resumed};
    leave(slot, again, options, reason);
    again.sink = job.sink;
    job = std::move(again);
    slot.job = nullptr;
  }

  void leave(Slot& slot, DecodeJob& job, const DecodeOptions& options, Foreign reason) {
    if (slot.record) slot.record->check_all();
    counters().foreign[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    const std::span<const std::byte> bytes = std::exchange(job.bytes, slot.file);
    library_->decode({&job, 1}, options);
    job.bytes = bytes;
  }

  std::size_t few_;
  std::unique_ptr<image::Decoder> library_;
  std::unique_ptr<Lanes> lanes_;
  std::array<Slot, kLaneCount> slots_;
  std::array<DecodeJob*, kHand> waiting_{};  // the next one last
  std::size_t waiting_count_ = 0;
};

}  // namespace

std::unique_ptr<image::Decoder> make_decoder(std::size_t few) {
  return std::make_unique<OwnDecoder>(few);
}

void choose(Backend backend) noexcept {
  chosen().store(backend, std::memory_order_relaxed);
}

bool own_back_end() noexcept {
  const Backend backend = chosen().load(std::memory_order_relaxed);
  return backend == Backend::own || (backend == Backend::automatic && has_vectors());
}

std::string describe_choice() {
  const bool forced = chosen().load(std::memory_order_relaxed) != Backend::automatic;
  if (!own_back_end())
    return forced ? "libjpeg-turbo, as asked for" : "libjpeg-turbo, as there are no vectors here";
  return std::string("own back end") + (forced ? ", as asked for" : ", the faster one here") +
         "; libjpeg-turbo for what it does not know, and for what looks damaged";
}

std::unique_ptr<image::Decoder> make_chosen_decoder() {
  return own_back_end() ? make_decoder() : image::make_jpeg_decoder();
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
