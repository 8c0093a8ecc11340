#include "pipeline/sources/image_records_writer.h"

#include <algorithm>

#include <penstock/crc32c.h>

namespace penstock {

using records_file::Frame;
using records_file::kFrameBytes;
using records_file::kHeaderBytes;

ImageRecordsWriter::ImageRecordsWriter(const std::string& path, ImageRecordKind kind,
                                       const Limits& limits, const Fits& fits)
    : file_(path, true) {
  const std::array<std::byte, kHeaderBytes> header = records_file::make_header(kind);
  std::array<std::byte, kHeaderBytes> found{};
  if (file_.read(0, found) != found.size() || found != header) {
    file_.keep(0);
    file_.append(header);
    return;
  }
  std::uint64_t at = kHeaderBytes;
  std::vector<std::byte> record(kFrameBytes);
  for (;;) {
    record.resize(kFrameBytes);
    if (file_.read(at, record) != kFrameBytes) break;
    const std::optional<Frame> frame = records_file::parse_frame(record, limits);
    if (!frame) break;
    record.resize(frame->size());
    if (file_.read(at, record) != record.size()) break;
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
  file_.keep(at);
}

void ImageRecordsWriter::append(const Frame& frame, std::string_view key,
                                std::span<const std::byte> image) {
  entries_.push_back({file_.size(), frame.size()});
  file_.append(records_file::make_frame(frame, key));
  file_.append(image);
}

std::uint64_t ImageRecordsWriter::commit(std::uint64_t as_they_are,
                                         std::vector<std::string> class_names) {
  file_.append(records_file::make_index({std::move(entries_), as_they_are, std::move(class_names)},
                                        file_.size()));
  file_.commit();
  return file_.size();
}

}  // namespace penstock
