#include "pipeline/jpeg/records/packed_row.h"

#include <bit>
#include <cstring>

#include "pipeline/jpeg/header.h"

namespace penstock::jpeg {

namespace {

constexpr std::size_t kRowHead = 3 * sizeof(std::uint32_t);

/// The entries of the streams that stand for values of more bits.
constexpr std::uint8_t kInBytes = 0;     // in the stream of nibbles
constexpr std::uint8_t kInWords = 0x80;  // in the stream of bytes

bool fits_nibble(int value) noexcept {
  return value >= -8 && value <= 7;
}
bool fits_byte(int value) noexcept {
  return value >= -127 && value <= 127;
}

void append(std::vector<std::byte>& out, const std::vector<std::uint8_t>& stream) {
  const auto* bytes = reinterpret_cast<const std::byte*>(stream.data());
  out.insert(out.end(), bytes, bytes + stream.size());
}

void append_size(std::vector<std::byte>& out, std::size_t size) {
  const auto value = static_cast<std::uint32_t>(size);
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(value));
}

}  // namespace

void pack_row(std::span<const std::int16_t> blocks, std::vector<std::byte>& out) {
  std::vector<std::uint8_t> dcs;
  std::vector<std::uint8_t> presences;
  std::vector<std::uint8_t> masks;
  std::vector<std::uint8_t> nibbles;
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> words;
  const auto put_word = [](std::vector<std::uint8_t>& stream, std::int16_t value) {
    stream.push_back(static_cast<std::uint8_t>(value & 255));
    stream.push_back(static_cast<std::uint8_t>(static_cast<std::uint16_t>(value) >> 8));
  };
  for (std::size_t block = 0; block < blocks.size(); block += kBlockSize) {
    put_word(dcs, blocks[block]);
    std::uint8_t presence = 0;
    bool half = false;
    for (std::size_t y = 0; y < 8; ++y) {
      std::uint8_t mask = 0;
      for (std::size_t x = 0; x < 8; ++x) {
        const std::int16_t value = blocks[block + 8 * y + x];
        if (value == 0 || y + x == 0) continue;
        mask = static_cast<std::uint8_t>(mask | 1U << x);
        const std::uint8_t nibble =
            fits_nibble(value) ? static_cast<std::uint8_t>(value & 15) : kInBytes;
        if (half) {
          nibbles.back() = static_cast<std::uint8_t>(nibbles.back() | nibble << 4);
        } else {
          nibbles.push_back(nibble);
        }
        half = !half;
        if (fits_nibble(value)) continue;
        bytes.push_back(fits_byte(value) ? static_cast<std::uint8_t>(value & 255) : kInWords);
        if (fits_byte(value)) continue;
        put_word(words, value);
      }
      if (mask == 0) continue;
      presence = static_cast<std::uint8_t>(presence | 1U << y);
      masks.push_back(mask);
    }
    presences.push_back(presence);
  }
  append_size(out, masks.size());
  append_size(out, nibbles.size());
  append_size(out, bytes.size());
  for (const auto* stream : {&dcs, &presences, &masks, &nibbles, &bytes, &words})
    append(out, *stream);
}

PackedRow open_row(std::span<const std::byte> part, int count) noexcept {
  PackedRow row;
  const auto presences = static_cast<std::size_t>(count);
  const std::size_t dcs = presences * sizeof(std::int16_t);
  if (part.size() < kRowHead + dcs + presences) return row;
  std::uint32_t sizes[3];
  std::memcpy(sizes, part.data(), sizeof(sizes));
  const std::size_t streams = part.size() - kRowHead - dcs - presences;
  const std::uint64_t all = std::uint64_t{sizes[0]} + sizes[1] + sizes[2];
  if (all > streams || (streams - all) % 2 != 0) return row;
  row.dcs = reinterpret_cast<const std::uint8_t*>(part.data()) + kRowHead;
  row.presences = row.dcs + dcs;
  row.masks = row.presences + presences;
  row.masks_end = row.nibbles = row.masks + sizes[0];
  row.nibbles_end = row.bytes = row.nibbles + sizes[1];
  row.bytes_end = row.words = row.bytes + sizes[2];
  row.words_end = reinterpret_cast<const std::uint8_t*>(part.data()) + part.size();
  row.valid = true;
  return row;
}

bool unpack_row(const PackedRow& row, std::span<std::int16_t> blocks) noexcept {
  PackedRow at = row;
  for (std::size_t block = 0; block < blocks.size(); block += kBlockSize, at.dcs += 2) {
    std::int16_t* out = blocks.data() + block;
    std::memset(out, 0, kBlockSize * sizeof(*out));
    bool half = false;
    const unsigned presence = *at.presences++;
    for (unsigned rows = presence; rows != 0; rows &= rows - 1) {
      const auto y = static_cast<std::size_t>(std::countr_zero(rows));
      if (at.masks == at.masks_end) return false;
      const unsigned mask = *at.masks++;
      if (mask == 0) return false;
      for (unsigned columns = mask; columns != 0; columns &= columns - 1) {
        const auto x = static_cast<std::size_t>(std::countr_zero(columns));
        if (at.nibbles == at.nibbles_end || y + x == 0) return false;
        const unsigned nibble = half ? *at.nibbles >> 4 : *at.nibbles & 15U;
        at.nibbles += half ? 1 : 0;
        half = !half;
        int value = static_cast<int>(nibble ^ 8U) - 8;
        if (nibble == kInBytes) {
          if (at.bytes == at.bytes_end) return false;
          value = static_cast<std::int8_t>(*at.bytes);
          if (*at.bytes++ == kInWords) {
            if (at.words == at.words_end) return false;
            value = static_cast<std::int16_t>(at.words[0] | at.words[1] << 8);
            at.words += 2;
          }
        }
        out[8 * y + x] = static_cast<std::int16_t>(value);
      }
    }
    if (half) {
      if (*at.nibbles >> 4 != 0) return false;
      ++at.nibbles;
    }
    out[0] = static_cast<std::int16_t>(at.dcs[0] | at.dcs[1] << 8);
  }
  return at.masks == at.masks_end && at.nibbles == at.nibbles_end && at.bytes == at.bytes_end &&
         at.words == at.words_end;
}

}  // namespace penstock::jpeg
