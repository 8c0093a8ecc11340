#include "pipeline/core/texts.h"

#include <cstring>
#include <utility>

namespace penstock {

std::size_t bytes_of_texts(std::span<const std::string_view> values) noexcept {
  std::size_t total = values.size() * sizeof(std::string_view);
  for (const std::string_view value : values) total += value.size();
  return total;
}

Tensor texts_in(BufferPtr buffer, std::span<const std::string_view> values) {
  std::byte* data = buffer->data();
  std::byte* text = data + values.size() * sizeof(std::string_view);
  auto* out = reinterpret_cast<std::string_view*>(data);
  for (const std::string_view value : values) {
    if (!value.empty()) std::memcpy(text, value.data(), value.size());
    ::new (out++) std::string_view(reinterpret_cast<const char*>(text), value.size());
    text += value.size();
  }
  return {DType::bytes, Shape({static_cast<std::int64_t>(values.size())}), data, std::move(buffer)};
}

Tensor copy_texts(std::span<const std::string_view> values, ReadContext& memory) {
  return texts_in(memory.allocate(bytes_of_texts(values)), values);
}

}  // namespace penstock
