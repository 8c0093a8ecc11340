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

/// A tensor in memory that somebody else owns.
struct NamedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape{};
  std::span<const std::byte> bytes{};
};

/// A safetensors file: 8 bytes of header length, a JSON header, the values. Source: the format's
/// description by Hugging Face. Tensors are written in the order given.
std::string encode_safetensors(std::span<const NamedTensor> tensors,
                               const std::map<std::string, std::string>& metadata);

/// What such a file holds. Immutable; tensors view it.
class SafeTensors {
 public:
  /// Checks everything before it uses it: the header's length (at most 100 MB) and form, that no
  /// name comes twice, that shapes fit their bytes, and that these follow each other without gaps.
  /// Throws Error{data_loss} saying what is wrong.
  explicit SafeTensors(std::string file);

  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  /// In the order in which their bytes lie.
  const std::vector<NamedTensor>& tensors() const noexcept { return tensors_; }
  /// Throws Error{not_found} naming it.
  const NamedTensor& at(std::string_view name) const;

 private:
  std::string file_;
  std::map<std::string, std::string> metadata_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> places_;  // by name, in tensors_
};

}  // namespace penstock::towers
