#include "pipeline/jpeg/records/layout.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <penstock/internal/crc32c.h>

#include "pipeline/core/both.h"

namespace penstock::jpeg {

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::size_t kCrcAt = 36;
constexpr std::size_t kComponentsAt = 40;
constexpr std::size_t kTableBytes = kBlockSize * sizeof(std::uint16_t);

[[noreturn]] void refuse(const std::string& cause) {
  throw Error(ErrorCode::data_loss, "image record: " + cause);
}

template <typename T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

int byte_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  return std::to_integer<int>(bytes[at]);
}

using both::divide_up;

void read_components(std::span<const std::byte> head, Header& header) {
  int blocks = 0;
  for (int i = 0; i < header.component_count; ++i) {
    const std::size_t at = kComponentsAt + 4 * static_cast<std::size_t>(i);
    Component& component = header.components[static_cast<std::size_t>(i)];
    component.id = byte_at(head, at);
    component.horizontal = byte_at(head, at + 1);
    component.vertical = byte_at(head, at + 2);
    component.quantisation = i;
    if (component.horizontal < 1 || component.horizontal > kMaxFactor || component.vertical < 1 ||
        component.vertical > kMaxFactor)
      refuse("invalid sampling factors");
    header.max_horizontal = std::max(header.max_horizontal, component.horizontal);
    header.max_vertical = std::max(header.max_vertical, component.vertical);
    blocks += component.horizontal * component.vertical;
  }
  if (header.component_count == 3 && blocks > kMaxBlocksInMcu) refuse("invalid sampling factors");
}

void read_tables(const std::byte* at, Header& header) {
  for (int i = 0; i < header.component_count; ++i) {
    Quantisation& table = header.quantisation[static_cast<std::size_t>(i)];
    std::memcpy(table.values.data(), at + static_cast<std::size_t>(i) * kTableBytes, kTableBytes);
    table.given = true;
  }
}

}  // namespace

const char* name_of(RecordKind kind) noexcept {
  return kind == RecordKind::coefficients ? "coefficients" : "indexed";
}

RecordPart Record::part(std::size_t i) const noexcept {
  return load<RecordPart>(parts + i * sizeof(RecordPart));
}

std::span<const std::byte> Record::read_part(std::size_t i) const {
  const RecordPart here = part(i);
  const std::size_t end = i + 1 < part_count ? part(i + 1).offset : payload.size();
  if (here.offset > end || end > payload.size()) refuse("its index is out of order");
  const std::span<const std::byte> bytes = payload.subspan(here.offset, end - here.offset);
  if (crc32c(bytes) != here.crc)
    refuse("part " + std::to_string(i) + " of " + std::to_string(part_count) + " fails its CRC32C");
  return bytes;
}

std::span<const std::byte> Record::read_tail() const {
  if (crc32c(tail) != tail_crc) refuse("the tail fails its CRC32C");
  return tail;
}

void Record::check_rest() const {
  if (crc32c(metadata) != metadata_crc) refuse("the metadata fails its CRC32C");
  const std::byte* slack = metadata.data() + metadata.size();
  if (std::any_of(slack, slack + kRecordSlack, [](std::byte b) { return b != std::byte{0}; }))
    refuse("its end is not zero");
}

void Record::check_all() const {
  for (std::size_t i = 0; i < part_count; ++i) static_cast<void>(read_part(i));
  check_rest();
}

bool is_record(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kRecordMagic.size() &&
         std::memcmp(bytes.data(), kRecordMagic.data(), kRecordMagic.size()) == 0;
}

