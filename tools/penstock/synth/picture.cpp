#include "tools/penstock/synth/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <penstock/rng.h>

namespace penstock::tool {
namespace {

constexpr std::uint32_t kRngOp = 0x73796e74;
constexpr int kFraction = 8;  // bits of the fixed-point values below

/// Value noise: random numbers on a coarse grid, interpolated in between.
class Octave {
 public:
  Octave(Rng& rng, int height, int width, int cell, int amplitude)
      : cell_(cell), columns_(static_cast<std::size_t>(width / cell + 2)) {
    const auto rows = static_cast<std::size_t>(height / cell + 2);
    grid_.resize(rows * columns_);
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < grid_.size(); ++i) {
      if (i % 4 == 0) bits = rng.next_u64();
      const auto draw =
          static_cast<std::int32_t>(static_cast<std::int16_t>(bits >> (16 * (i % 4))));
      grid_[i] = (draw * amplitude) >> (15 - kFraction);
    }
    line_.resize(columns_);
  }

  /// Adds row `y` to `out`, in values times 2^kFraction.
  void add_row(int y, std::vector<std::int32_t>& out) {
    const std::size_t above = static_cast<std::size_t>(y / cell_) * columns_;
    const std::int32_t share = y % cell_;
    for (std::size_t c = 0; c < columns_; ++c) {
      const std::int32_t top = grid_[above + c];
      line_[c] = top + (grid_[above + columns_ + c] - top) * share / cell_;
    }
    const auto width = static_cast<int>(out.size());
    for (int c = 0; c * cell_ < width; ++c) {
      const std::int32_t left = line_[static_cast<std::size_t>(c)];
      const std::int32_t slope = (line_[static_cast<std::size_t>(c) + 1] - left) / cell_;
      std::int32_t* cell = out.data() + c * cell_;
      const int count = std::min(cell_, width - c * cell_);
      for (int x = 0; x < count; ++x) cell[x] += left + slope * x;
    }
  }

 private:
  int cell_;
  std::size_t columns_;
  std::vector<std::int32_t> grid_;
  std::vector<std::int32_t> line_;
};

/// An ellipse that shifts the colour of the pixels that it covers.
struct Ellipse {
  double x, y, a, b;
  std::array<std::int32_t, 3> shift;

  /// Returns the columns that it covers in row `row`, as [first, last).
  std::pair<int, int> span(int row, int width) const {
    const double t = (row - y) / b;
    if (t * t >= 1) return {0, 0};
    const double half = a * std::sqrt(1 - t * t);
    const auto clip = [width](double v) {
      return static_cast<int>(std::clamp(v, 0.0, static_cast<double>(width)));
    };
    return {clip(x - half), clip(x + half)};
  }
};

std::vector<Ellipse> make_ellipses(Rng& rng, int height, int width) {
  std::vector<Ellipse> ellipses(8 + rng.below(12));
  const double side = std::sqrt(static_cast<double>(height) * width);
  for (Ellipse& e : ellipses) {
    e.x = rng.uniform(0, width);
    e.y = rng.uniform(0, height);
    e.a = side * rng.uniform(0.02, 0.25);
    e.b = side * rng.uniform(0.02, 0.25);
    const double light = rng.uniform(-50, 50);
    for (std::int32_t& shift : e.shift)
      shift = static_cast<std::int32_t>((light + rng.uniform(-25, 25)) * (1 << kFraction));
  }
  return ellipses;
}

std::array<double, 3> colour_of(double hue) {
  std::array<double, 3> colour{};
  for (std::size_t c = 0; c < 3; ++c)
    colour[c] = 110 + 50 * std::cos(2 * std::numbers::pi * (hue - static_cast<double>(c) / 3));
  return colour;
}

class Painter {
 public:
  Painter(Rng& rng, int label, int classes, int height, int width)
      : picture_{height, width, {}}, ellipses_(make_ellipses(rng, height, width)) {
    const double share = static_cast<double>(label) / classes;
    const auto base = colour_of(share + rng.uniform(-0.1, 0.1) / classes);
    for (std::size_t c = 0; c < 3; ++c)
      base_[c] = static_cast<std::int32_t>(base[c] * (1 << kFraction));
    const double angle = std::numbers::pi * share;
    const double period = rng.uniform(10, 24);
    stripe_x_ = static_cast<std::int32_t>(65536 / period * std::cos(angle));
    stripe_y_ = static_cast<std::int32_t>(65536 / period * std::sin(angle));
    const int side = std::max(4, std::min(height, width));
    const int coarse = std::clamp(side / 4, 4, 160);
    for (const auto& [cell, amplitude] :
         {std::pair{coarse, 70}, std::pair{std::max(3, coarse / 4), 45}, std::pair{8, 26},
          std::pair{3, 40}})
      light_.emplace_back(rng, height, width, cell, amplitude);
    for (int c = 0; c < 3; ++c) tint_.emplace_back(rng, height, width, coarse, 40);
    grain_ = rng.next_u64() | 1;
    picture_.rgb.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3);
  }

