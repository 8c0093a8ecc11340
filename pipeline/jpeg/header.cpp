#include "pipeline/jpeg/header.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace penstock::jpeg {

const std::array<std::uint8_t, kBlockSize> kNaturalOrder = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

const char* name_of(Foreign reason) noexcept {
  constexpr std::array<const char*, kForeignCount> kNames = {
      "none",     "header", "progressive", "arithmetic", "lossless", "precision", "components",
      "sampling", "scans",  "tables",      "color",      "memory",   "data"};
  return kNames[static_cast<std::size_t>(reason)];
}

namespace {

enum Marker : std::uint8_t {
  kSof0 = 0xc0,
  kSof1 = 0xc1,
  kSof2 = 0xc2,
  kDht = 0xc4,
  kSof9 = 0xc9,
  kSof10 = 0xca,
  kSoi = 0xd8,
  kSos = 0xda,
  kDqt = 0xdb,
  kDri = 0xdd,
  kApp0 = 0xe0,
  kApp14 = 0xee,
  kApp15 = 0xef,
  kCom = 0xfe,
};

/// A reader of a segment's parameters.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> left) : left_(left) {}
  std::size_t size() const noexcept { return left_.size(); }
  // REQUIRES: at least so many bytes are left.
  int byte() noexcept { return take(1)[0]; }
  int word() noexcept {
    const auto bytes = take(2);
    return bytes[0] << 8 | bytes[1];
  }
  std::span<const std::uint8_t> take(std::size_t count) noexcept {
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  bool starts_with(std::string_view text) const noexcept {
    return left_.size() >= text.size() && std::memcmp(left_.data(), text.data(), text.size()) == 0;
  }

 private:
  std::span<const std::uint8_t> left_;
};

class HeaderReader {
 public:
  HeaderReader(std::span<const std::uint8_t> file, Header& header) : file_(file), header_(header) {}

  Foreign read() {
    if (file_.size() < 2 || file_[0] != 0xff || file_[1] != kSoi) return Foreign::header;
    at_ = 2;
    for (;;) {
      if (!find_marker() || file_.size() - at_ < 2) return Foreign::header;
      const auto size = static_cast<std::size_t>(file_[at_] << 8 | file_[at_ + 1]);
      if (size < 2 || size > file_.size() - at_) return Foreign::header;
      const Foreign verdict = read_segment(Bytes(file_.subspan(at_ + 2, size - 2)));
      if (verdict != Foreign::none) return verdict;
      at_ += size;
      if (marker_ == kSos) break;
    }
    header_.scan = at_;
    return choose_color();
  }

 private:
  bool find_marker() {
    if (at_ >= file_.size() || file_[at_] != 0xff) return false;
    while (at_ < file_.size() && file_[at_] == 0xff) ++at_;
    if (at_ == file_.size()) return false;
    marker_ = file_[at_++];
    return true;
  }

  Foreign read_segment(Bytes bytes) {
    switch (marker_) {
      case kSof0:
      case kSof1:
        return read_frame(bytes);
      case kSof2:
        return Foreign::progressive;
      case kSof9:
      case kSof10:
        return Foreign::arithmetic;
      case kDht:
        return read_huffman(bytes);
      case kDqt:
        return read_quantisation(bytes);
      case kDri:
        if (bytes.size() != 2) return Foreign::header;
        header_.restart_interval = bytes.word();
        return Foreign::none;
      case kSos:
        return read_scan(bytes);
      case kApp0:
        return read_jfif(bytes);
      case kApp14:
        if (bytes.size() >= 12 && bytes.starts_with("Adobe")) {
          adobe_ = true;
          transform_ = bytes.take(12)[11];
        }
        return Foreign::none;
      default:
        if ((marker_ > kApp0 && marker_ <= kApp15) || marker_ == kCom) return Foreign::none;
        if (marker_ > kSof2 && marker_ < 0xd0) return Foreign::lossless;
        return Foreign::header;
    }
  }

  Foreign read_jfif(Bytes bytes) {
    if (bytes.size() < 14 || !bytes.starts_with(std::string_view("JFIF\0", 5)))
      return Foreign::none;
    jfif_ = true;
    const int major = bytes.take(6)[5];
    return major == 1 ? Foreign::none : Foreign::header;
  }