Record read_record(std::span<const std::byte> bytes) {
  if (!is_record(bytes) || bytes.size() < kRecordHead) refuse("it is cut off");
  const int version = byte_at(bytes, 4);
  if (version != kRecordVersion && version != kRecordWithTail)
    refuse("version " + std::to_string(version) + " is not supported");
  const bool tailed = version == kRecordWithTail;
  const std::size_t fixed_bytes = kRecordHead + (tailed ? kRecordTailHead : 0);
  const auto head_bytes = std::size_t{load<std::uint32_t>(bytes.data() + 16)};
  const auto part_count = std::size_t{load<std::uint32_t>(bytes.data() + 20)};
  const auto payload_bytes = std::size_t{load<std::uint32_t>(bytes.data() + 24)};
  const auto metadata_bytes = std::size_t{load<std::uint32_t>(bytes.data() + 28)};
  if (head_bytes < fixed_bytes || head_bytes > bytes.size()) refuse("it is cut off");
  const std::uint32_t crc =
      crc32c(bytes.subspan(kComponentsAt, head_bytes - kComponentsAt), crc32c(bytes.first(kCrcAt)));
  if (crc != load<std::uint32_t>(bytes.data() + kCrcAt)) refuse("the head fails its CRC32C");
  const auto tail_bytes =
      tailed ? std::size_t{load<std::uint32_t>(bytes.data() + kRecordHead)} : std::size_t{0};
  if (bytes.size() != head_bytes + payload_bytes + metadata_bytes + kRecordSlack + tail_bytes)
    refuse("its length differs from the length in its header");

  Record record;
  Header& header = record.header;
  const int kind = byte_at(bytes, 5);
  header.component_count = byte_at(bytes, 6);
  const int color = byte_at(bytes, 7);
  header.width = load<std::uint16_t>(bytes.data() + 8);
  header.height = load<std::uint16_t>(bytes.data() + 10);
  record.orientation = byte_at(bytes, 12);
  record.metadata_crc = load<std::uint32_t>(bytes.data() + 32);
  record.interval = load<std::int32_t>(bytes.data() + 52);
  if (kind != 1 && kind != 2) refuse("its kind is not supported");
  record.kind = static_cast<RecordKind>(kind);
  if (header.component_count != 1 && header.component_count != 3)
    refuse("neither 1 nor 3 components");
  if (color > 2 || (color == 0) != (header.component_count == 1))
    refuse("its color model is invalid");
  header.color = static_cast<ColorModel>(color);
  if (header.width < 1 || header.height < 1 || header.width > kMaxSide ||
      header.height > kMaxSide || record.orientation < 1 || record.orientation > 8)
    refuse("invalid dimensions");
  read_components(bytes, header);
  const bool packed = record.kind == RecordKind::coefficients;
  const std::size_t tables =
      packed ? static_cast<std::size_t>(header.component_count) * kTableBytes : 0;
  if (part_count > head_bytes / sizeof(RecordPart) ||
      head_bytes != fixed_bytes + tables + part_count * sizeof(RecordPart))
    refuse("its index's length differs from the length in its header");
  if (packed) read_tables(bytes.data() + fixed_bytes, header);
  if (packed ? part_count != BlockGrid(header).part_count() : part_count < 1)
    refuse("its index does not fit its dimensions");
  record.part_count = part_count;
  record.parts = bytes.data() + fixed_bytes + tables;
  record.payload = bytes.subspan(head_bytes, payload_bytes);
  record.metadata = bytes.subspan(head_bytes + payload_bytes, metadata_bytes);
  record.tail = bytes.last(tail_bytes);
  if (tailed) record.tail_crc = load<std::uint32_t>(bytes.data() + kRecordHead + 4);
  if (record.part(0).offset != 0) refuse("its index is out of order");
  return record;
}

int restart_interval_of(const Header& header) noexcept {
  constexpr int kMost = 8;
  constexpr int kFew = 4;
  const int factor = header.component_count == 1 ? 1 : header.max_horizontal;
  const int mcus = (header.width + factor * kBlockSide - 1) / (factor * kBlockSide);
  if (mcus <= kMost) return mcus;
  for (const int count : {6, 7, 5, 8, 4}) {
    if (mcus % count == 0) return mcus / count;
  }
  return std::max(kFew, (mcus + 5) / 6);
}

BlockGrid::BlockGrid(const Header& header) noexcept {
  for (int c = 0; c < header.component_count; ++c) {
    const auto place = static_cast<std::size_t>(c);
    const Component& component = header.components[place];
    across[place] =
        divide_up(header.width * component.horizontal, header.max_horizontal * kBlockSide);
    each[place] = component.vertical;
    down[place] = divide_up(header.height * component.vertical, header.max_vertical * kBlockSide);
  }
  imcu_rows = divide_up(header.height, header.max_vertical * kBlockSide);
}

int BlockGrid::rows_in(int imcu_row, int c) const noexcept {
  const auto place = static_cast<std::size_t>(c);
  return std::clamp(down[place] - imcu_row * each[place], 0, each[place]);
}

std::size_t BlockGrid::first_part(int imcu_row, int c) const noexcept {
  std::size_t first = 0;
  for (int i = 0; i < static_cast<int>(each.size()); ++i) {
    // All iMCU rows but the last are full.
    first += static_cast<std::size_t>(imcu_row * each[static_cast<std::size_t>(i)]);
    if (i < c) first += static_cast<std::size_t>(rows_in(imcu_row, i));
  }
  return first;
}

std::size_t BlockGrid::part_count() const noexcept {
  std::size_t count = 0;
  for (const int rows : down) count += static_cast<std::size_t>(rows);
  return count;
}

}  // namespace penstock::jpeg
