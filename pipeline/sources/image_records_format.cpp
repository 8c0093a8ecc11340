#include "pipeline/sources/image_records_format.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <penstock/internal/crc32c.h>
#include <penstock/internal/other_format.h>

namespace penstock::records_file {

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kVersionWithTails = 2;
constexpr std::array<char, 4> kFrameMagic = {'P', 'R', 'E', 'C'};
constexpr std::array<char, 8> kFooterMagic = {'P', 'N', 'S', 'T', 'R', 'E', 'C', 'E'};
constexpr std::size_t kFrameCrcAt = 44;
constexpr std::size_t kIndexHead = 4 * sizeof(std::uint64_t);

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}
template <typename T>
void store(std::span<std::byte> bytes, std::size_t at, const T& value) noexcept {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}
template <std::size_t N>
bool starts_with(std::span<const std::byte> bytes, const std::array<char, N>& magic) noexcept {
  return bytes.size() >= N && std::memcmp(bytes.data(), magic.data(), N) == 0;
}

std::uint32_t frame_crc(std::span<const std::byte> frame_and_key) noexcept {
  return crc32c(frame_and_key.subspan(kFrameBytes), crc32c(frame_and_key.first(kFrameCrcAt)));
}

[[noreturn]] void refuse(const File& file, std::uint64_t offset, const std::string& cause) {
  throw Error(ErrorCode::data_loss, "image records: " + cause,
              {.shard = file.path(), .offset = static_cast<std::int64_t>(offset), .stage = {}});
}

/// Returns the kind of the records, or nothing if the bytes are no header. Refuses an unknown
/// version.
std::optional<ImageRecordKind> parse_header(const File& file, std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes || !starts_with(bytes, kMagic)) return std::nullopt;
  if (crc32c(bytes.first(60)) != load<std::uint32_t>(bytes, 60)) return std::nullopt;
  const auto version = load<std::uint32_t>(bytes, 8);
  if (version != kVersion && version != kVersionWithTails)
    refuse(file, 8, "version " + std::to_string(version) + " is not supported");
  const auto kind = load<std::uint32_t>(bytes, 12);
  if (kind != 1 && kind != 2) return std::nullopt;
  return static_cast<ImageRecordKind>(kind);
}

}  // namespace

std::array<std::byte, kHeaderBytes> make_header(ImageRecordKind kind, bool tails) {
  std::array<std::byte, kHeaderBytes> bytes{};
  store(bytes, 0, kMagic);
  store(bytes, 8, tails ? kVersionWithTails : kVersion);
  store(bytes, 12, static_cast<std::uint32_t>(kind));
  store(bytes, 60, crc32c(std::span(bytes).first(60)));
  return bytes;
}

std::vector<std::byte> make_frame(const Frame& frame, std::string_view key) {
  std::vector<std::byte> bytes(kFrameBytes + key.size());
  store(bytes, 0, kFrameMagic);
  store(bytes, 4, static_cast<std::uint8_t>(frame.as_it_is ? 1 : 0));
  store(bytes, 8, static_cast<std::uint32_t>(frame.key_bytes));
  store(bytes, 12, static_cast<std::uint32_t>(frame.image_bytes));
  store(bytes, 16, frame.label);
  store(bytes, 24, frame.number);
  store(bytes, 32, frame.original_bytes);
  store(bytes, 40, frame.image_crc);
  if (!key.empty()) std::memcpy(bytes.data() + kFrameBytes, key.data(), key.size());
  store(bytes, kFrameCrcAt, frame_crc(bytes));
  return bytes;
}

std::optional<Frame> parse_frame(std::span<const std::byte> bytes, const Limits& limits) {
  if (bytes.size() < kFrameBytes || !starts_with(bytes, kFrameMagic)) return std::nullopt;
  Frame frame;
  const auto form = load<std::uint32_t>(bytes, 4);
  frame.as_it_is = form == 1;
  frame.key_bytes = load<std::uint32_t>(bytes, 8);
  frame.image_bytes = load<std::uint32_t>(bytes, 12);
  frame.label = load<std::int64_t>(bytes, 16);
  frame.number = load<std::uint64_t>(bytes, 24);
  frame.original_bytes = load<std::uint64_t>(bytes, 32);
  frame.image_crc = load<std::uint32_t>(bytes, 40);
  if (form > 1 || frame.key_bytes > limits.max_name_bytes ||
      frame.image_bytes > limits.max_record_bytes)
    return std::nullopt;
  return frame;
}

bool frame_is_sound(std::span<const std::byte> frame_and_key) {
  return frame_and_key.size() >= kFrameBytes &&
         frame_crc(frame_and_key) == load<std::uint32_t>(frame_and_key, kFrameCrcAt);
}

