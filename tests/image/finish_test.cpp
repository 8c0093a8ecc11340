#include "pipeline/image/finish.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/image/adjust.h"
#include "pipeline/image/dump.h"
#include "pipeline/image/row_writer.h"
#include "tests/support/errors.h"
#include "tests/support/images.h"
#include "tests/support/simd.h"

namespace penstock::image {
namespace {

using test::make_pixels;
using test::Pixels;

/// Every level occurs.
std::vector<std::uint8_t> made_up_planes(int width, std::size_t stride) {
  std::vector<std::uint8_t> planes(3 * stride);
  for (std::size_t c = 0; c < 3; ++c) {
    for (int x = 0; x < width; ++x) {
      planes[c * stride + static_cast<std::size_t>(x)] =
          static_cast<std::uint8_t>(x * 11 + static_cast<int>(c) * 85);
    }
  }
  return planes;
}

void store(std::byte* out, std::size_t position, DType dtype, float value) {
  switch (dtype) {
    case DType::f32:
      std::memcpy(out + 4 * position, &value, 4);
      break;
    case DType::f16: {
      const Half half = half_from_float(value);
      std::memcpy(out + 2 * position, &half, 2);
      break;
    }
    case DType::bf16: {
      const BFloat16 half = bfloat16_from_float(value);
      std::memcpy(out + 2 * position, &half, 2);
      break;
    }
    default:
      out[position] = static_cast<std::byte>(value);
  }
}

OutputFormat format_of(DType dtype, Layout layout, int channels) {
  OutputFormat format;
  format.dtype = dtype;
  format.layout = layout;
  format.channels = channels;
  if (dtype != DType::u8) {
    format.scale = {0.017F, 0.01751F, 1.0F / 57};
    format.bias = {-2.118F, -2.0357F, 1e-6F};
  }
  return format;
}

TEST(FinishRow, EveryTypeLayoutWidthAndTarget) {
  constexpr std::byte kGuard{0xa5};
  for (const DType dtype : {DType::u8, DType::f32, DType::f16, DType::bf16}) {
    for (const Layout layout : {Layout::hwc, Layout::chw}) {
      for (const int channels : {1, 3}) {
        OutputFormat format = format_of(dtype, layout, channels);
        for (const int width : {1, 2, 15, 16, 17, 31, 64, 65, 100, 224}) {
          const std::size_t stride = plane_width(width);
          const std::vector<std::uint8_t> planes = made_up_planes(width, stride);
          const std::size_t size = size_of(dtype);
          const std::size_t bytes = static_cast<std::size_t>(width * channels) * size;
          const std::size_t plane_bytes = static_cast<std::size_t>(width) * size;
          std::vector<std::byte> expected(bytes + 64, kGuard);
          for (int x = 0; x < width; ++x) {
            for (int c = 0; c < channels; ++c) {
              const auto channel = static_cast<std::size_t>(c);
              const float pixel = planes[channel * stride + static_cast<std::size_t>(x)];
              const float value = pixel * format.scale[channel] + format.bias[channel];
              const int position = layout == Layout::hwc ? x * channels + c : c * width + x;
              store(expected.data(), static_cast<std::size_t>(position), dtype, value);
            }
          }
          test::for_each_target([&](const std::string& name) {
            for (const std::size_t shift : {0, 1}) {  // aligned to cache lines or not
              format.stream = shift == 0;
              alignas(64) std::byte memory[3 * 224 * 4 + 128];
              std::memset(memory, 0xa5, sizeof(memory));
              std::byte* out = memory + shift * size;
              row_kernels(dtype).finish({planes.data(), stride}, width, format, out, plane_bytes);
              finish_image();
              ASSERT_EQ(std::memcmp(out, expected.data(), expected.size() - 8), 0)
                  << name << " " << name_of(dtype) << (layout == Layout::hwc ? " hwc " : " chw ")
                  << channels << " channels, width " << width;
            }
          });
        }
      }
    }
  }
}

TEST(FinishRow, GrayInEveryChannel) {
  const std::vector<std::uint8_t> gray = {1, 2, 3, 250};
  std::vector<std::byte> out(12);
  row_kernels(DType::u8).finish({gray.data(), 0}, 4, format_of(DType::u8, Layout::hwc, 3),
                                out.data(), 0);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(std::to_integer<int>(out[i]), gray[i / 3]);
}

TEST(SplitRow, EveryWidthAndTarget) {
  for (const int channels : {1, 3}) {
    for (const int width : {1, 2, 15, 16, 17, 48, 63, 100}) {
      const Pixels row = make_pixels(1, width, channels);
      const std::size_t stride = plane_width(width);
      test::for_each_target([&](const std::string& name) {
        for (const bool mirrored : {false, true}) {
          std::vector<std::uint8_t> planes(stride * 3);
          row_kernels(DType::u8).split(row.values.data(), width, channels, mirrored, planes.data(),
                                       stride);
          for (int x = 0; x < width; ++x) {
            for (int c = 0; c < channels; ++c) {
              const auto at = static_cast<std::size_t>(c) * stride + static_cast<std::size_t>(x);
              ASSERT_EQ(planes[at], row.at(0, mirrored ? width - 1 - x : x)[c]) << name << width;
            }
          }
        }
      });
    }
  }
}

TEST(RowWriter, PutsBlackAroundTheContent) {
  RowWriter writer;
  for (const Layout layout : {Layout::hwc, Layout::chw}) {
    const OutputFormat format = format_of(DType::u8, layout, 3);
    std::vector<std::uint8_t> out(5 * 7 * 3, 0xee);
    writer.begin({reinterpret_cast<std::byte*>(out.data()), format, 5 * 7}, {5, 7}, {1, 2, 3, 4},
                 3);
    const std::vector<std::uint8_t> planes = {1, 2, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24};
    for (int y = 0; y < 3; ++y) writer.write({planes.data(), 4});
    writer.end();
    for (int y = 0; y < 5; ++y) {
      for (int x = 0; x < 7; ++x) {
        for (int c = 0; c < 3; ++c) {
          const bool inside = y >= 1 && y < 4 && x >= 2 && x < 6;
          const int at = layout == Layout::hwc ? (y * 7 + x) * 3 + c : (c * 5 + y) * 7 + x;
          EXPECT_EQ(out[static_cast<std::size_t>(at)], inside ? c * 10 + x - 1 : 0);
        }
      }
    }
  }
}

// The formulas written down once more, one pixel at a time.
struct Rgb {
  float r, g, b;
};

float luminance(const Rgb& p) {
  return std::trunc(0.2989F * p.r + 0.587F * p.g + 0.114F * p.b);
}

float blended(float a, float b, float factor) {
  return std::trunc(std::clamp(factor * a + (1 - factor) * b, 0.0F, 255.0F));
}

Rgb hue_shifted(Rgb p, float shift) {
  const float r = p.r / 255, g = p.g / 255, b = p.b / 255;
  const float most = std::fmax(std::fmax(r, g), b), least = std::fmin(std::fmin(r, g), b);
  const float range = most - least;
  const float s = range == 0 ? 0 : range / most;
  const float d = range == 0 ? 1 : range;
  const float rc = (most - r) / d, gc = (most - g) / d, bc = (most - b) / d;
  float h = most == r ? bc - gc : (most == g ? 2 + rc - bc : 4 + gc - rc);
  h = h / 6 + 1;
  h = h - std::floor(h) + shift;
  h = (h - std::floor(h)) * 6;
  const int sector = static_cast<int>(std::floor(h)) % 6;
  const float f = h - std::floor(h);
  const auto unit = [](float x) { return std::clamp(x, 0.0F, 1.0F); };
  const float v = most, p1 = unit(v * (1 - s)), q = unit(v * (1 - s * f)),
              t = unit(v * (1 - s * (1 - f)));
  const Rgb sectors[6] = {{v, t, p1}, {q, v, p1}, {p1, v, t}, {p1, q, v}, {t, p1, v}, {v, p1, q}};
  const Rgb& out = sectors[sector];
  return {std::trunc(out.r * 255.999F), std::trunc(out.g * 255.999F), std::trunc(out.b * 255.999F)};
}

TEST(Adjust, FollowsTheFormulasOnEveryTarget) {
  const Pixels image = make_pixels(37, 41, 3, 3);
  const std::size_t count = 37 * 41;
  const std::size_t stride = (count + 63) / 64 * 64;
  double mean = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* p = image.values.data() + 3 * i;
    mean += luminance({1.0F * p[0], 1.0F * p[1], 1.0F * p[2]});
  }
  const auto gray_mean = static_cast<float>(mean / static_cast<double>(count));
  using Kind = Adjustment::Kind;
  for (const Adjustment adjustment :
       {Adjustment{Kind::brightness, 0.6F}, Adjustment{Kind::brightness, 1.7F},
        Adjustment{Kind::contrast, 0.3F}, Adjustment{Kind::contrast, 1.9F},
        Adjustment{Kind::saturation, 0.0F}, Adjustment{Kind::saturation, 2.5F},
        Adjustment{Kind::hue, -0.5F}, Adjustment{Kind::hue, 0.03F}, Adjustment{Kind::hue, 0.5F}}) {
    test::for_each_target([&](const std::string& name) {
      std::vector<std::uint8_t> planes(3 * stride);
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t c = 0; c < 3; ++c) planes[c * stride + i] = image.values[3 * i + c];
      }
      adjust({planes.data(), count, stride, 3}, {&adjustment, 1});
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint8_t* p = image.values.data() + 3 * i;
        const Rgb in{1.0F * p[0], 1.0F * p[1], 1.0F * p[2]};
        const float f = adjustment.factor;
        Rgb expected{};
        switch (adjustment.kind) {
          case Kind::brightness:
            expected = {blended(in.r, 0, f), blended(in.g, 0, f), blended(in.b, 0, f)};
            break;
          case Kind::contrast:
            expected = {blended(in.r, gray_mean, f), blended(in.g, gray_mean, f),
                        blended(in.b, gray_mean, f)};
            break;
          case Kind::saturation: {
            const float gray = luminance(in);
            expected = {blended(in.r, gray, f), blended(in.g, gray, f), blended(in.b, gray, f)};
            break;
          }
          case Kind::hue:
            expected = hue_shifted(in, f);
            break;
        }
        ASSERT_EQ(planes[i], expected.r) << name << " pixel " << i;
        ASSERT_EQ(planes[stride + i], expected.g) << name << " pixel " << i;
        ASSERT_EQ(planes[2 * stride + i], expected.b) << name << " pixel " << i;
      }
    });
  }
}

