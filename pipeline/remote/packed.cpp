#include "pipeline/remote/packed.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#if PENSTOCK_HAVE_LZ4
#include <lz4.h>
#endif

#include "pipeline/remote/messages.h"

namespace penstock::remote {
namespace {

/// The most bytes that LZ4 makes of one byte.
constexpr std::uint64_t kMostOfAByte = 255;

#if PENSTOCK_HAVE_LZ4

/// An iterator over blocks of values that lie in several pieces. It copies the blocks that lie in
/// two or more pieces.
class Blocks {
 public:
  explicit Blocks(const std::vector<std::span<const std::byte>>& values) : values_(values) {}

  std::span<const std::byte> next() {
    while (piece_ < values_.size() && at_ == values_[piece_].size()) advance();
    if (piece_ == values_.size()) return {};
    const std::span<const std::byte> rest = values_[piece_].subspan(at_);
    if (rest.size() >= kPackedBlock || piece_ + 1 == values_.size()) {
      const std::span<const std::byte> block = rest.first(std::min(rest.size(), kPackedBlock));
      at_ += block.size();
      return block;
    }
    copied_.resize(kPackedBlock);
    std::size_t size = 0;
    while (size < kPackedBlock && piece_ < values_.size()) {
      const std::size_t now = std::min(kPackedBlock - size, values_[piece_].size() - at_);
      if (now > 0) std::memcpy(copied_.data() + size, values_[piece_].data() + at_, now);
      size += now;
      at_ += now;
      if (at_ == values_[piece_].size()) advance();
    }
    return {copied_.data(), size};
  }

 private:
  void advance() {
    ++piece_;
    at_ = 0;
  }

  const std::vector<std::span<const std::byte>>& values_;
  std::vector<std::byte> copied_;
  std::size_t piece_ = 0;
  std::size_t at_ = 0;
};

char* chars(std::byte* bytes) {
  return reinterpret_cast<char*>(bytes);
}
const char* chars(const std::byte* bytes) {
  return reinterpret_cast<const char*>(bytes);
}

#endif

}  // namespace

bool has_lz4() noexcept {
  return PENSTOCK_HAVE_LZ4 != 0;
}

std::size_t most_packed(std::size_t bytes) noexcept {
  return bytes + kPackedBlock;
}

std::optional<Packed> pack(const std::vector<std::span<const std::byte>>& values) {
#if PENSTOCK_HAVE_LZ4
  std::size_t all = 0;
  for (const auto& piece : values) all += piece.size();
  Packed packed;
  packed.bytes.resize(all);
  Blocks blocks(values);
  std::size_t size = 0;
  for (std::span<const std::byte> block = blocks.next(); !block.empty(); block = blocks.next()) {
    std::byte* const to = packed.bytes.data() + size;
    // Give it one byte less than the block has: then the same size means that it was not
    // compressed.
    const int made =
        LZ4_compress_default(chars(block.data()), chars(to), static_cast<int>(block.size()),
                             static_cast<int>(block.size()) - 1);
    if (made <= 0) std::memcpy(to, block.data(), block.size());
    packed.sizes.push_back(made > 0 ? static_cast<std::size_t>(made) : block.size());
    size += packed.sizes.back();
  }
  if (size + all / 8 > all) return std::nullopt;
  packed.bytes.resize(size);
  return packed;
#else
  static_cast<void>(values);
  return std::nullopt;
#endif
}

std::vector<std::byte> unpack(std::span<const std::byte> packed,
                              const std::vector<std::uint64_t>& sizes, std::uint64_t bytes) {
  if (bytes > WorkerLink::kMostBytesOfMessage || bytes / kMostOfAByte > packed.size() ||
      sizes.size() != (bytes + kPackedBlock - 1) / kPackedBlock)
    malformed("the size of compressed values");
  std::uint64_t left = packed.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::uint64_t whole = std::min<std::uint64_t>(kPackedBlock, bytes - i * kPackedBlock);
    if (sizes[i] == 0 || sizes[i] > whole || sizes[i] > left)
      malformed("the size of a compressed block");
    left -= sizes[i];
  }
  if (left > 0) malformed("the size of compressed values");
  std::vector<std::byte> values(bytes);
  const std::byte* from = packed.data();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::byte* const to = values.data() + i * kPackedBlock;
    const std::size_t whole = std::min<std::size_t>(kPackedBlock, values.size() - i * kPackedBlock);
    if (sizes[i] == whole) {
      std::memcpy(to, from, whole);
    } else {
#if PENSTOCK_HAVE_LZ4
      const int made = LZ4_decompress_safe(chars(from), chars(to), static_cast<int>(sizes[i]),
                                           static_cast<int>(whole));
      if (made < 0 || static_cast<std::size_t>(made) != whole) malformed("a compressed block");
#else
      malformed("a compressed block, which this build can't read");
#endif
    }
    from += sizes[i];
  }
  return values;
}

}  // namespace penstock::remote
