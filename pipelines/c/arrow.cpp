#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipelines/c/arrow.h"
#include "pipelines/c/handles.h"

namespace {

using penstock::DType;
using penstock::Error;
using penstock::ErrorCode;
using penstock::Tensor;
using penstock::c::guarded;
using penstock::c::require;

/// The children of a schema or an array. A consumer may move them out one by one.
template <typename Node>
struct Children {
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    for (const std::unique_ptr<Node>& node : nodes)
      if (node->release != nullptr) node->release(node.get());
  }
  /// Adds an empty child.
  Node& add() {
    nodes.push_back(std::make_unique<Node>(Node{}));
    pointers.push_back(nodes.back().get());
    return *nodes.back();
  }

  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Node*> pointers;
};

struct SchemaParts {
  std::string format;
  std::string name;
  Children<ArrowSchema> children;
};

struct ArrayParts {
  Tensor values;                      ///< shares the memory of the element
  std::vector<std::int64_t> offsets;  ///< of byte strings
  std::vector<char> copy;             ///< values that have another layout in Arrow
  const void* buffers[3] = {};        ///< the first, for null values, stays empty
  Children<ArrowArray> children;
};

/// Fills the struct and hands `parts` over to it. Nothing after this call may throw.
void fill(ArrowSchema& out, std::unique_ptr<SchemaParts> parts) noexcept {
  out.format = parts->format.c_str();
  out.name = parts->name.c_str();
  out.n_children = static_cast<std::int64_t>(parts->children.pointers.size());
  out.children = parts->children.pointers.data();
  out.release = [](ArrowSchema* self) {
    delete static_cast<SchemaParts*>(self->private_data);
    self->release = nullptr;
  };
  out.private_data = parts.release();
}

void fill(ArrowArray& out, std::unique_ptr<ArrayParts> parts, std::int64_t length,
          std::int64_t buffers) noexcept {
  out.length = length;
  out.n_buffers = buffers;
  out.buffers = parts->buffers;
  out.n_children = static_cast<std::int64_t>(parts->children.pointers.size());
  out.children = parts->children.pointers.data();
  out.release = [](ArrowArray* self) {
    delete static_cast<ArrayParts*>(self->private_data);
    self->release = nullptr;
  };
  out.private_data = parts.release();
}

const char* format_of(DType dtype, const std::string& name) {
  switch (dtype) {
    case DType::u8:
      return "C";
    case DType::i8:
      return "c";
    case DType::u16:
      return "S";
    case DType::i16:
      return "s";
    case DType::u32:
      return "I";
    case DType::i32:
      return "i";
    case DType::u64:
      return "L";
    case DType::i64:
      return "l";
    case DType::f16:
      return "e";
    case DType::f32:
      return "f";
    case DType::f64:
      return "g";
    case DType::boolean:
      return "b";
    case DType::bytes:
      return "Z";
    case DType::bf16:
      break;
  }
  throw Error(ErrorCode::invalid_argument,
              "Arrow has no bf16, which the column " + name + " is of");
}

/// Throws Error{invalid_argument} for a ragged batch. All columns in Arrow have the same length.
void require_even_rows(const penstock::Element& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (batch[i].rank() == 0 || batch[i].dim(0) < batch.valid_rows ||
        batch[i].dim(0) != batch[0].dim(0))
      throw Error(ErrorCode::invalid_argument,
                  "the column " + batch.name(i) + " has a different number of rows than the batch");
}

/// Describes the dimensions of a column from `axis` on. After the last axis these are single
/// values, before it lists of a fixed size.
void fill_schema(ArrowSchema& out, const std::string& name, const Tensor& tensor, int axis) {
  auto parts = std::make_unique<SchemaParts>();
  parts->name = axis == 1 ? name : "item";
  if (axis == tensor.rank()) {
    parts->format = format_of(tensor.dtype(), name);
  } else {
    parts->format = "+w:" + std::to_string(tensor.dim(axis));
    fill_schema(parts->children.add(), name, tensor, axis + 1);
  }
  fill(out, std::move(parts));
}

void pack_texts(ArrayParts& parts, std::int64_t count) {
  const auto* const texts = reinterpret_cast<const std::string_view*>(parts.values.data());
  parts.offsets.push_back(0);
  for (std::int64_t i = 0; i < count; ++i) {
    parts.copy.insert(parts.copy.end(), texts[i].begin(), texts[i].end());
    parts.offsets.push_back(static_cast<std::int64_t>(parts.copy.size()));
  }
  parts.copy.push_back('\0');  // so that the buffer is never empty
  parts.buffers[1] = parts.offsets.data();
  parts.buffers[2] = parts.copy.data();
}

void pack_bits(ArrayParts& parts, std::int64_t count) {
  parts.copy.resize(static_cast<std::size_t>(count / 8 + 1));
  for (std::int64_t i = 0; i < count; ++i)
    if (parts.values.data()[i] != std::byte{0})
      parts.copy[static_cast<std::size_t>(i / 8)] |= static_cast<char>(1 << i % 8);
  parts.buffers[1] = parts.copy.data();
}

/// Fills an array with `length` items: rows, or values inside rows. REQUIRES: tensor.contiguous().
void fill_array(ArrowArray& out, const Tensor& tensor, int axis, std::int64_t length) {
  auto parts = std::make_unique<ArrayParts>();
  if (axis < tensor.rank()) {
    fill_array(parts->children.add(), tensor, axis + 1, length * tensor.dim(axis));
    return fill(out, std::move(parts), length, 1);
  }
  parts->values = tensor;
  parts->buffers[1] = parts->values.data();
  if (tensor.dtype() == DType::bytes) pack_texts(*parts, length);
  if (tensor.dtype() == DType::boolean) pack_bits(*parts, length);
  fill(out, std::move(parts), length, tensor.dtype() == DType::bytes ? 3 : 2);
}

}  // namespace

penstock_status penstock_element_arrow(const penstock_element* element, ArrowSchema* schema,
                                       ArrowArray* array) {
  return guarded([&] {
    require(schema, "schema") = ArrowSchema{};
    require(array, "array") = ArrowArray{};
    const penstock::Element& batch = require(element, "element").value;
    if (batch.valid_rows < 0)
      throw Error(ErrorCode::invalid_argument, "the element is not a batch: Arrow needs rows");
    require_even_rows(batch);
    auto schemas = std::make_unique<SchemaParts>();
    auto arrays = std::make_unique<ArrayParts>();
    schemas->format = "+s";
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Tensor& column = batch[i];
      fill_schema(schemas->children.add(), batch.name(i), column, 1);
      fill_array(arrays->children.add(), column.contiguous() ? column : column.clone(), 1,
                 batch.valid_rows);
    }
    fill(*schema, std::move(schemas));
    fill(*array, std::move(arrays), batch.valid_rows, 1);
    return PENSTOCK_OK;
  });
}
