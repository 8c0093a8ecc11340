// The vectors' arithmetic beside the plain formulas.

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/jpeg/rows.h"
#include "tests/support/simd.h"

namespace penstock::jpeg {
namespace {

TEST(JpegRows, ConvertEveryColorAsTheFormulaSays) {
  test::for_each_target([](const std::string& name) {
    std::vector<std::uint8_t> y(256 + kRowSlack);
    std::vector<std::uint8_t> cb(y.size());
    std::vector<std::uint8_t> cr(y.size());
    std::vector<std::uint8_t> out(3 * y.size());
    for (int blue = 0; blue < 256; ++blue) {
      for (int i = 0; i < 256; ++i) cr[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
      std::fill(cb.begin(), cb.end(), static_cast<std::uint8_t>(blue));
      for (const int luma : {0, 1, 77, 128, 200, 255}) {
        std::fill(y.begin(), y.end(), static_cast<std::uint8_t>(luma));
        row_kernels().to_rgb(y.data(), cb.data(), cr.data(), 256, out.data());
        for (int red = 0; red < 256; ++red) {
          const int b = blue - 128;
          const int r = red - 128;
          // JFIF 1.02 in 16 bits of fraction, rounded once.
          const int expected[3] = {luma + ((91881 * r + 32768) >> 16),
                                   luma + ((-22554 * b - 46802 * r + 32768) >> 16),
                                   luma + ((116130 * b + 32768) >> 16)};
          for (int c = 0; c < 3; ++c)
            ASSERT_EQ(out[static_cast<std::size_t>(3 * red + c)], std::clamp(expected[c], 0, 255))
                << name << " " << luma << " " << blue << " " << red << " channel " << c;
        }
      }
    }
  });
}

}  // namespace
}  // namespace penstock::jpeg
