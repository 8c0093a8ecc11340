// Byte strings that are copied.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <penstock/source.h>
#include <penstock/tensor.h>

namespace penstock {

/// Bytes that copies of `values` take, with their views.
std::size_t bytes_of_texts(std::span<const std::string_view> values) noexcept;
/// A vector of byte strings that copies each into `buffer`. Shape [values.size()]. REQUIRES: it is
/// as large as `bytes_of_texts` says.
Tensor texts_in(BufferPtr buffer, std::span<const std::string_view> values);
/// The same in memory of the budget, where Tensor::of_bytes takes it from the heap.
Tensor copy_texts(std::span<const std::string_view> values, ReadContext& memory);

}  // namespace penstock
