#include "pipeline/remote/pixels.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <penstock/dtype.h>

#include "pipeline/image/fused.h"

namespace penstock::remote {
namespace {

constexpr std::size_t kStream = std::size_t{128} << 10;

/// An image op at the end of a program, which alone makes the component `row` of the rows.
struct LastOp {
  std::size_t step;
  std::size_t row;
  const image::OutputFormat* format;
};

/// Returns the image ops behind which no other op makes values.
std::vector<LastOp> last_ops(const Program& program) {
  std::vector<LastOp> all;
  const std::vector<int>& places = program.final_places();
  for (std::size_t s = program.making_steps(); s > 0; --s) {
    const Program::Step& step = program.steps()[s - 1];
    std::string_view component;
    const image::OutputFormat* const format = image::output_of(*step.op, component);
    const int made = format != nullptr ? step.spec.find(component) : -1;
    if (made < 0) break;
    const int row = places.empty() ? made : places[static_cast<std::size_t>(made)];
    if (row < 0) continue;
    const auto at = static_cast<std::size_t>(row);
    if (std::ranges::find(all, at, &LastOp::row) != all.end()) break;
    all.push_back({s - 1, at, format});
  }
  return all;
}

bool is_finished(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace

Pixels::Pixels(const image::OutputFormat& format, Shape values)
    : format_(format),
      values_(std::move(values)),
      count_(static_cast<std::size_t>(values_.volume())) {
  format_.stream = count_ * size_of(format_.dtype) >= kStream;
}

Shape Pixels::planes() const {
  if (format_.layout == Layout::chw) return values_;
  return Shape({values_[2], values_[0], values_[1]});
}

void Pixels::finish(const std::byte* planes, std::byte* row) const noexcept {
  const std::size_t plane = count_ / static_cast<std::size_t>(format_.channels);
  // No pixel depends on its neighbours, so that all rows of an image are as one long row.
  image::row_kernels(format_.dtype)
      .finish({reinterpret_cast<const std::uint8_t*>(planes), plane}, static_cast<int>(plane),
              format_, row, plane * size_of(format_.dtype));
}

PixelsOfRows pixels_of(std::span<const ElementRef> items, const SlotLayout& layout) {
  PixelsOfRows all(layout.element.size());
  const ProgramPtr& program = items.front().program;
  if (!program ||
      !std::ranges::all_of(items, [&](const ElementRef& item) { return item.program == program; }))
    return all;
  for (const LastOp& op : last_ops(*program)) {
    if (op.row >= all.size()) continue;
    const ComponentSpec& component = layout.element[op.row];
    if (!is_finished(component.dtype) || op.format->dtype != component.dtype) continue;
    if (component.shape.rank() != 3 || component.shape.volume() == 0) continue;
    image::OutputFormat format = *op.format;
    const std::int64_t channels = component.shape[format.layout == Layout::hwc ? 2 : 0];
    if (channels != 1 && channels != 3) continue;
    format.channels = static_cast<int>(channels);
    all[op.row].emplace(format, component.shape);
  }
  return all;
}

Spec spec_of(const PixelsOfRows& pixels, const Spec& rows) {
  Spec spec = rows;
  for (std::size_t c = 0; c < pixels.size(); ++c)
    if (pixels[c]) spec = spec.with({rows[c].name, DType::u8, pixels[c]->planes()});
  return spec;
}

std::unique_ptr<Program> unfinished(const Program& program, const PixelsOfRows& pixels) {
  std::vector<Program::Step> steps = program.steps();
  for (const LastOp& op : last_ops(program)) {
    if (op.row >= pixels.size() || !pixels[op.row]) continue;
    steps[op.step].op = image::without_finish(*steps[op.step].op);
  }
  return std::make_unique<Program>(program, std::move(steps));
}

}  // namespace penstock::remote
