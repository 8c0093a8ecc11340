// The header of a .npy file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <penstock/dtype.h>
#include <penstock/file_system.h>
#include <penstock/shape.h>

namespace penstock {

struct NpyHeader {
  DType dtype = DType::u8;
  bool swapped = false;  ///< values are not in this machine's byte order
  bool fortran_order = false;
  Shape shape;
  std::uint64_t data_offset = 0;
};

/// Reads a header of version 1 to 3 of the format. A parser for its three entries reads the
/// dictionary, which is never evaluated. The dtypes V2, as ml_dtypes writes it, and bfloat16 are
/// bf16. Throws Error{data_loss} with the offset of the damage, and
/// Error{invalid_argument} for dtypes that no tensor holds (objects, strings, records, complex
/// numbers). Source of the format:
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
NpyHeader read_npy_header(File& file);

/// Reads the dictionary alone. `offset` is its place in the file `path`, for errors.
NpyHeader parse_npy_dictionary(std::string_view text, const std::string& path,
                               std::uint64_t offset);

}  // namespace penstock
