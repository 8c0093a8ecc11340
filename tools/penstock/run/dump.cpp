#include "tools/penstock/run/dump.h"

#include <array>
#include <cstdio>
#include <filesystem>

#include <penstock/image_codec.h>
#include <penstock/internal/posix.h>

#include "tools/penstock/run/outputs.h"

namespace penstock::tool {
namespace {

bool channels_fit(std::int64_t count) {
  return count == 1 || count == 3;
}

bool floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

/// True if a single image could have this shape.
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

std::int64_t label_of(const Element& element, bool batch, std::int64_t row) {
  if (!element.has("label")) return -1;
  const Tensor& labels = element["label"];
  if (labels.dtype() != DType::i64 || labels.rank() != (batch ? 1 : 0)) return -1;
  return (batch ? labels[row] : labels).item<std::int64_t>();
}

}  // namespace

Dump::Dump(std::string folder, std::uint64_t count) : folder_(std::move(folder)), count_(count) {
  refuse_scheme(folder_);
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
    throw Error(ErrorCode::invalid_argument, "the batches have no images", Provenance{"--dump"});
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
    dump_image(image, path + ".png");
  }
  ++written_;
}

}  // namespace penstock::tool
