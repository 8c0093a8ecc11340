#include "pipeline/jpeg/huffman.h"

#include <algorithm>
#include <cstddef>

namespace penstock::jpeg {

namespace {

/// The number of tables that are kept. No file has more.
constexpr std::size_t kKeep = 16;
constexpr unsigned kWindow = 5;  // coefficients in an entry of `runs`

bool build(const HuffmanSpec& spec, Code& code) {
  code.short_codes.fill(0);
  code.spec = spec;
  code.limits.fill(0);
  code.offsets.fill(0);
  std::uint32_t next = 0;
  std::size_t index = 0;
  for (int length = 1; length <= 16; ++length) {
    const std::size_t count = spec.counts[static_cast<std::size_t>(length - 1)];
    if (index + count > spec.symbols.size()) return false;
    const auto place = static_cast<std::size_t>(length);
    code.offsets[place] = static_cast<std::int32_t>(index) - static_cast<std::int32_t>(next);
    for (std::size_t i = 0; i < count; ++i, ++index, ++next) {
      if (length > kTableBits) continue;
      const int spare = kTableBits - length;
      const auto first = static_cast<std::size_t>(next) << spare;
      if (first >= kTableSize) return false;
      const auto entry = static_cast<std::uint16_t>(length | spec.symbols[index] << 8);
      std::fill_n(code.short_codes.begin() + static_cast<std::ptrdiff_t>(first),
                  std::size_t{1} << spare, entry);
    }
    // No code may be all ones.
    if (count > 0 && next >= std::uint32_t{1} << length) return false;
    code.limits[place] = next << (16 - length);
    next <<= 1;
  }
  code.limits[17] = ~0U;
  return true;
}

/// The meaning of the symbol at the top of the index.
struct Step {
  std::uint8_t bits = kTableBits + 1;  ///< more than there are: the symbol does not fit
  std::uint8_t length = 0;             ///< coefficients that it stands for, or kEndOfBlock
  std::int16_t value = 0;              ///< of the last of these coefficients
};
using Steps = std::array<Step, kTableSize>;

Step step_of(const Code& code, unsigned index) {
  const std::uint16_t entry = code.short_codes[index];
  const int length = entry & 255;
  const int size = entry >> 8 & 15;
  const int run = entry >> 12;
  if (length == 0 || length + size > kTableBits) return {};
  Step step;
  step.bits = static_cast<std::uint8_t>(length + size);
  step.length = static_cast<std::uint8_t>(run + 1);
  if (size == 0) {
    if (run != 15) step.length = kEndOfBlock;
    return step;
  }
  const int bits = static_cast<int>(index >> (kTableBits - step.bits)) & ((1 << size) - 1);
  step.value = static_cast<std::int16_t>(bits >= 1 << (size - 1) ? bits : bits + 1 - (1 << size));
  return step;
}

/// Returns the entry for as many symbols as fit.
std::uint64_t run_of(const Steps& steps, unsigned index) {
  unsigned bits = 0;
  unsigned length = 0;
  unsigned first = 0;  // where the window begins
  std::uint64_t values = 0;
  while (length < kBlockSize) {
    const Step step = steps[index << bits & (kTableSize - 1)];
    if (bits + step.bits > kTableBits) break;
    if (step.length == kEndOfBlock) {
      bits += step.bits;
      length += kEndOfBlock;
      break;
    }
    if (length + step.length > kBlockSize) break;
    if (step.value != 0) {
      const unsigned at = length + step.length - 1;
      if (values == 0) first = at;
      if (at - first >= kWindow || step.value > 127 || step.value < -128) break;
      const auto byte = static_cast<std::uint64_t>(static_cast<std::uint8_t>(step.value));
      values |= byte << (8 * (at - first));
    }
    bits += step.bits;
    length += step.length;
  }
  if (bits == 0) return 0;
  return std::uint64_t{bits} | std::uint64_t{length} << 8 | std::uint64_t{first} << 16 |
         values << 24;
}

std::unique_ptr<AcTable> build_ac(const HuffmanSpec& spec, std::unique_ptr<AcTable> table) {
  if (!table) table = std::make_unique_for_overwrite<AcTable>();
  table->has_runs = false;
  if (!build(spec, table->code)) return nullptr;
  return table;
}

std::unique_ptr<DcTable> build_dc(const HuffmanSpec& spec, std::unique_ptr<DcTable> table) {
  if (!table) table = std::make_unique_for_overwrite<DcTable>();
  if (!build(spec, table->code)) return nullptr;
  std::size_t count = 0;
  for (const std::uint8_t of_length : spec.counts) count += of_length;
  const auto end = spec.symbols.begin() + static_cast<std::ptrdiff_t>(count);
  if (std::any_of(spec.symbols.begin(), end, [](std::uint8_t symbol) { return symbol > 15; }))
    return nullptr;
  return table;
}

}  // namespace

void prepare_runs(AcTable& table) noexcept {
  if (table.has_runs) return;
  Steps steps;
  for (unsigned i = 0; i < kTableSize; ++i) steps[i] = step_of(table.code, i);
  for (unsigned i = 0; i < kTableSize; ++i) table.runs[i] = run_of(steps, i);
  table.has_runs = true;
}

void TableCache::begin() noexcept {
  ++file_;
}

template <typename Table, typename Build>
Table* TableCache::find(std::vector<Entry<Table>>& entries, const HuffmanSpec& spec,
                        Build build_table) {
  for (Entry<Table>& entry : entries) {
    if (entry.table && entry.table->code.spec == spec) {
      entry.used = file_;
      return entry.table.get();
    }
  }
  if (entries.size() < kKeep) entries.emplace_back();
  Entry<Table>& oldest = *std::min_element(
      entries.begin(), entries.end(),
      [](const Entry<Table>& a, const Entry<Table>& b) { return a.used < b.used; });
  oldest.table = build_table(spec, std::move(oldest.table));
  oldest.used = oldest.table ? file_ : 0;
  return oldest.table.get();
}

AcTable* TableCache::ac(const HuffmanSpec& spec) {
  return find(ac_, spec, build_ac);
}

const DcTable* TableCache::dc(const HuffmanSpec& spec) {
  return find(dc_, spec, build_dc);
}

}  // namespace penstock::jpeg
