// Coefficients of a JPEG by libjpeg, and a JPEG of coefficients.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <penstock/limits.h>

#include "pipeline/work/jpeg/header.h"

namespace penstock::jpeg {

/// All of an image that decides its pixels, and its metadata.
struct CoefficientImage {
  Header header;  ///< without Huffman tables and scan; component i has quantisation table i
  std::array<std::vector<std::int16_t>, 3> blocks;  ///< row by row as BlockGrid says; natural order
  std::vector<std::byte> metadata;                  ///< APPn and COM segments, in their order
};

/// Huffman tables of many images: 0 is for a first component and for all of RGB, 1 for the others.
struct SharedTables {
  std::array<HuffmanSpec, 2> dc;
  std::array<HuffmanSpec, 2> ac;
};

struct WriteOptions {
  int restart_interval = 0;              ///< MCUs; 0: none
  const SharedTables* tables = nullptr;  ///< which have a code for every symbol; null: optimal ones
};

/// Reads every byte of a file, as strictly as decoding does: a warning is an error. Throws
/// Error{data_loss | out_of_range} for a bad file. Returns why it can't be represented, or none;
/// then `image` is complete.
Foreign read_coefficients(std::span<const std::byte> jpeg, const Limits& limits,
                          CoefficientImage& image);
/// A baseline file (extended sequential, if its tables need it) with the image's metadata. Throws
/// Error{out_of_range} for coefficients that no such file can hold.
std::vector<std::byte> write_jpeg(const CoefficientImage& image, const WriteOptions& options = {});

}  // namespace penstock::jpeg
