#include "pipeline/work/image/row_writer.h"

#include <algorithm>
#include <cstring>

namespace penstock::image {

void RowWriter::begin(const Destination& destination, Size canvas, const Rect& content,
                      int channels) {
  destination_ = destination;
  canvas_ = canvas;
  content_ = content;
  channels_ = channels;
  written_ = 0;
  const OutputFormat& format = destination.format;
  const bool interleaved = format.layout == Layout::hwc || format.channels == 1;
  row_bytes_ = static_cast<std::size_t>(canvas.width) * size_of(format.dtype) *
               static_cast<std::size_t>(format.layout == Layout::hwc ? format.channels : 1);
  const bool narrow = content.width != canvas.width;
  takes_pixels_ =
      interleaved && format.dtype == DType::u8 && format.channels == channels && !narrow;
  const auto width = static_cast<std::size_t>(canvas.width);
  if (content.height != canvas.height) black_.assign(width, 0);
  if (narrow) padded_.assign(width * static_cast<std::size_t>(channels), 0);
  write_black(0, content.top);
}

std::byte* RowWriter::row_out(int y) const noexcept {
  return destination_.out + static_cast<std::size_t>(y) * row_bytes_;
}

void RowWriter::write(const PlanarRow& row) {
  PlanarRow whole{row.values, channels_ == 1 ? 0 : row.plane_stride};
  if (content_.width != canvas_.width) {
    const auto width = static_cast<std::size_t>(canvas_.width);
    for (int c = 0; c < channels_; ++c) {
      std::memcpy(padded_.data() + static_cast<std::size_t>(c) * width + content_.left,
                  row.plane(c), static_cast<std::size_t>(content_.width));
    }
    whole = {padded_.data(), channels_ == 1 ? 0 : width};
  }
  finish_row(whole, canvas_.width, destination_.format, row_out(content_.top + written_++),
             destination_.plane_bytes);
}

void RowWriter::write_pixels(const std::uint8_t* pixels) {
  std::memcpy(row_out(content_.top + written_++), pixels, row_bytes_);
}

void RowWriter::end() {
  write_black(content_.top + content_.height, canvas_.height);
}

void RowWriter::write_black(int first, int last) {
  for (int y = first; y < last; ++y) {
    finish_row({black_.data(), 0}, canvas_.width, destination_.format, row_out(y),
               destination_.plane_bytes);
  }
}

}  // namespace penstock::image
