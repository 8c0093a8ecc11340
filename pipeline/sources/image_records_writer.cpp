#include "pipeline/sources/image_records_writer.h"

#include <algorithm>

#include <penstock/internal/crc32c.h>
#include <penstock/remote_files.h>

namespace penstock {

using records_file::Frame;
using records_file::kFrameBytes;
using records_file::kHeaderBytes;

ImageRecordsWriter::ImageRecordsWriter(const std::string& path,
                                       const std::array<std::byte, kHeaderBytes>& header,
                                       const Limits& limits, const Fits& fits) {
  if (is_remote(path)) {
    file_ = default_file_system()->create(path);
    append(header);
    return;
  }
  auto file = std::make_unique<ExclusiveFile>(path, true);
  keep_what_fits(*file, header, limits, fits);
  file_ = std::move(file);
  if (bytes_ == 0) append(header);
}

void ImageRecordsWriter::keep_what_fits(ExclusiveFile& file, std::span<const std::byte> header,
                                        const Limits& limits, const Fits& fits) {
  std::array<std::byte, kHeaderBytes> found{};
  if (file.read(0, found) != found.size() || !std::ranges::equal(found, header))
    return file.keep(0);
  std::uint64_t at = kHeaderBytes;
  std::vector<std::byte> record(kFrameBytes);
  for (;;) {
    record.resize(kFrameBytes);
    if (file.read(at, record) != kFrameBytes) break;
    const std::optional<Frame> frame = records_file::parse_frame(record, limits);
    if (!frame) break;
    record.resize(frame->size());
    if (file.read(at, record) != record.size()) break;
    const std::span<const std::byte> all(record);
    const std::span<const std::byte> image = all.subspan(kFrameBytes + frame->key_bytes);
    const std::string_view key(reinterpret_cast<const char*>(all.data()) + kFrameBytes,
                               frame->key_bytes);
    if (!records_file::frame_is_sound(all.first(kFrameBytes + frame->key_bytes)) ||
        crc32c(image) != frame->image_crc || !fits(*frame, key, image))
      break;
    entries_.push_back({at, frame->size()});
    at += frame->size();
  }
  file.keep(at);
  bytes_ = at;
}

void ImageRecordsWriter::append(std::span<const std::byte> bytes) {
  file_->append(bytes);
  bytes_ += bytes.size();
}

void ImageRecordsWriter::append(const Frame& frame, std::string_view key,
                                std::span<const std::byte> image) {
  entries_.push_back({bytes_, frame.size()});
  append(records_file::make_frame(frame, key));
  append(image);
}

std::uint64_t ImageRecordsWriter::commit(std::uint64_t as_they_are,
                                         std::vector<std::string> class_names) {
  append(
      records_file::make_index({std::move(entries_), as_they_are, std::move(class_names)}, bytes_));
  file_->commit();
  return bytes_;
}

}  // namespace penstock
