// What stands in front of a JPEG's first scan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::jpeg {

/// Why a file is left to libjpeg-turbo.
enum class Foreign {
  none,         ///< it is not
  header,       ///< a segment that is damaged, out of place, or that the library warns of
  progressive,  ///< more than one pass over the coefficients
  arithmetic,
  lossless,    ///< or hierarchical
  precision,   ///< not 8 bits
  components,  ///< neither 1 nor 3
  sampling,    ///< factors that do not divide each other
  scans,       ///< components in scans of their own
  tables,      ///< missing, or no prefix code
  color,       ///< a conversion that is not ours
  memory,      ///< more than the limits allow
  data,        ///< something odd among the entropy-coded bytes
};
inline constexpr std::size_t kForeignCount = 13;

/// "progressive": as statistics call it.
const char* name_of(Foreign reason) noexcept;

inline constexpr int kBlockSide = 8;
inline constexpr int kBlockSize = 64;
inline constexpr int kMaxBlocksInMcu = 10;
inline constexpr int kMaxSide = 65500;  // libjpeg's own
inline constexpr int kMaxFactor = 4;

enum class ColorModel { gray, ycc, rgb };

/// A DHT's contents: how many codes there are of 1…16 bits, and their symbols in order.
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
  int restart_interval = 0;  ///< MCUs; 0: none
  std::array<Quantisation, 4> quantisation{};
  std::array<HuffmanSpec, 4> dc{};
  std::array<HuffmanSpec, 4> ac{};
  std::size_t scan = 0;  ///< where the first entropy-coded byte lies
};

/// Coefficient `i` of the zigzag order stands at natural position kNaturalOrder[i]. Source: ITU
/// T.81, figure A.6.
extern const std::array<std::uint8_t, kBlockSize> kNaturalOrder;

/// Reads the header of a sequential Huffman-coded file of 8 bits whose components are all in one
/// scan. Returns why it is something else; then `header` means nothing. Whatever is accepted here
/// libjpeg-turbo accepts without a warning, and it understands it alike. Source: ITU T.81, annex B;
/// JFIF 1.02; Adobe TN 5116.
Foreign read_header(std::span<const std::byte> file, Header& header) noexcept;

}  // namespace penstock::jpeg
