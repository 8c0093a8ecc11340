#include "pipeline/image/orient.h"

namespace penstock::image {

void turn_plane(const std::uint8_t* in, Size size, const Turn& turn, std::uint8_t* out) noexcept {
  const Size turned = turn.apply(size);
  for (int y = 0; y < turned.height; ++y) {
    const int row = turn.mirrored_rows ? turned.height - 1 - y : y;
    for (int x = 0; x < turned.width; ++x) {
      const int column = turn.mirrored_columns ? turned.width - 1 - x : x;
      const auto stored_row = static_cast<std::size_t>(turn.transposed ? column : row);
      const auto stored_column = static_cast<std::size_t>(turn.transposed ? row : column);
      *out++ = in[stored_row * static_cast<std::size_t>(size.width) + stored_column];
    }
  }
}

}  // namespace penstock::image
