#include "pipeline/jpeg/padding.h"

#include <array>
#include <cstdint>

#include "pipeline/core/both.h"
#include "pipeline/jpeg/bits.h"
#include "pipeline/jpeg/header.h"
#include "pipeline/jpeg/huffman.h"

namespace penstock::jpeg {

namespace {

using both::divide_up;

/// The bits left in the byte at which the reader stands are ones.
bool at_padding(Bits& bits) noexcept {
  refill_slowly(bits);
  const int left = bits.count - bits.missing;
  if (left < 0) return false;
  const int rest = left % 8;
  return rest == 0 || bits.window >> (64 - rest) == (std::uint64_t{1} << rest) - 1;
}

/// Continues behind the next marker. Returns false if it is another one.
bool pass_marker(Bits& bits, std::uint8_t marker) noexcept {
  for (const std::uint8_t* at = bits.next; at < bits.end; ++at) {
    if (*at != 0xff) continue;
    while (at != bits.end && *at == 0xff) ++at;
    if (at == bits.end) return false;
    if (*at == 0) continue;
    const bool found = *at == marker;
    begin_bits(bits, {at + 1, bits.end});
    return found;
  }
  return false;
}

bool pass_block(Bits& bits, const DcTable& dc, const AcTable& ac) noexcept {
  refill_slowly(bits);
  const int size = take_symbol(bits, dc.code);
  if (size < 0) return false;
  static_cast<void>(take_value(bits, size));
  unsigned k = 1;
  while (k < kBlockSize) k = take_run(bits, ac.code, k, nullptr);
  return k != kBadBlock;
}

}  // namespace

bool is_padded(std::span<const std::byte> file) {
  struct Part {
    const DcTable* dc = nullptr;
    const AcTable* ac = nullptr;
    int blocks = 1;
  };
  Header header;
  if (read_header(file, header) != Foreign::none) return true;
  TableCache tables;
  tables.begin();
  std::array<Part, 3> parts;
  const bool single = header.component_count == 1;
  for (int i = 0; i < header.component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const Component& component = header.components[place];
    parts[place].dc = tables.dc(header.dc[static_cast<std::size_t>(component.dc)]);
    parts[place].ac = tables.ac(header.ac[static_cast<std::size_t>(component.ac)]);
    if (parts[place].dc == nullptr || parts[place].ac == nullptr) return true;
    if (!single) parts[place].blocks = component.horizontal * component.vertical;
  }
  const int across = kBlockSide * (single ? 1 : header.max_horizontal);
  const int down = kBlockSide * (single ? 1 : header.max_vertical);
  const std::int64_t mcus =
      std::int64_t{divide_up(header.width, across)} * divide_up(header.height, down);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(file.data());
  Bits bits;
  begin_bits(bits, {bytes + header.scan, file.size() - header.scan});
  int restart = 0;
  for (std::int64_t mcu = 0; mcu < mcus; ++mcu) {
    if (header.restart_interval > 0 && mcu > 0 && mcu % header.restart_interval == 0) {
      if (!at_padding(bits) || !pass_marker(bits, static_cast<std::uint8_t>(0xd0 + restart)))
        return false;
      restart = (restart + 1) & 7;
    }
    for (int i = 0; i < header.component_count; ++i) {
      const Part& part = parts[static_cast<std::size_t>(i)];
      for (int block = 0; block < part.blocks; ++block)
        if (!pass_block(bits, *part.dc, *part.ac)) return false;
    }
    if (bits.count < bits.missing) return false;
  }
  return at_padding(bits);
}

}  // namespace penstock::jpeg
