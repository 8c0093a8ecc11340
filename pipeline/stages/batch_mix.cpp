#include <algorithm>
#include <cmath>
#include <cstring>

#include <penstock/batch_ops.h>
#include <penstock/dtype.h>

namespace penstock {
namespace {

/// Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
double gamma_draw(double shape, Rng& rng) {
  if (shape < 1) return gamma_draw(shape + 1, rng) * std::pow(1 - rng.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = rng.normal();
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1 - rng.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return d * v;
    }
  }
}

double beta_draw(double alpha, Rng& rng) {
  const double a = gamma_draw(alpha, rng);
  const double b = gamma_draw(alpha, rng);
  return a + b > 0 ? a / (a + b) : (rng.coin(0.5) ? 1 : 0);  // both too small to tell
}

template <typename T>
void blend(const std::byte* row, const std::byte* other, std::byte* out, std::size_t count,
           double share, auto to_float, auto from_float) {
  const auto a = static_cast<float>(share);
  const auto b = static_cast<float>(1 - share);
  const auto* x = reinterpret_cast<const T*>(row);
  const auto* y = reinterpret_cast<const T*>(other);
  auto* z = reinterpret_cast<T*>(out);
  for (std::size_t i = 0; i < count; ++i)
    z[i] = from_float(a * to_float(x[i]) + b * to_float(y[i]));
}

void blend_row(DType dtype, const std::byte* row, const std::byte* other, std::byte* out,
               std::size_t count, double share) {
  const auto same = [](auto value) { return value; };
  switch (dtype) {
    case DType::f16:
      return blend<Half>(
          row, other, out, count, share, [](Half h) { return float_from_half(h); },
          [](float f) { return half_from_float(f); });
    case DType::bf16:
      return blend<BFloat16>(
          row, other, out, count, share, [](BFloat16 h) { return float_from_bfloat16(h); },
          [](float f) { return bfloat16_from_float(f); });
    case DType::f64:
      return blend<double>(row, other, out, count, share, same, same);
    default:
      return blend<float>(row, other, out, count, share, same, same);
  }
}

/// The common part of mixup and cutmix: labels, pairs of rows, memory.
class BatchMixOp : public WorkOp {
 public:
  BatchMixOp(BatchMixOptions options, std::string name)
      : options_(std::move(options)), name_(std::move(name)) {
    if (!(options_.alpha > 0) || !std::isfinite(options_.alpha)) {
      throw Error(ErrorCode::invalid_argument,
                  name_ + ": alpha must be above 0, not " + std::to_string(options_.alpha));
    }
    if (options_.classes < 0) {
      throw Error(ErrorCode::invalid_argument, name_ + ": classes must not be negative");
    }
  }

  std::string name() const override { return name_; }
  void describe(Description& description) const override {
    description.add("alpha", options_.alpha);
    description.add("classes", options_.classes);
    description.add("image", options_.image);
    description.add("label", options_.label);
  }
  bool random() const override { return true; }

  Spec infer(const Spec& input) const override {
    const ComponentSpec& image = input[input.require(options_.image)];
    if (const std::string problem = refuse(image); !problem.empty()) {
      throw Error(ErrorCode::invalid_argument, "component " + image.name + " " + problem);
    }
    ComponentSpec label = input[input.require(options_.label)];
    const bool counted = options_.classes > 0;
    if (label.dtype != (counted ? DType::i64 : DType::f32) ||
        label.shape.rank() != (counted ? 1 : 2)) {
      throw Error(ErrorCode::invalid_argument,
                  "component " + label.name + " must be " +
                      (counted ? "i64 [rows]" : "f32 [rows, classes], or give classes"));
    }
    if (counted) label = {label.name, DType::f32, {label.shape[0], options_.classes}};
    return input.with(label);
  }

  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      try {
        Rng rng = context.rng(item);
        mix(item.element, rng, context);
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }

 protected:
  /// Returns the error in such images, or an empty text.
  virtual std::string refuse(const ComponentSpec& image) const = 0;
  /// Mixes the first `rows` rows of `in` into `out`, which is a copy of `in`. Returns the share of
  /// the row itself.
  virtual double mix_images(const Tensor& in, std::byte* out, std::int64_t rows,
                            Rng& rng) const = 0;
  static std::int64_t partner(std::int64_t row, std::int64_t rows) {
    return (row + rows - 1) % rows;
  }

  const BatchMixOptions options_;

 private:
  static Tensor dense(const Tensor& tensor) {
    return tensor.contiguous() ? tensor : tensor.clone();
  }

  void mix(Element& element, Rng& rng, WorkContext& context) const {
    const Tensor image = dense(element[options_.image]);
    const Tensor label = dense(element[options_.label]);
    const std::int64_t rows = std::min(image.dim(0), label.dim(0));
    if (image.dim(0) != label.dim(0) || rows < element.valid_rows) {
      throw Error(ErrorCode::mismatch, std::to_string(image.dim(0)) + " images and " +
                                           std::to_string(label.dim(0)) + " labels");
    }
    const std::int64_t valid = element.valid_rows >= 0 ? element.valid_rows : rows;
    const BufferPtr buffer = context.allocate(std::max<std::size_t>(image.nbytes(), 1));
    std::memcpy(buffer->data(), image.data(), image.nbytes());
    const double share = valid > 0 ? mix_images(image, buffer->data(), valid, rng) : 1;
    Tensor labels = mix_labels(label, valid, share, context);
    element[options_.image] = Tensor(image.dtype(), image.shape(), buffer->data(), buffer);
    element[options_.label] = std::move(labels);
  }

