// The part of a JPEG in front of its first scan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::jpeg {

/// The reason why a file is left to libjpeg-turbo.
enum class Foreign {
  none,  ///< it is not left to it
  /// A segment that is damaged, out of place, or that the library warns of.
  header,
  progressive,  ///< more than one pass over the coefficients
  arithmetic,
  lossless,    ///< or hierarchical
  precision,   ///< other than 8 bits
  components,  ///< other than 1 or 3
  sampling,    ///< factors that are not multiples of each other
  scans,       ///< components in separate scans
  tables,      ///< missing, or not a prefix code
  color,       ///< a conversion that our decoder does not support
  memory,      ///< more than the limits allow
  data,        ///< something unusual in the entropy-coded bytes
};
inline constexpr std::size_t kForeignCount = 13;

/// Returns the name that statistics use: "progressive".
const char* name_of(Foreign reason) noexcept;

inline constexpr int kBlockSide = 8;
inline constexpr int kBlockSize = 64;
inline constexpr int kMaxBlocksInMcu = 10;
inline constexpr int kMaxSide = 65500;  // libjpeg's own limit
inline constexpr int kMaxFactor = 4;

enum class ColorModel { gray, ycc, rgb };

/// The contents of a DHT segment: the number of codes of 1…16 bits each, and their symbols in
/// order.
struct HuffmanSpec {
  std::array<std::uint8_t, 16> counts{};
  std::array<std::uint8_t, 256> symbols{};
  bool given = false;

  friend bool operator==(const HuffmanSpec&, const HuffmanSpec&) = default;
};

struct Component {
  int id = 0;
  int horizontal = 1;  ///< sampling factors
  int vertical = 1;
  int quantisation = 0;  ///< numbers of its tables
  int dc = 0;
  int ac = 0;
};

/// A quantisation table, in natural order.
struct Quantisation {
  std::array<std::uint16_t, kBlockSize> values{};
  bool given = false;
};

struct Header {
  int width = 0;
  int height = 0;
  int component_count = 0;
  std::array<Component, 3> components{};
  int max_horizontal = 1;
  int max_vertical = 1;
  ColorModel color = ColorModel::gray;
  int restart_interval = 0;  ///< in MCUs; 0: none
  std::array<Quantisation, 4> quantisation{};
  std::array<HuffmanSpec, 4> dc{};
  std::array<HuffmanSpec, 4> ac{};
  std::size_t scan = 0;  ///< offset of the first entropy-coded byte
};

/// The natural position of coefficient `i` of the zigzag order is kNaturalOrder[i]. Source: ITU
/// T.81, figure A.6.
extern const std::array<std::uint8_t, kBlockSize> kNaturalOrder;

/// Reads the header of a sequential Huffman-coded file of 8 bits with all components in one scan.
/// For another file returns the reason; `header` is meaningless then. libjpeg-turbo accepts without
/// a warning, and reads in the same way, all that is accepted here. Source: ITU T.81, annex B; JFIF
/// 1.02; Adobe TN 5116.
Foreign read_header(std::span<const std::byte> file, Header& header) noexcept;

}  // namespace penstock::jpeg
