#include "pipeline/image/row_writer.h"

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
  copies_pixels_ = interleaved && format.dtype == DType::u8 && format.channels == channels &&
                   content.width == canvas.width;
  kernels_ = row_kernels(format.dtype);
  const auto width = static_cast<std::size_t>(canvas.width);
  if (content.height != canvas.height) black_.assign(width, 0);
  planes_.assign(width * static_cast<std::size_t>(channels), 0);
  write_black(0, content.top);
}

std::byte* RowWriter::row_out(int y) const noexcept {
  return destination_.out + static_cast<std::size_t>(y) * row_bytes_;
}

void RowWriter::write(const PlanarRow& row) {
  if (content_.width == canvas_.width) {
    kernels_.finish({row.values, channels_ == 1 ? 0 : row.plane_stride}, canvas_.width,
                    destination_.format, row_out(content_.top + written_++),
                    destination_.plane_bytes);
    return;
  }
  for (int c = 0; c < channels_; ++c) {
    std::memcpy(content() + static_cast<std::ptrdiff_t>(c) * canvas_.width, row.plane(c),
                static_cast<std::size_t>(content_.width));
  }
  write_planes();
}

void RowWriter::write_pixels(const std::uint8_t* pixels, bool mirrored) {
  if (copies_pixels_ && !mirrored) {
    std::memcpy(row_out(content_.top + written_++), pixels, row_bytes_);
    return;
  }
  const auto width = static_cast<std::size_t>(canvas_.width);
  kernels_.split(pixels, content_.width, channels_, mirrored, content(), width);
  write_planes();
}

void RowWriter::write_planes() {
  const std::size_t stride = channels_ == 1 ? 0 : static_cast<std::size_t>(canvas_.width);
  kernels_.finish({planes_.data(), stride}, canvas_.width, destination_.format,
                  row_out(content_.top + written_++), destination_.plane_bytes);
}

void RowWriter::end() {
  write_black(content_.top + content_.height, canvas_.height);
}

void RowWriter::write_black(int first, int last) {
  for (int y = first; y < last; ++y) {
    kernels_.finish({black_.data(), 0}, canvas_.width, destination_.format, row_out(y),
                    destination_.plane_bytes);
  }
}

}  // namespace penstock::image