  Tensor mix_labels(const Tensor& label, std::int64_t valid, double share,
                    WorkContext& context) const {
    const std::int64_t classes = options_.classes > 0 ? options_.classes : label.dim(1);
    const Shape shape{label.dim(0), classes};
    const auto count = static_cast<std::size_t>(shape.volume());
    const BufferPtr buffer = context.allocate(std::max<std::size_t>(count * sizeof(float), 1));
    auto* out = reinterpret_cast<float*>(buffer->data());
    std::fill(out, out + count, 0.0F);
    for (std::int64_t row = 0; row < label.dim(0); ++row) {
      const bool mixed = row < valid;
      float* to = out + row * classes;
      add_label(label, row, classes, mixed ? share : 1, to);
      if (mixed) add_label(label, partner(row, valid), classes, 1 - share, to);
    }
    return Tensor(DType::f32, shape, buffer->data(), buffer);
  }

  void add_label(const Tensor& label, std::int64_t row, std::int64_t classes, double share,
                 float* to) const {
    if (options_.classes == 0) {
      const float* from = label.values<float>().data() + row * classes;
      for (std::int64_t i = 0; i < classes; ++i) to[i] += static_cast<float>(share) * from[i];
      return;
    }
    const std::int64_t value = label.values<std::int64_t>()[static_cast<std::size_t>(row)];
    if (value < 0 || value >= classes) {
      throw Error(ErrorCode::mismatch, "label " + std::to_string(value) + " of row " +
                                           std::to_string(row) + " is out of range for " +
                                           std::to_string(classes) + " classes");
    }
    to[value] += static_cast<float>(share);
  }

  const std::string name_;
};

class MixupOp final : public BatchMixOp {
 public:
  explicit MixupOp(BatchMixOptions options) : BatchMixOp(std::move(options), "mixup") {}

 private:
  std::string refuse(const ComponentSpec& image) const override {
    const bool floating = image.dtype == DType::f16 || image.dtype == DType::bf16 ||
                          image.dtype == DType::f32 || image.dtype == DType::f64;
    if (!floating) return "must be floating point: put normalize or cast before this stage";
    return image.shape.rank() < 1 ? "must be a batch" : "";
  }

  double mix_images(const Tensor& in, std::byte* out, std::int64_t rows, Rng& rng) const override {
    const double share = beta_draw(options_.alpha, rng);
    const std::size_t stride = in.nbytes() / static_cast<std::size_t>(in.dim(0));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto at = static_cast<std::size_t>(row) * stride;
      const auto other = static_cast<std::size_t>(partner(row, rows)) * stride;
      blend_row(in.dtype(), in.data() + at, in.data() + other, out + at,
                stride / size_of(in.dtype()), share);
    }
    return share;
  }
};

class CutmixOp final : public BatchMixOp {
 public:
  CutmixOp(BatchMixOptions options, bool chw)
      : BatchMixOp(std::move(options), "cutmix"), chw_(chw) {}

  void describe(Description& description) const override {
    BatchMixOp::describe(description);
    description.add("chw", chw_);
  }

 private:
  std::string refuse(const ComponentSpec& image) const override {
    if (image.dtype == DType::bytes) return "must be decoded first";
    if (chw_ && image.shape.rank() != 4)
      return "must have the shape [rows, channels, height, width]";
    return image.shape.rank() < 3 ? "must have the shape [rows, height, width, ...]" : "";
  }

  double mix_images(const Tensor& in, std::byte* out, std::int64_t rows, Rng& rng) const override {
    const std::int64_t planes = chw_ ? in.dim(1) : 1;
    const std::int64_t height = in.dim(chw_ ? 2 : 1);
    const std::int64_t width = in.dim(chw_ ? 3 : 2);
    if (in.volume() == 0) return 1;
    const double side = 0.5 * std::sqrt(1 - beta_draw(options_.alpha, rng));
    const auto center_x = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(width)));
    const auto center_y = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(height)));
    const auto half_w = static_cast<std::int64_t>(side * static_cast<double>(width));
    const auto half_h = static_cast<std::int64_t>(side * static_cast<double>(height));
    const std::int64_t left = std::max<std::int64_t>(center_x - half_w, 0);
    const std::int64_t right = std::min(center_x + half_w, width);
    const std::int64_t top = std::max<std::int64_t>(center_y - half_h, 0);
    const std::int64_t bottom = std::min(center_y + half_h, height);

    const std::size_t image_bytes = in.nbytes() / static_cast<std::size_t>(in.dim(0));
    const std::size_t pixel = image_bytes / static_cast<std::size_t>(planes * height * width);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::byte* from =
          in.data() + static_cast<std::size_t>(partner(row, rows)) * image_bytes;
      std::byte* to = out + static_cast<std::size_t>(row) * image_bytes;
      for (std::int64_t line = 0; line < planes * height; ++line) {
        const std::int64_t y = line % height;
        if (y < top || y >= bottom) continue;
        const std::size_t at = static_cast<std::size_t>(line * width + left) * pixel;
        std::memcpy(to + at, from + at, static_cast<std::size_t>(right - left) * pixel);
      }
    }
    const auto area = static_cast<double>((right - left) * (bottom - top));
    return 1 - area / static_cast<double>(width * height);
  }

  const bool chw_;
};

}  // namespace

WorkOpPtr mixup(BatchMixOptions options) {
  return std::make_shared<MixupOp>(std::move(options));
}

WorkOpPtr cutmix(BatchMixOptions options, bool chw) {
  return std::make_shared<CutmixOp>(std::move(options), chw);
}

}  // namespace penstock
