#include "pipeline/jpeg/picture.h"

#include <algorithm>
#include <cstring>

#include <penstock/error.h>

#include "pipeline/core/both.h"
#include "pipeline/jpeg/records/layout.h"

namespace penstock::jpeg {

using both::divide_up;

Foreign Picture::begin(const Header& header, int channels) {
  header_ = &header;
  record_ = nullptr;
  lead_ = 0;
  channels_ = channels;
  if (header.color == ColorModel::rgb && channels == 1) return Foreign::color;
  scan_.plane_count = header.component_count;
  // Reset also planes that this image lacks: an image that failed may have left blocks in their
  // batches.
  for (Plane& plane : scan_.planes) plane.batch.count = 0;
  for (int i = 0; i < header.component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const Component& component = header.components[place];
    Plane& plane = scan_.planes[place];
    const auto& values = header.quantisation[static_cast<std::size_t>(component.quantisation)];
    std::ranges::transform(values.values, plane.quantisation.begin(),
                           [](std::uint16_t value) { return static_cast<std::int16_t>(value); });
    plane.predictor = 0;
  }
  return Foreign::none;
}

Foreign Picture::begin(const Header& header, std::span<const std::byte> file, int channels) {
  const Foreign foreign = begin(header, channels);
  if (foreign != Foreign::none) return foreign;
  tables_.begin();
  for (int i = 0; i < header.component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const Component& component = header.components[place];
    Plane& plane = scan_.planes[place];
    plane.ac = tables_.ac(header.ac[static_cast<std::size_t>(component.ac)]);
    plane.dc = tables_.dc(header.dc[static_cast<std::size_t>(component.dc)]);
    if (plane.ac == nullptr || plane.dc == nullptr) return Foreign::tables;
  }
  scan_.good = true;
  scan_.last_target = nullptr;
  scan_.block = scan_.blocks[0].data();
  scan_.restart_interval = header.restart_interval;
  scan_.restart_left = header.restart_interval;
  scan_.jump = nullptr;
  scan_.next_restart = 0;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(file.data());
  begin_bits(scan_.bits, {bytes + header.scan, file.size() - header.scan});
  return Foreign::none;
}

const std::uint8_t* Picture::sample_row(const Strip& strip, int y) const noexcept {
  const int row = std::clamp(y, 0, strip.height - 1) - strip.top;
  return strip.samples + static_cast<std::size_t>(row) * strip.stride;
}

void Picture::make_room(Strip& strip, int imcu_row) {
  const int rows = strip.vertical * strip.side;
  const int begin = imcu_row * rows;
  // Keep one row group, and one row above it.
  const int group = header_->max_vertical / strip.down;
  const int keep = imcu_row == 0 || !context_ ? 0 : std::min(group + 1, begin);
  if (keep > 0) {
    const int from = begin - keep - strip.top;
    std::memmove(strip.samples - kMargin,
                 strip.samples - kMargin + static_cast<std::size_t>(from) * strip.stride,
                 static_cast<std::size_t>(keep) * strip.stride);
  }
  strip.top = begin - keep;
  strip.kept = keep;
}

void Picture::pad_edges(Strip& strip, int imcu_row) {
  if (strip.upsampling != Upsampling::columns && strip.upsampling != Upsampling::both) return;
  const int rows = strip.vertical * strip.side;
  for (int y = 0; y < rows; ++y) {
    if (imcu_row * rows + y >= strip.height) break;
    std::uint8_t* row = strip.samples + static_cast<std::size_t>(strip.kept + y) * strip.stride;
    row[-1] = row[0];
    row[strip.width] = row[strip.width - 1];
  }
}

/// True if the row's pixels, or their neighbours, lie in the region.
bool Picture::wanted() const noexcept {
  const int margin = context_ ? header_->max_vertical + 1 : 0;
  return (next_imcu_ + 1) * imcu_height_ > region_.top - margin;
}

void Picture::open_row() {
  for (int i = 0; i < header_->component_count; ++i) {
    Strip& strip = strips_[static_cast<std::size_t>(i)];
    if (!strip.needed) continue;
    make_room(strip, next_imcu_);
    scan_.planes[static_cast<std::size_t>(i)].target =
        strip.samples + static_cast<std::size_t>(strip.kept) * strip.stride;
  }
}

void Picture::use_intervals(const Record& record) {
  const Header& header = *header_;
  const int rows = header.component_count == 1 ? divide_up(header.height, kBlockSide) : imcu_rows_;
  const auto all = std::int64_t{scan_.mcus} * rows;
  const auto interval = std::int64_t{record.interval};
  // So at most a row of MCUs is decoded to reach a crop.
  if (interval < 1 || interval > scan_.mcus || interval != header.restart_interval ||
      static_cast<std::int64_t>(record.part_count) != 1 + (all + interval - 1) / interval)
    throw Error(ErrorCode::data_loss, "image record: its index does not fit its intervals");
  record_ = &record;
  mcus_ = scan_.mcus;
  first_mcu_ = mcus_;
  last_mcu_ = 0;
  for (int i = 0; i < scan_.plane_count; ++i) {
    const Plane& plane = scan_.planes[static_cast<std::size_t>(i)];
    if (plane.side == 0) continue;
    first_mcu_ = std::min(first_mcu_, plane.first_block / plane.horizontal);
    last_mcu_ = std::max(last_mcu_, divide_up(plane.last_block, plane.horizontal));
  }
  next_ = -1;
  sound_ = 0;
}

/// Moves the scan to the first interval with needed MCUs of the row that was just begun.
void Picture::jump() {
  const std::int64_t row = std::int64_t{next_imcu_} * rows_ + row_;
  const std::int64_t interval = record_->interval;
  const std::int64_t first = (row * mcus_ + first_mcu_) / interval;
  const std::int64_t last = (row * mcus_ + last_mcu_ - 1) / interval;
  for (sound_ = std::max(sound_, first); sound_ <= last; ++sound_)
    static_cast<void>(record_->read_part(static_cast<std::size_t>(1 + sound_)));
  scan_.mcus = last_mcu_;
  const bool there = next_ == row * mcus_ + first_mcu_;
  next_ = row * mcus_ + last_mcu_;
  if (there) return void(scan_.mcu = first_mcu_);
  const RecordPart part = record_->part(static_cast<std::size_t>(1 + first));
  scan_.jump = reinterpret_cast<const std::uint8_t*>(record_->payload.data()) + part.offset;
  scan_.next_restart = static_cast<int>(first & 7);
  scan_.restart_left = 0;
  scan_.mcu = static_cast<int>(first * interval % mcus_);
  lead_ = static_cast<int>(row - first * interval / mcus_);
  if (lead_ == 0) return;
  scan_.wanted = false;
  scan_.last = false;
  scan_.mcus = mcus_;
}

void Picture::begin_row() {
  const auto last = [&] { return next_imcu_ == last_imcu_; };
  if (lead_ > 0) {
    --lead_;
    jpeg::begin_row(scan_, lead_ == 0, lead_ == 0 && last());
    scan_.mcus = lead_ == 0 ? last_mcu_ : mcus_;
    return;
  }
  if (record_ != nullptr) {
    for (; row_ == 0 && !wanted(); ++next_imcu_) open_row();
  }
  if (row_ == 0) open_row();
  jpeg::begin_row(scan_, wanted(), last());
  if (record_ != nullptr) jump();
}

Picture::Progress Picture::end_row(image::PixelSink& sink) {
  const auto leave = [&] {
    let_go();
    return Progress::left;
  };
  if (!is_good(scan_)) return leave();
  if (lead_ > 0) return Progress::more;
  // In a file of one component, each row of blocks is a row of MCUs. There are none below the
  // image.
  const int block_rows = divide_up(header_->height, kBlockSide);
  if (++row_ < rows_ && next_imcu_ * rows_ + row_ < block_rows) {
    Plane& plane = scan_.planes[0];
    plane.target += static_cast<std::size_t>(plane.side) * plane.stride;
    return Progress::more;
  }
  row_ = 0;
  const bool last = next_imcu_ == last_imcu_;
  if (last && (whole_ ? !at_end(scan_) : !far_from_end(scan_))) return leave();
  return close_row(sink);
}

Picture::Progress Picture::close_row(image::PixelSink& sink) {
  if (wanted()) {
    for (int i = 0; i < header_->component_count; ++i) {
      Strip& strip = strips_[static_cast<std::size_t>(i)];
      if (strip.needed) pad_edges(strip, next_imcu_);
    }
  }
  const bool last = ++next_imcu_ > last_imcu_;
  int end = next_imcu_ * imcu_height_;
  if (context_ && next_imcu_ < imcu_rows_) end -= header_->max_vertical;
  end = std::min(end, region_.top + region_.height);
  if (end > region_.top + given_) give(end - region_.top, sink);
  if (!last) return Progress::more;
  let_go();
  return Progress::done;
}

const std::uint8_t* Picture::pixel_row(Strip& strip, int y) {
  const auto left = static_cast<std::size_t>(region_.left);
  const auto first = static_cast<std::size_t>(strip.first);
  const auto last = static_cast<std::size_t>(strip.last);
  if (strip.upsampling == Upsampling::none) return sample_row(strip, y) + left;
  Upsample job;
  job.first = first;
  job.last = last;
  job.out = strip.pixels;
  const std::uint8_t* pixels =
      strip.pixels + (left - first * static_cast<std::size_t>(strip.across));
  switch (strip.upsampling) {
    case Upsampling::columns:
      job.near = sample_row(strip, y);
      kernels_->columns(job);
      break;
    case Upsampling::rows:
    case Upsampling::both:
      job.near = sample_row(strip, y / 2);
      job.upper = y % 2 == 0;
      job.far = sample_row(strip, y / 2 + (job.upper ? -1 : 1));
      (strip.upsampling == Upsampling::rows ? kernels_->rows : kernels_->both)(job);
      break;
    default: {
      const std::uint8_t* row = sample_row(strip, y / strip.down);
      if (strip.across == 1) return row + left;
      repeat_columns(row, first, last, static_cast<std::size_t>(strip.across), strip.pixels);
    }
  }
  return pixels;
}

void Picture::give(int end, image::PixelSink& sink) {
  const auto width = static_cast<std::size_t>(region_.width);
  while (given_ < end) {
    const int count = std::min(kRows, end - given_);
    for (int i = 0; i < count; ++i) {
      const int y = region_.top + given_ + i;
      std::uint8_t* out = pixels_ + static_cast<std::size_t>(i) * row_stride_;
      if (channels_ == 1) {
        std::memcpy(out, pixel_row(strips_[0], y), width);
        continue;
      }
      const std::uint8_t* parts[3];
      for (std::size_t c = 0; c < 3; ++c) parts[c] = pixel_row(strips_[c], y);
      const auto convert =
          header_->color == ColorModel::ycc ? kernels_->to_rgb : kernels_->interleave;
      convert(parts[0], parts[1], parts[2], width, out);
    }
    given_ += count;
    sink.rows(pixels_, row_stride_, count);
  }
}

namespace {

using both::divide_up;

/// The most rows above an iMCU row that may still be needed: one row group and its context.
constexpr int kMaxKept = 5;
constexpr std::size_t align(std::size_t bytes) noexcept {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

Foreign Picture::choose(const image::DecodePlan& plan, std::uint64_t max_bytes,
                        image::PixelSink& sink) {
  const Header& header = *header_;
  given_ = 0;  // the library may do the whole image
  kernels_ = &row_kernels();
  side_ = kBlockSide / plan.denominator;
  shrunk_ = {divide_up(header.height, plan.denominator), divide_up(header.width, plan.denominator)};
  region_ = plan.region;
  whole_ = image::check_region(region_, shrunk_);
  const bool single = header.component_count == 1;
  context_ = false;
  for (int i = 0; i < header.component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const Component& component = header.components[place];
    Strip& strip = strips_[place];
    strip = {};
    strip.needed = i == 0 || channels_ == 3;
    static_cast<StripPlan&>(strip) = plan_strip({.width = header.width,
                                                 .height = header.height,
                                                 .horizontal = component.horizontal,
                                                 .vertical = component.vertical,
                                                 .most_across = header.max_horizontal,
                                                 .most_down = header.max_vertical,
                                                 .denominator = plan.denominator,
                                                 .left = region_.left,
                                                 .right = region_.left + region_.width,
                                                 .needed = strip.needed});
    if (!strip.possible) return Foreign::sampling;
    context_ = context_ || strip.has_context();
    Plane& plane = scan_.planes[place];
    plane.side = strip.needed ? strip.side : 0;
    plane.horizontal = single ? 1 : component.horizontal;
    plane.vertical = single ? 1 : component.vertical;
    plane.first_block = strip.needed ? strip.first_block : 0;
    plane.last_block = strip.needed ? strip.last_block : 0;
    strip.vertical = component.vertical;
  }
  scan_.place_count = 0;
  for (int i = 0; i < header.component_count; ++i) {
    Plane& plane = scan_.planes[static_cast<std::size_t>(i)];
    for (int y = 0; y < plane.vertical; ++y)
      for (int x = 0; x < plane.horizontal; ++x)
        scan_.places[static_cast<std::size_t>(scan_.place_count++)] = {&plane, x, y};
  }
  scan_.mcus = single ? divide_up(header.width, kBlockSide)
                      : divide_up(header.width, header.max_horizontal * kBlockSide);
  imcu_height_ = side_ * header.max_vertical;
  imcu_rows_ = divide_up(header.height, header.max_vertical * kBlockSide);
  const int bottom = region_.top + region_.height - 1;
  last_imcu_ = bottom / imcu_height_;
  // Decode as much as the library does, even if these pixels need less: the library checks more
  // bytes.
  if (context_ && bottom % imcu_height_ >= imcu_height_ - header.max_vertical)
    last_imcu_ = std::min(last_imcu_ + 1, imcu_rows_ - 1);
  rows_ = single ? header.components[0].vertical : 1;
  row_ = 0;
  next_imcu_ = 0;
  return layout(max_bytes, sink) ? Foreign::none : Foreign::memory;
}

bool Picture::layout(std::uint64_t max_bytes, image::PixelSink& sink) {
  const auto blocks_across = [&](const Component& component) {
    return static_cast<std::size_t>(scan_.mcus) * static_cast<std::size_t>(component.horizontal);
  };
  row_stride_ = align(static_cast<std::size_t>(region_.width + 2 * kBlockSide) * 3 +
                      image::kRowPadding + 3 * kRowSlack);
  std::size_t size = 64 + kRows * row_stride_;
  for (int i = 0; i < header_->component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    Strip& strip = strips_[place];
    if (!strip.needed) continue;
    const auto side = static_cast<std::size_t>(strip.side);
    strip.stride = align(blocks_across(header_->components[place]) * side + 2 * kMargin);
    size += strip.stride * (kMaxKept + static_cast<std::size_t>(strip.vertical) * side);
    size +=
        align(static_cast<std::size_t>(region_.width + 4 * kBlockSide) + 2 * kMargin + kRowSlack);
  }
  if (size > max_bytes) return false;
  let_go();  // frees the memory of an image that failed
  if (size > image::kUnaskedBytes) sink.make_room(size);
  if (memory_.size() < size) memory_ = std::vector<std::uint8_t>(size);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  std::uint8_t* at = memory_.data() + (64 - address % 64) % 64;
  const auto take = [&](std::size_t bytes) {
    std::uint8_t* taken = at;
    at += bytes;
    return taken;
  };
  pixels_ = take(kRows * row_stride_);
  for (int i = 0; i < header_->component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    Strip& strip = strips_[place];
    if (!strip.needed) continue;
    const auto rows = kMaxKept + static_cast<std::size_t>(strip.vertical * strip.side);
    strip.samples = take(strip.stride * rows) + kMargin;
    strip.pixels = take(
        align(static_cast<std::size_t>(region_.width + 4 * kBlockSide) + 2 * kMargin + kRowSlack));
    scan_.planes[place].stride = strip.stride;
  }
  return true;
}

void Picture::let_go() noexcept {
  if (memory_.size() > image::kUnaskedBytes) memory_ = std::vector<std::uint8_t>();
}

}  // namespace penstock::jpeg