std::vector<std::byte> make_index(const Contents& contents, std::uint64_t offset) {
  std::vector<std::byte> bytes;
  const auto put = [&](const void* data, std::size_t size) {
    const std::size_t at = bytes.size();
    bytes.resize(at + size);
    if (size > 0) std::memcpy(bytes.data() + at, data, size);
  };
  const auto number = [&](std::uint64_t value) { put(&value, sizeof(value)); };
  number(contents.entries.size());
  number(contents.class_names.size());
  number(contents.as_they_are);
  number(0);
  put(contents.entries.data(), contents.entries.size() * sizeof(IndexEntry));
  for (const std::string& name : contents.class_names) {
    const auto size = static_cast<std::uint32_t>(name.size());
    put(&size, sizeof(size));
    put(name.data(), name.size());
  }
  std::array<std::byte, kFooterBytes> footer{};
  store(footer, 0, offset);
  store(footer, 8, std::uint64_t{bytes.size()});
  store(footer, 16, crc32c(bytes));
  store(footer, 20, crc32c(std::span(footer).first(20)));
  store(footer, 24, kFooterMagic);
  put(footer.data(), footer.size());
  return bytes;
}

ShardIndex scan(File& file, const Limits& limits) {
  const std::uint64_t size = file.info().size;
  std::array<std::byte, kHeaderBytes> header{};
  std::array<std::byte, kFooterBytes> footer{};
  const auto refuse_start = [&file](const char* cause) {
    refuse_other_format(file);
    refuse(file, 0, cause);
  };
  if (size < kHeaderBytes + kIndexHead + kFooterBytes)
    refuse_start("no file of image records, or one that is cut off");
  file.read_exactly(0, header);
  const auto kind = parse_header(file, header);
  if (!kind) refuse_start("no file of image records, or one with a damaged header");
  file.read_exactly(size - kFooterBytes, footer);
  const auto offset = load<std::uint64_t>(footer, 0);
  const auto bytes = load<std::uint64_t>(footer, 8);
  if (std::memcmp(footer.data() + 24, kFooterMagic.data(), kFooterMagic.size()) != 0 ||
      crc32c(std::span(footer).first(20)) != load<std::uint32_t>(footer, 20))
    refuse(file, size - kFooterBytes, "the file is cut off, or its footer damaged");
  if (offset < kHeaderBytes || bytes < kIndexHead || offset > size ||
      bytes != size - kFooterBytes - offset)
    refuse(file, size - kFooterBytes, "the footer points beyond the file");
  std::array<std::byte, kIndexHead> head{};
  file.read_exactly(offset, head);
  const auto count = load<std::uint64_t>(head, 0);
  const auto classes = load<std::uint64_t>(head, 8);
  const auto as_they_are = load<std::uint64_t>(head, 16);
  const std::uint64_t room = bytes - kIndexHead;
  if (count > limits.max_members || count > room / sizeof(IndexEntry))
    refuse(file, offset, "more records than the index holds, or than the limit");
  if (as_they_are > count) refuse(file, offset, "more unchanged images than images");
  // Sizes that no records and names could have are rejected before anything is read.
  const std::uint64_t names = room - count * sizeof(IndexEntry);
  if (classes > limits.max_members || classes > names / sizeof(std::uint32_t) ||
      names > classes * (sizeof(std::uint32_t) + limits.max_name_bytes))
    refuse(file, offset, "more class names than the index holds, or longer ones than the limit");
  std::vector<std::byte> index(bytes);
  file.read_exactly(offset, index);
  if (crc32c(index) != load<std::uint32_t>(footer, 16))
    refuse(file, offset, "the index fails its CRC32C");
  std::span<const std::byte> rest = std::span<const std::byte>(index).subspan(kIndexHead);
  ShardIndex result;
  result.entries.resize(count);
  if (count > 0) std::memcpy(result.entries.data(), rest.data(), count * sizeof(IndexEntry));
  rest = rest.subspan(count * sizeof(IndexEntry));
  std::uint64_t end = kHeaderBytes;
  for (const IndexEntry& entry : result.entries) {
    if (entry.offset != end || entry.size < kFrameBytes || entry.size > offset - end)
      refuse(file, offset, "the index does not fit the file");
    end += entry.size;
  }
  if (end != offset) refuse(file, offset, "the index does not fit the file");
  result.notes.push_back(std::to_string(static_cast<int>(*kind)));
  result.notes.push_back(std::to_string(as_they_are));
  for (std::uint64_t i = 0; i < classes; ++i) {
    if (rest.size() < sizeof(std::uint32_t)) refuse(file, offset, "class names are cut off");
    const auto length = load<std::uint32_t>(rest, 0);
    rest = rest.subspan(sizeof(std::uint32_t));
    if (length > rest.size() || length > limits.max_name_bytes)
      refuse(file, offset, "class names are cut off, or longer than the limit");
    result.notes.emplace_back(reinterpret_cast<const char*>(rest.data()), length);
    rest = rest.subspan(length);
  }
  if (!rest.empty()) refuse(file, offset, "there are bytes after the index");
  return result;
}

}  // namespace penstock::records_file