  Picture paint() {
    const auto width = static_cast<std::size_t>(picture_.width);
    std::vector<std::int32_t> light(width);
    std::array<std::vector<std::int32_t>, 3> planes;
    for (auto& plane : planes) plane.resize(width);
    for (int y = 0; y < picture_.height; ++y) {
      std::fill(light.begin(), light.end(), 0);
      for (Octave& octave : light_) octave.add_row(y, light);
      add_stripes(y, light);
      for (std::size_t c = 0; c < 3; ++c) {
        std::fill(planes[c].begin(), planes[c].end(), base_[c]);
        tint_[c].add_row(y, planes[c]);
        for (const Ellipse& e : ellipses_) {
          const auto [first, last] = e.span(y, picture_.width);
          for (int x = first; x < last; ++x) planes[c][static_cast<std::size_t>(x)] += e.shift[c];
        }
      }
      write_row(y, light, planes);
    }
    return std::move(picture_);
  }

 private:
  void add_stripes(int y, std::vector<std::int32_t>& light) const {
    std::uint32_t phase = static_cast<std::uint32_t>(stripe_y_) * static_cast<std::uint32_t>(y);
    for (std::int32_t& value : light) {
      const auto wave = static_cast<std::int32_t>((phase >> 9) & 127) - 64;
      value += (std::abs(wave) - 32) * (20 << kFraction) / 32;
      phase += static_cast<std::uint32_t>(stripe_x_);
    }
  }

  void write_row(int y, const std::vector<std::int32_t>& light,
                 const std::array<std::vector<std::int32_t>, 3>& planes) {
    std::uint8_t* out = picture_.rgb.data() + static_cast<std::size_t>(y) * light.size() * 3;
    for (std::size_t x = 0; x < light.size(); ++x) {
      grain_ ^= grain_ << 13;
      grain_ ^= grain_ >> 7;
      grain_ ^= grain_ << 17;
      const auto grain = static_cast<std::int32_t>(grain_ & 0x1fff) - 0x1000;
      for (std::size_t c = 0; c < 3; ++c) {
        const std::int32_t value = (planes[c][x] + light[x] + grain) >> kFraction;
        out[3 * x + c] = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
      }
    }
  }

  Picture picture_;
  std::vector<Ellipse> ellipses_;
  std::array<std::int32_t, 3> base_{};
  std::int32_t stripe_x_ = 0, stripe_y_ = 0;  // sixteen fraction bits
  std::vector<Octave> light_;
  std::vector<Octave> tint_;
  std::uint64_t grain_ = 1;
};

}  // namespace

Picture make_picture(std::uint64_t seed, std::uint64_t index, int label, int classes, int height,
                     int width) {
  Rng rng(mix64(seed), index, kRngOp);
  return Painter(rng, label, classes, height, width).paint();
}

}  // namespace penstock::tool