  Foreign read_frame(Bytes bytes) {
    if (header_.component_count != 0 || bytes.size() < 6) return Foreign::header;
    if (bytes.byte() != 8) return Foreign::precision;
    header_.height = bytes.word();
    header_.width = bytes.word();
    const int count = bytes.byte();
    if (header_.height < 1 || header_.width < 1 || header_.height > kMaxSide ||
        header_.width > kMaxSide || bytes.size() != static_cast<std::size_t>(count) * 3)
      return Foreign::header;
    if (count != 1 && count != 3) return Foreign::components;
    header_.component_count = count;
    int blocks = 0;
    for (int i = 0; i < count; ++i) {
      Component& component = header_.components[static_cast<std::size_t>(i)];
      component.id = bytes.byte();
      const int factors = bytes.byte();
      component.horizontal = factors >> 4;
      component.vertical = factors & 15;
      component.quantisation = bytes.byte();
      if (component.horizontal < 1 || component.horizontal > kMaxFactor || component.vertical < 1 ||
          component.vertical > kMaxFactor)
        return Foreign::sampling;
      header_.max_horizontal = std::max(header_.max_horizontal, component.horizontal);
      header_.max_vertical = std::max(header_.max_vertical, component.vertical);
      blocks += component.horizontal * component.vertical;
      for (int j = 0; j < i; ++j)
        if (header_.components[static_cast<std::size_t>(j)].id == component.id)
          return Foreign::components;
    }
    return count == 3 && blocks > kMaxBlocksInMcu ? Foreign::sampling : Foreign::none;
  }

  Foreign read_huffman(Bytes bytes) {
    while (bytes.size() > 16) {
      const int index = bytes.byte();
      if ((index & ~0x13) != 0) return Foreign::tables;
      auto& tables = (index & 0x10) != 0 ? header_.ac : header_.dc;
      HuffmanSpec& spec = tables[static_cast<std::size_t>(index & 3)];
      std::ranges::copy(bytes.take(16), spec.counts.begin());
      std::size_t count = 0;
      for (const std::uint8_t of_length : spec.counts) count += of_length;
      if (count > spec.symbols.size() || count > bytes.size()) return Foreign::tables;
      spec.symbols.fill(0);
      std::ranges::copy(bytes.take(count), spec.symbols.begin());
      spec.given = true;
    }
    return bytes.size() == 0 ? Foreign::none : Foreign::header;
  }

  Foreign read_quantisation(Bytes bytes) {
    while (bytes.size() > 0) {
      const int index = bytes.byte();
      const bool words = index >> 4 != 0;
      if ((index & 15) > 3 || bytes.size() < (words ? 2U : 1U) * kBlockSize) return Foreign::tables;
      Quantisation& table = header_.quantisation[static_cast<std::size_t>(index & 15)];
      for (const std::uint8_t natural : kNaturalOrder)
        table.values[natural] = static_cast<std::uint16_t>(words ? bytes.word() : bytes.byte());
      table.given = true;
    }
    return Foreign::none;
  }

  Foreign read_scan(Bytes bytes) {
    const int count = header_.component_count;
    if (count == 0 || bytes.size() < 1) return Foreign::header;
    const int scanned = bytes.byte();
    if (bytes.size() != static_cast<std::size_t>(scanned) * 2 + 3) return Foreign::header;
    if (scanned != count) return Foreign::scans;
    for (int i = 0; i < count; ++i) {
      Component& component = header_.components[static_cast<std::size_t>(i)];
      if (bytes.byte() != component.id) return Foreign::scans;
      const int tables = bytes.byte();
      component.dc = tables >> 4;
      component.ac = tables & 15;
      if (component.dc > 3 || component.ac > 3 || component.quantisation > 3)
        return Foreign::tables;
      if (!header_.dc[static_cast<std::size_t>(component.dc)].given ||
          !header_.ac[static_cast<std::size_t>(component.ac)].given ||
          !header_.quantisation[static_cast<std::size_t>(component.quantisation)].given)
        return Foreign::tables;
    }
    const bool sequential = bytes.byte() == 0 && bytes.byte() == kBlockSize - 1;
    return sequential && bytes.byte() == 0 ? Foreign::none : Foreign::header;
  }

  Foreign choose_color() {
    header_.color = ColorModel::gray;
    if (header_.component_count == 1) return Foreign::none;
    header_.color = ColorModel::ycc;
    if (jfif_) return Foreign::none;
    if (adobe_) {
      if (transform_ > 1) return Foreign::color;
      if (transform_ == 0) header_.color = ColorModel::rgb;
      return Foreign::none;
    }
    const auto& parts = header_.components;
    if (parts[0].id == 'R' && parts[1].id == 'G' && parts[2].id == 'B')
      header_.color = ColorModel::rgb;
    return Foreign::none;
  }

  std::span<const std::uint8_t> file_;
  Header& header_;
  std::size_t at_ = 0;
  std::uint8_t marker_ = 0;
  bool jfif_ = false;
  bool adobe_ = false;
  int transform_ = 0;
};

}  // namespace

Foreign read_header(std::span<const std::byte> file, Header& header) noexcept {
  header = {};
  return HeaderReader({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}, header)
      .read();
}

}  // namespace penstock::jpeg
