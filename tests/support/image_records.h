// Damage to image records that their checksums do not show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <penstock/internal/crc32c.h>

#include "pipeline/jpeg/records/layout.h"

namespace penstock::test {

/// Corrects every CRC32C of an image record, as far as its lengths are plausible.
inline void sign_record(std::span<std::byte> record) {
  constexpr std::size_t kPart = sizeof(jpeg::RecordPart);
  if (record.size() < jpeg::kRecordHead) return;
  const auto word = [&](std::size_t at) {
    std::uint32_t value;
    std::memcpy(&value, record.data() + at, sizeof(value));
    return std::size_t{value};
  };
  const auto put = [&](std::size_t at, std::uint32_t value) {
    std::memcpy(record.data() + at, &value, sizeof(value));
  };
  const std::size_t head = word(16);
  const std::size_t parts = word(20);
  const std::size_t payload = word(24);
  const std::size_t metadata = word(28);
  if (head > record.size() || parts > head / kPart || head < jpeg::kRecordHead + kPart * parts ||
      head + payload + metadata > record.size())
    return;
  const std::size_t index = head - kPart * parts;
  const std::span<const std::byte> all(record);
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t begin = word(index + kPart * i);
    const std::size_t end = i + 1 < parts ? word(index + kPart * (i + 1)) : payload;
    if (begin <= end && end <= payload)
      put(index + kPart * i + 4, crc32c(all.subspan(head + begin, end - begin)));
  }
  put(32, crc32c(all.subspan(head + payload, metadata)));
  const bool tailed = record[4] == std::byte{jpeg::kRecordWithTail};
  if (tailed && head >= jpeg::kRecordHead + jpeg::kRecordTailHead) {
    const std::size_t tail = word(jpeg::kRecordHead);
    if (tail <= record.size() - head - payload - metadata)
      put(jpeg::kRecordHead + 4, crc32c(all.last(tail)));
  }
  put(36, crc32c(all.subspan(40, head - 40), crc32c(all.first(36))));
}

/// Corrects the checksums of a file of records: those of its header and frames, and those inside
/// and after the frames.
inline void sign_records(std::string& file) {
  const auto bytes = std::as_writable_bytes(std::span(file));
  const auto load = [&]<typename T>(std::size_t at, T value) {
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
  };
  const auto put = [&](std::size_t at, std::uint32_t value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  };
  constexpr std::size_t kHeader = 64;
  constexpr std::size_t kFrame = 48;
  constexpr std::size_t kFooter = 32;
  if (file.size() < kHeader + kFooter) return;
  put(60, crc32c(bytes.first(60)));
  for (std::size_t at = kHeader; at + kFrame <= file.size();) {
    const std::size_t key = load(at + 8, std::uint32_t{});
    const std::size_t image = load(at + 12, std::uint32_t{});
    if (key + image > file.size() - at - kFrame) break;
    const auto held = bytes.subspan(at + kFrame + key, image);
    if (load(at + 4, std::uint32_t{}) == 0) sign_record(held);
    put(at + 40, crc32c(held));
    put(at + 44, crc32c(bytes.subspan(at + kFrame, key), crc32c(bytes.subspan(at, 44))));
    at += kFrame + key + image;
  }
  const std::size_t footer = file.size() - kFooter;
  const auto offset = load(footer, std::uint64_t{});
  const auto size = load(footer + 8, std::uint64_t{});
  if (offset <= footer && size <= footer - offset)
    put(footer + 16, crc32c(bytes.subspan(offset, size)));
  put(footer + 20, crc32c(bytes.subspan(footer, 20)));
}

}  // namespace penstock::test
