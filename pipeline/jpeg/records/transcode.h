// Conversion of JPEGs to coefficients, by libjpeg, and back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <penstock/limits.h>

#include "pipeline/core/codec_budget.h"

#include "pipeline/jpeg/header.h"

namespace penstock::jpeg {

/// The data of an image that determine its pixels, and its metadata.
struct CoefficientImage {
  /// Without Huffman tables and scan. Component i has quantisation table i.
  Header header;
  /// Row by row as in BlockGrid, in natural order.
  std::array<std::vector<std::int16_t>, 3> blocks;
  std::vector<std::byte> metadata;  ///< APPn and COM segments, in their order
  std::size_t file_bytes = 0;       ///< of the file that was read, up to the end of its EOI
};

/// Huffman tables that many images share. Table 0 is for the first component, and for all
/// components of RGB; table 1 is for the others.
struct SharedTables {
  std::array<HuffmanSpec, 2> dc;
  std::array<HuffmanSpec, 2> ac;
};

struct WriteOptions {
  int restart_interval = 0;  ///< MCUs; 0: none
  /// Tables with a code for every symbol. Null: the optimal ones are used.
  const SharedTables* tables = nullptr;
};

/// Reads every byte of a file. A warning is an error, unless it is harmless (turbo/warnings.h).
/// Throws Error{data_loss | out_of_range} for a bad file. Returns the reason why it can't be
/// represented, or none; then `image` is complete. Takes the bytes of its coefficients twice while
/// it reads, and once for the image, which `taken` still holds then.
Foreign read_coefficients(std::span<const std::byte> jpeg, const Limits& limits,
                          CoefficientImage& image, TakenBytes* taken = nullptr);
/// Writes a baseline file with the image's metadata, or an extended sequential file if its tables
/// need it. Throws Error{out_of_range} for coefficients that no such file can hold.
std::vector<std::byte> write_jpeg(const CoefficientImage& image, const WriteOptions& options = {});

}  // namespace penstock::jpeg
