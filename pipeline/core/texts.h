// Copies of byte strings.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <penstock/source.h>
#include <penstock/tensor.h>

namespace penstock {

/// Returns the bytes that copies of `values` take, including their views.
std::size_t bytes_of_texts(std::span<const std::string_view> values) noexcept;
/// Copies the byte strings into `buffer` and returns them as a tensor of shape [values.size()].
/// REQUIRES: the buffer is as large as `bytes_of_texts` says.
Tensor texts_in(BufferPtr buffer, std::span<const std::string_view> values);
/// Does the same in memory of the budget, whereas Tensor::of_bytes allocates it on the heap.
Tensor copy_texts(std::span<const std::string_view> values, ReadContext& memory);

}  // namespace penstock