TEST(Adjust, Gray) {
  std::vector<std::uint8_t> plane(64, 100);
  const Adjustment list[] = {{Adjustment::Kind::saturation, 0.1F}, {Adjustment::Kind::hue, 0.3F}};
  adjust({plane.data(), 10, 64, 1}, list);
  EXPECT_EQ(plane[0], 100);
  const Adjustment half{Adjustment::Kind::brightness, 0.5F};
  adjust({plane.data(), 10, 64, 1}, {&half, 1});
  EXPECT_EQ(plane[9], 50);
}

TEST(Dump, NormalisedPixels) {
  const Pixels image = make_pixels(9, 14, 3);
  const NormalizeOptions options;
  for (const Layout layout : {Layout::hwc, Layout::chw}) {
    const bool planes = layout == Layout::chw;
    Tensor tensor = Tensor::allocate(DType::f32, planes ? Shape({3, 9, 14}) : Shape({9, 14, 3}));
    const std::span<float> values = tensor.mutable_values<float>();
    for (std::size_t i = 0; i < 9 * 14; ++i) {
      for (std::size_t c = 0; c < 3; ++c) {
        const float level = static_cast<float>(image.values[3 * i + c]) / 255;
        values[planes ? c * 9 * 14 + i : 3 * i + c] =
            (level - options.mean[c]) / options.deviation[c];
      }
    }
    const Tensor pixels = to_pixels(tensor, options);
    EXPECT_EQ(pixels.shape(), Shape({9, 14, 3}));
    EXPECT_EQ(pixels.to_vector<std::uint8_t>(), image.values);
  }
}

TEST(Dump, RefusesWhatIsNoImage) {
  const auto refused = [](const Shape& shape, DType dtype) {
    test::expect_error(ErrorCode::invalid_argument, "not an image",
                       [&] { to_pixels(Tensor::allocate(dtype, shape)); });
  };
  refused({4, 4}, DType::u8);
  refused({2, 4, 4, 3}, DType::f32);
  refused({5, 4, 2}, DType::u8);
  refused({4, 4, 3}, DType::i64);
}

TEST(Dump, UnwritableFile) {
  const Tensor pixels = Tensor::allocate(DType::u8, {2, 2, 3});
  test::expect_error(ErrorCode::not_found, "/no/such/folder",
                     [&] { dump_image(pixels, "/no/such/folder/x.png"); });
}

}  // namespace
}  // namespace penstock::image
