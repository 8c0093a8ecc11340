#include "pipeline/jpeg/turbo/memory.h"

#include "pipeline/codec/codec.h"

namespace penstock::image {

namespace {

constexpr std::uint64_t round_up(std::uint64_t value, int factor) noexcept {
  const auto step = static_cast<std::uint64_t>(factor);
  return (value + step - 1) / step * step;
}

}  // namespace

WorkingBytes working_bytes(jpeg_decompress_struct& info, int taken_rows) {
  const bool all = jpeg_has_multiple_scans(&info) == TRUE;
  // Rows of samples: as many as an iMCU row has, eight more for the rows above and below, and one
  // to write to. Rows of pixels: a group that is upsampled, those that are taken, and those that
  // are converted.
  constexpr std::uint64_t kRowsBeside = 9;
  constexpr std::uint64_t kBytesPerPixel = 4;
  WorkingBytes bytes;
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& component = info.comp_info[i];
    const std::uint64_t across = round_up(component.width_in_blocks, component.h_samp_factor);
    const std::uint64_t down = round_up(component.height_in_blocks, component.v_samp_factor);
    if (all) bytes.coefficients += down * across * sizeof(JBLOCK);
    if (all) bytes.rows += down * sizeof(JBLOCKROW);
    bytes.rows += across * DCTSIZE * static_cast<std::uint64_t>(component.v_samp_factor) *
                  (DCTSIZE + kRowsBeside);
  }
  const int rows = 2 * (taken_rows + info.max_v_samp_factor);
  bytes.rows += (std::uint64_t{info.image_width} + kRowPadding) * kBytesPerPixel *
                static_cast<std::uint64_t>(rows);
  return bytes;
}

}  // namespace penstock::image
