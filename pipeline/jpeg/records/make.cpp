#include "pipeline/jpeg/records/make.h"

#include <cstring>
#include <limits>

#include <penstock/internal/crc32c.h>

#include "pipeline/codec/codec.h"
#include "pipeline/codec/exif.h"
#include "pipeline/jpeg/records/decoder.h"
#include "pipeline/jpeg/records/packed_row.h"
#include "pipeline/jpeg/turbo/turbo.h"

namespace penstock::jpeg {

namespace {

/// The memory of all forms of a record at once, in sizes of the file.
constexpr std::uint64_t kRecordsOfAFile = 5;

/// A checksum of pixels.
class Fingerprint final : public image::PixelSink {
 public:
  explicit Fingerprint(CodecBudget* budget) : taken_(budget) {}
  image::DecodePlan plan(const image::ImageInfo& info) override {
    info_ = info;
    return {.region = {0, 0, info.size.height, info.size.width}};
  }
  void rows(const std::uint8_t* pixels, std::size_t stride, int count) override {
    const std::size_t bytes =
        static_cast<std::size_t>(info_.size.width) * static_cast<std::size_t>(info_.channels);
    for (int y = 0; y < count; ++y)
      crc_ = crc32c(std::as_bytes(std::span(pixels + static_cast<std::size_t>(y) * stride, bytes)),
                    crc_);
  }

  void make_room(std::uint64_t bytes) override { taken_.take(bytes); }
  /// Called when the decoder has released its memory.
  void decoded() noexcept { taken_.give(UINT64_MAX); }

  friend bool operator==(const Fingerprint& a, const Fingerprint& b) {
    return a.crc_ == b.crc_ && a.info_.size == b.info_.size &&
           a.info_.channels == b.info_.channels && a.info_.orientation == b.info_.orientation;
  }

