#include <cstdint>
#include <string>
#include <string_view>

#include <penstock/dlpack.h>

#include "pipelines/c/handles.h"

namespace {

using penstock::DType;
using penstock::Error;
using penstock::ErrorCode;
using penstock::Tensor;
using penstock::c::guarded;
using penstock::c::require;

static_assert(
    PENSTOCK_U8 == static_cast<int>(DType::u8) && PENSTOCK_I8 == static_cast<int>(DType::i8) &&
    PENSTOCK_U16 == static_cast<int>(DType::u16) && PENSTOCK_I16 == static_cast<int>(DType::i16) &&
    PENSTOCK_U32 == static_cast<int>(DType::u32) && PENSTOCK_I32 == static_cast<int>(DType::i32) &&
    PENSTOCK_U64 == static_cast<int>(DType::u64) && PENSTOCK_I64 == static_cast<int>(DType::i64) &&
    PENSTOCK_F16 == static_cast<int>(DType::f16) &&
    PENSTOCK_BF16 == static_cast<int>(DType::bf16) &&
    PENSTOCK_F32 == static_cast<int>(DType::f32) && PENSTOCK_F64 == static_cast<int>(DType::f64) &&
    PENSTOCK_BOOL == static_cast<int>(DType::boolean) &&
    PENSTOCK_BYTES == static_cast<int>(DType::bytes));
static_assert(static_cast<int>(PENSTOCK_MAX_RANK) == penstock::kMaxRank);

const Tensor& tensor_of(const penstock_element* element, std::size_t index) {
  const penstock::Element& columns = require(element, "element").value;
  if (index < columns.size()) return columns[index];
  throw Error(ErrorCode::out_of_range,
              "column " + std::to_string(index) + " of " + std::to_string(columns.size()));
}

/// Returns the offset of the value at a row-major position from the first value, in values.
std::int64_t offset_of(const Tensor& tensor, std::int64_t position) {
  std::int64_t offset = 0;
  for (int axis = tensor.rank(); axis-- > 0; position /= tensor.dim(axis))
    offset += position % tensor.dim(axis) * tensor.stride(axis);
  return offset;
}

}  // namespace

const char* penstock_dtype_name(penstock_dtype dtype) {
  const auto known = static_cast<unsigned>(dtype);
  // The names are literals, so they end with a zero.
  return known < penstock::kDTypeCount ? name_of(static_cast<DType>(known)).data() : "unknown";
}

size_t penstock_element_columns(const penstock_element* element) {
  return element == nullptr ? 0 : element->value.size();
}

int64_t penstock_element_rows(const penstock_element* element) {
  return element == nullptr ? -1 : element->value.valid_rows;
}

penstock_status penstock_element_column(const penstock_element* element, size_t index,
                                        penstock_column* column) {
  return guarded([&] {
    penstock_column& out = require(column, "column") = penstock_column{};
    const Tensor& tensor = tensor_of(element, index);
    out.name = element->value.name(index).c_str();
    out.dtype = static_cast<penstock_dtype>(tensor.dtype());
    out.rank = tensor.rank();
    for (int axis = 0; axis < tensor.rank(); ++axis) {
      out.shape[axis] = tensor.dim(axis);
      out.strides[axis] = tensor.stride(axis);
    }
    out.data = tensor.dtype() == DType::bytes ? nullptr : tensor.data();
    return PENSTOCK_OK;
  });
}

penstock_status penstock_element_find(const penstock_element* element, const char* name,
                                      size_t* index) {
  return guarded([&] {
    require(index, "index") = 0;
    const penstock::Element& columns = require(element, "element").value;
    const Tensor& tensor = columns[&require(name, "name")];
    *index = static_cast<std::size_t>(&tensor - &columns[0]);
    return PENSTOCK_OK;
  });
}

penstock_status penstock_element_bytes(const penstock_element* element, size_t index,
                                       int64_t position, const void** data, size_t* size) {
  return guarded([&] {
    require(data, "data") = nullptr;
    require(size, "size") = 0;
    const Tensor& tensor = tensor_of(element, index);
    if (tensor.dtype() != DType::bytes)
      throw Error(ErrorCode::invalid_argument,
                  "a column of " + std::string(name_of(tensor.dtype())) + " has no byte strings");
    if (position < 0 || position >= tensor.volume())
      throw Error(ErrorCode::out_of_range, "byte string " + std::to_string(position) + " of " +
                                               std::to_string(tensor.volume()));
    const auto* const all = reinterpret_cast<const std::string_view*>(tensor.data());
    const std::string_view value = all[offset_of(tensor, position)];
    *data = value.data();
    *size = value.size();
    return PENSTOCK_OK;
  });
}

penstock_status penstock_element_dlpack(const penstock_element* element, size_t index,
                                        DLManagedTensor** tensor) {
  return guarded([&] {
    require(tensor, "tensor") = nullptr;
    *tensor = reinterpret_cast<DLManagedTensor*>(
        penstock::to_dlpack(tensor_of(element, index)));  // the C header's name for the same struct
    return PENSTOCK_OK;
  });
}

void penstock_element_close(penstock_element* element) {
  delete element;
}
