#include "tools/penstock/run/dump.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include <png.h>

#include <penstock/image.h>

#include "tools/penstock/support/process.h"

namespace penstock::tool {
namespace {

bool channels_fit(std::int64_t count) {
  return count == 1 || count == 3;
}

bool floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

/// Whether a single image could have this shape.
bool is_pixels(const Tensor& tensor, int first_axis) {
  if (tensor.rank() != first_axis + 3) return false;
  if (tensor.dtype() != DType::u8 && !floating(tensor.dtype())) return false;
  return channels_fit(tensor.dim(first_axis)) || channels_fit(tensor.dim(first_axis + 2));
}

int find_image(const Element& element, int first_axis) {
  const auto fits = [&](std::size_t i) {
    const Tensor& tensor = element[i];
    return is_pixels(tensor, first_axis) ||
           (element.name(i) == "image" && tensor.dtype() == DType::bytes &&
            tensor.rank() == first_axis);
  };
  for (std::size_t i = 0; i < element.size(); ++i)
    if (element.name(i) == "image" && fits(i)) return static_cast<int>(i);
  for (std::size_t i = 0; i < element.size(); ++i)
    if (fits(i)) return static_cast<int>(i);
  return -1;
}

float float_at(const Tensor& tensor, std::size_t i) {
  if (tensor.dtype() == DType::f16) return float_from_half(tensor.values<Half>()[i]);
  if (tensor.dtype() == DType::bf16) return float_from_bfloat16(tensor.values<BFloat16>()[i]);
  return tensor.values<float>()[i];
}

struct Pixels {
  std::uint32_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> values;  // HWC
};

Pixels to_pixels(const Tensor& view) {
  static const NormalizeOptions kImageNet;
  const Tensor image = view.contiguous() ? view : view.clone();
  const bool chw = channels_fit(image.dim(0)) && !channels_fit(image.dim(2));
  Pixels out;
  out.channels = static_cast<std::uint32_t>(image.dim(chw ? 0 : 2));
  out.height = static_cast<std::uint32_t>(image.dim(chw ? 1 : 0));
  out.width = static_cast<std::uint32_t>(image.dim(chw ? 2 : 1));
  const std::size_t plane = std::size_t{out.height} * out.width;
  out.values.resize(plane * out.channels);
  for (std::size_t p = 0; p < plane; ++p) {
    for (std::size_t c = 0; c < out.channels; ++c) {
      const std::size_t from = chw ? c * plane + p : p * out.channels + c;
      std::uint8_t& value = out.values[p * out.channels + c];
      if (image.dtype() == DType::u8) {
        value = image.values<std::uint8_t>()[from];
      } else {
        const float unit = float_at(image, from) * kImageNet.deviation[c] + kImageNet.mean[c];
        value = static_cast<std::uint8_t>(std::lround(std::clamp(unit * 255, 0.0F, 255.0F)));
      }
    }
  }
  return out;
}

void write_png(const std::string& path, const Pixels& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = pixels.width;
  image.height = pixels.height;
  image.format = pixels.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  if (png_image_write_to_file(&image, path.c_str(), 0, pixels.values.data(), 0, nullptr) == 0)
    throw Error(ErrorCode::unavailable, std::string("can't write: ") + image.message,
                Provenance{path});
}

std::int64_t label_of(const Element& element, bool batch, std::int64_t row) {
  if (!element.has("label")) return -1;
  const Tensor& labels = element["label"];
  if (labels.dtype() != DType::i64 || labels.rank() != (batch ? 1 : 0)) return -1;
  return (batch ? labels[row] : labels).item<std::int64_t>();
}

}  // namespace

Dump::Dump(std::string folder, std::uint64_t count) : folder_(std::move(folder)), count_(count) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error)
    throw Error(ErrorCode::unavailable, "can't make the folder: " + error.message(),
                Provenance{folder_});
}

void Dump::add(const Element& element) {
  if (written_ >= count_) return;
  const bool batch = element.valid_rows >= 0;
  const int at = find_image(element, batch ? 1 : 0);
  if (at < 0)
    throw Error(ErrorCode::invalid_argument, "the batches hold no images", Provenance{"--dump"});
  const Tensor& images = element[static_cast<std::size_t>(at)];
  const std::int64_t rows = batch ? element.valid_rows : 1;
  for (std::int64_t row = 0; row < rows && written_ < count_; ++row)
    write(batch ? images[row] : images, label_of(element, batch, row));
}

void Dump::write(const Tensor& image, std::int64_t label) {
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), "%06llu", static_cast<unsigned long long>(written_));
  std::string path = folder_ + "/" + number.data();
  if (label >= 0) path += "-label-" + std::to_string(label);
  if (image.dtype() == DType::bytes) {
    const std::string_view text = image.bytes_at();
    write_output(path + (text.starts_with("\x89PNG") ? ".png" : ".jpg"), text);
  } else {
    write_png(path + ".png", to_pixels(image));
  }
  ++written_;
}

}  // namespace penstock::tool
