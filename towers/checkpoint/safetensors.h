// The file format in which variables are kept.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock::towers {

/// A tensor in memory that the caller owns.
struct NamedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape{};
  std::span<const std::byte> bytes{};
};

/// Returns the values as f32: of f32, f16, bf16 and f64. Throws Error{invalid_argument} for other
/// types, and for a number that f32 does not hold.
std::vector<float> f32_values(const NamedTensor& tensor);

/// Returns the bytes of a safetensors file: 8 bytes of header length, a JSON header, the values.
/// Tensors are written in the given order. Source: the format's description by Hugging Face.
std::string encode_safetensors(std::span<const NamedTensor> tensors,
                               const std::map<std::string, std::string>& metadata);

/// A parsed safetensors file. Immutable. Its tensors are views of it.
class SafeTensors {
 public:
  /// Checks everything before use: the header's length (at most 100 MB) and form, and that no name
  /// occurs twice. Shapes must fit their bytes, and the bytes must follow each other without gaps.
  /// Throws Error{data_loss}, which says what is wrong.
  explicit SafeTensors(std::string file);

  /// Returns the bytes of the file, unchanged.
  const std::string& bytes() const noexcept { return file_; }
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  /// Returns the tensors in the order of their bytes.
  const std::vector<NamedTensor>& tensors() const noexcept { return tensors_; }
  bool has(std::string_view name) const { return places_.contains(name); }
  /// Throws Error{not_found}, which names the tensor.
  const NamedTensor& at(std::string_view name) const;

 private:
  std::string file_;
  std::map<std::string, std::string> metadata_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> places_;  // indices in tensors_
};

}  // namespace penstock::towers