 private:
  TakenBytes taken_;
  image::ImageInfo info_;
  std::uint32_t crc_ = 0;
};

/// Throws only if there is no memory.
Status fingerprint(image::Decoder& decoder, std::span<const std::byte> bytes, const Limits& limits,
                   Fingerprint& sink, bool strict_images = false) {
  image::DecodeJob job{bytes, &sink};
  decoder.decode({&job, 1}, {.orient = true, .strict_images = strict_images, .limits = limits});
  sink.decoded();
  if (!job.status.ok() && job.status.error().code() == ErrorCode::resource_exhausted)
    throw Error(job.status.error());
  return job.status;
}

template <typename T>
void put(std::vector<std::byte>& out, std::size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof(value));
}

/// Assembles a record from head, tables, index, payload, metadata and tail.
std::vector<std::byte> assemble(RecordKind kind, const Header& header, int orientation,
                                int interval, std::span<const RecordPart> parts,
                                std::span<const std::byte> payload,
                                std::span<const std::byte> metadata,
                                std::span<const std::byte> tail) {
  constexpr std::size_t kTable = kBlockSize * sizeof(std::uint16_t);
  const auto components = static_cast<std::size_t>(header.component_count);
  const std::size_t tables = kind == RecordKind::coefficients ? components * kTable : 0;
  const std::size_t fixed = kRecordHead + (tail.empty() ? 0 : kRecordTailHead);
  const std::size_t head = fixed + tables + parts.size_bytes();
  const std::size_t size = head + payload.size() + metadata.size() + kRecordSlack + tail.size();
  if (size > std::numeric_limits<std::uint32_t>::max()) return {};
  std::vector<std::byte> out(head);
  std::memcpy(out.data(), kRecordMagic.data(), kRecordMagic.size());
  put(out, 4, tail.empty() ? kRecordVersion : kRecordWithTail);
  put(out, 5, static_cast<std::uint8_t>(kind));
  put(out, 6, static_cast<std::uint8_t>(header.component_count));
  put(out, 7, static_cast<std::uint8_t>(header.color));
  put(out, 8, static_cast<std::uint16_t>(header.width));
  put(out, 10, static_cast<std::uint16_t>(header.height));
  put(out, 12, static_cast<std::uint8_t>(orientation));
  put(out, 16, static_cast<std::uint32_t>(head));
  put(out, 20, static_cast<std::uint32_t>(parts.size()));
  put(out, 24, static_cast<std::uint32_t>(payload.size()));
  put(out, 28, static_cast<std::uint32_t>(metadata.size()));
  put(out, 32, crc32c(metadata));
  for (std::size_t i = 0; i < components; ++i) {
    const Component& component = header.components[i];
    put(out, 40 + 4 * i, static_cast<std::uint8_t>(component.id));
    put(out, 41 + 4 * i, static_cast<std::uint8_t>(component.horizontal));
    put(out, 42 + 4 * i, static_cast<std::uint8_t>(component.vertical));
    if (tables > 0)
      std::memcpy(
          out.data() + fixed + i * kTable,
          header.quantisation[static_cast<std::size_t>(component.quantisation)].values.data(),
          kTable);
  }
  put(out, 52, static_cast<std::int32_t>(interval));
  if (!tail.empty()) {
    put(out, kRecordHead, static_cast<std::uint32_t>(tail.size()));
    put(out, kRecordHead + 4, crc32c(tail));
  }
  std::memcpy(out.data() + fixed + tables, parts.data(), parts.size_bytes());
  put(out, 36, crc32c(std::span(out).subspan(40), crc32c(std::span(out).first(36))));
  out.reserve(size);
  out.insert(out.end(), payload.begin(), payload.end());
  out.insert(out.end(), metadata.begin(), metadata.end());
  out.resize(out.size() + kRecordSlack);
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

std::vector<std::byte> pack(const CoefficientImage& image, int orientation,
                            std::span<const std::byte> tail) {
  const Header& header = image.header;
  const BlockGrid grid(header);
  std::vector<RecordPart> parts;
  std::vector<std::byte> payload;
  for (int imcu_row = 0; imcu_row < grid.imcu_rows; ++imcu_row) {
    for (int c = 0; c < header.component_count; ++c) {
      const auto place = static_cast<std::size_t>(c);
      const std::size_t values = static_cast<std::size_t>(grid.across[place]) * kBlockSize;
      const int first = imcu_row * header.components[place].vertical;
      for (int y = 0; y < grid.rows_in(imcu_row, c); ++y) {
        const std::size_t begin = payload.size();
        pack_row(std::span(image.blocks[place])
                     .subspan(static_cast<std::size_t>(first + y) * values, values),
                 payload);
        if (payload.size() > std::numeric_limits<std::uint32_t>::max()) return {};
        parts.push_back(
            {static_cast<std::uint32_t>(begin), crc32c(std::span(payload).subspan(begin))});
      }
    }
  }
  return assemble(RecordKind::coefficients, header, orientation, 0, parts, payload, image.metadata,
                  tail);
}

std::vector<std::byte> index(const CoefficientImage& image, int orientation,
                             const SharedTables* tables, std::span<const std::byte> tail) {
  const Header& header = image.header;
  const int interval = restart_interval_of(header);
  if (!encodable(image)) tables = nullptr;
  const std::vector<std::byte> jpeg =
      write_jpeg(image, {.restart_interval = interval, .tables = tables});
  Header written;
  if (read_header(jpeg, written) != Foreign::none || written.restart_interval != interval)
    return {};
  if (jpeg.size() > std::numeric_limits<std::uint32_t>::max()) return {};
  std::vector<RecordPart> parts{{0, 0}, {static_cast<std::uint32_t>(written.scan), 0}};
  // Among entropy-coded bytes, 0xff precedes a zero or a restart marker.
  for (std::size_t at = written.scan; at + 1 < jpeg.size(); ++at) {
    if (jpeg[at] != std::byte{0xff}) continue;
    const auto marker = std::to_integer<int>(jpeg[++at]);
    if (marker >= 0xd0 && marker <= 0xd7) parts.push_back({static_cast<std::uint32_t>(at + 1), 0});
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t end = i + 1 < parts.size() ? parts[i + 1].offset : jpeg.size();
    parts[i].crc = crc32c(std::span(jpeg).subspan(parts[i].offset, end - parts[i].offset));
  }
  return assemble(RecordKind::indexed, header, orientation, interval, parts, jpeg, {}, tail);
}

/// Reads all coefficients and the metadata of a record of coefficients.
CoefficientImage unpack(const Record& record) {
  record.check_rest();
  CoefficientImage image;
  image.header = record.header;
  image.metadata.assign(record.metadata.begin(), record.metadata.end());
  const Header& header = image.header;
  const BlockGrid grid(header);
  for (std::size_t place = 0; place < image.blocks.size(); ++place) {
    const auto blocks =
        static_cast<std::size_t>(grid.across[place]) * static_cast<std::size_t>(grid.down[place]);
    if (blocks <= record.payload.size()) image.blocks[place].reserve(blocks * kBlockSize);
  }
  for (int imcu_row = 0; imcu_row < grid.imcu_rows; ++imcu_row) {
    for (int c = 0; c < header.component_count; ++c) {
      const auto place = static_cast<std::size_t>(c);
      const auto across = static_cast<std::size_t>(grid.across[place]);
      std::vector<std::int16_t>& blocks = image.blocks[place];
      std::size_t part = grid.first_part(imcu_row, c);
      for (int y = 0; y < grid.rows_in(imcu_row, c); ++y, ++part) {
        const PackedRow row = open_row(record.read_part(part), grid.across[place]);
        // The vector grows row by row, so damaged sizes allocate little: a part of so many blocks
        // has at least as many bytes.
        const std::size_t begin = blocks.size();
        if (row.valid) blocks.resize(begin + across * kBlockSize);
        if (!row.valid || !unpack_row(row, std::span(blocks).subspan(begin)))
          throw Error(ErrorCode::data_loss,
                      "image record: part " + std::to_string(part) + " is no row of blocks");
      }
    }
  }
  return image;
}

}  // namespace

Made make_record(std::span<const std::byte> file, const MakeOptions& options) {
  thread_local const std::unique_ptr<image::Decoder> library = image::make_jpeg_decoder();
  thread_local const std::unique_ptr<image::Decoder> records = make_record_decoder();
  const Limits& limits = options.limits;
  Fingerprint original(options.budget);
  if (const Status status = fingerprint(*library, file, limits, original, options.strict_images);
      !status.ok())
    throw Error(status.error());
  TakenBytes taken(options.budget);
  CoefficientImage image;
  const Foreign foreign = read_coefficients(file, limits, image, &taken);
  if (foreign != Foreign::none) return {{}, name_of(foreign)};
  const int orientation = image::jpeg_orientation(file);
  // For the payload, the record and the JPEG that is made of it.
  taken.take(kRecordsOfAFile * file.size());
  try {
    Made made;
    made.tail = file.subspan(image.file_bytes);
    const auto kept = options.keep_tail ? made.tail : std::span<const std::byte>();
    made.record = options.kind == RecordKind::coefficients
                      ? pack(image, orientation, kept)
                      : index(image, orientation, options.tables, kept);
    if (made.record.size() > limits.max_record_bytes) return {{}, "size"};
    image = {};  // makes room for the same coefficients, read from the record
    Fingerprint same(options.budget);
    if (made.record.empty() || !fingerprint(*records, made.record, limits, same).ok() ||
        !(same == original))
      return {{}, "range"};
    // In that JPEG, metadata stands in front of the image, where a decoder may interpret it.
    Fingerprint again(options.budget);
    const std::vector<std::byte> jpeg = jpeg_of(read_record(made.record), limits);
    if (!fingerprint(*library, jpeg, limits, again).ok() || !(again == original))
      return {{}, "markers"};
    return made;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_range) throw;
    return {{}, "range"};
  }
}

std::vector<std::byte> jpeg_of(const Record& record, const Limits& limits) {
  image::check_pixels(static_cast<std::uint64_t>(record.header.width),
                      static_cast<std::uint64_t>(record.header.height), limits);
  if (record.kind == RecordKind::coefficients) return write_jpeg(unpack(record));
  record.check_all();
  return {record.payload.begin(), record.payload.end()};
}

}  // namespace penstock::jpeg
