#include "pipeline/sources/feature.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace penstock::example {
namespace {

using wire::Field;
using wire::Fields;
using wire::Type;

constexpr std::uint32_t kBytes = 1, kFloats = 2, kInts = 3;

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

DType dtype_of_kind(std::uint32_t kind) noexcept {
  return kind == kBytes ? DType::bytes : kind == kFloats ? DType::f32 : DType::i64;
}

/// Returns the shape of `count` values under `wanted`, of which one dimension may be unknown.
Shape shape_of(const Shape& wanted, std::uint64_t count) {
  std::uint64_t known = 1;
  int unknown = -1;
  for (int i = 0; i < wanted.rank(); ++i) {
    if (wanted[i] == Shape::kUnknown) {
      unknown = i;
    } else {
      known *= static_cast<std::uint64_t>(wanted[i]);
    }
  }
  if (unknown < 0 ? count == known : count % known == 0) {
    return unknown < 0 ? wanted : wanted.with(unknown, static_cast<std::int64_t>(count / known));
  }
  throw Error(ErrorCode::data_loss,
              std::to_string(count) + " values do not make the shape " + wanted.to_string());
}

/// Returns the number of values in one field of a list, which may be packed.
std::uint64_t count_of(std::uint32_t kind, const Field& field) {
  if (kind == kBytes) return field.type == Type::bytes ? 1 : 0;
  if (kind == kFloats) {
    if (field.type == Type::fixed32) return 1;
    if (field.type != Type::bytes) return 0;
    if (field.payload.size() % sizeof(float) != 0)
      throw Error(ErrorCode::data_loss,
                  "packed floats of " + std::to_string(field.payload.size()) + " bytes");
    return field.payload.size() / sizeof(float);
  }
  if (field.type == Type::varint) return 1;
  if (field.type != Type::bytes) return 0;
  return static_cast<std::uint64_t>(std::count_if(field.payload.begin(), field.payload.end(),
                                                  [](std::byte b) { return b < std::byte{0x80}; }));
}

}  // namespace

void check(FeatureSpec& feature) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds)
      throw Error(ErrorCode::invalid_argument,
                  "parse_example: feature '" + feature.key + "' " + what);
  };
  const DType dtype = feature.dtype;
  require(dtype == DType::bytes || dtype == DType::f32 || dtype == DType::i64,
          "must be bytes, f32 or i64");
  require(feature.shape.has_rank(), "must have a rank");
  const auto dims = feature.shape.dims();
  const auto unknown = std::count(dims.begin(), dims.end(), Shape::kUnknown);
  require(unknown == 0 || (unknown == 1 && std::count(dims.begin(), dims.end(), 0) == 0),
          "may have one unknown dimension, and then none of 0");
  std::optional<Tensor>& value = feature.default_value;
  if (!value) return;
  require(value->dtype() == dtype, "has a default of another dtype");
  require(feature.shape.accepts(value->shape()), "has a default of another shape");
  if (!value->contiguous()) value = value->clone();
}

Values::Values(std::span<const std::byte> feature, int max_nesting) : max_nesting_(max_nesting) {
  Fields fields(feature, max_nesting);
  std::span<const std::byte> here = fields.rest();
  while (const auto field = fields.next()) {
    const bool is_list = field->number <= kInts && field->type == Type::bytes;
    // In a oneof, the last list counts. Lists of the same kind are joined.
    if (is_list && field->number != kind_) {
      kind_ = field->number;
      tail_ = here;
    }
    here = fields.rest();
  }
}

/// Calls `fn` for each field that holds values.
template <typename Fn>
void Values::for_each_list(Fn fn) const {
  Fields lists(tail_, max_nesting_);
  while (const auto list = lists.next()) {
    if (list->number != kind_ || list->type != Type::bytes) continue;
    Fields values(list->payload, max_nesting_);
    while (const auto value = values.next()) {
      if (value->number == 1) fn(*value);
    }
  }
}

std::uint64_t Values::count() const {
  std::uint64_t n = 0;
  for_each_list([&](const Field& field) { n += count_of(kind_, field); });
  return n;
}

void Values::write_numbers(std::byte* out) const {
  const auto put = [&](const void* from, std::size_t size) {
    std::memcpy(out, from, size);
    out += size;
  };
  for_each_list([&](const Field& field) {
    if (kind_ == kFloats) {
      // Little-endian, as the wire is.
      if (field.type == Type::fixed32) put(&field.value, sizeof(float));
      if (field.type == Type::bytes && !field.payload.empty())
        put(field.payload.data(), field.payload.size());
    } else if (field.type == Type::varint) {
      put(&field.value, sizeof(field.value));
    } else if (field.type == Type::bytes) {
      for (std::span<const std::byte> rest = field.payload; !rest.empty();) {
        const std::uint64_t value = wire::take_varint(rest);
        put(&value, sizeof(value));
      }
    }
  });
}

std::string_view Values::only_string() const {
  std::string_view only;
  for_each_list([&](const Field& field) {
    if (field.type == Type::bytes) only = text_of(field.payload);
  });
  return only;
}

/// Few strings are views of the record. For many, one buffer holds the tensor's views and the text.
Tensor Values::strings(const Shape& shape, std::uint64_t count, const BufferPtr& owner,
                       ReadContext& context) const {
  if (count * sizeof(std::string_view) <= Tensor::kInlineBytes) {
    Tensor out(DType::bytes, shape, nullptr, count > 0 ? owner : BufferPtr());
    std::byte* view = out.mutable_data();
    for_each_list([&](const Field& field) {
      if (field.type != Type::bytes) return;
      ::new (static_cast<void*>(view)) std::string_view(text_of(field.payload));
      view += sizeof(std::string_view);
    });
    return out;
  }
  std::size_t bytes = count * sizeof(std::string_view);
  for_each_list([&](const Field& field) { bytes += field.payload.size(); });
  const BufferPtr buffer = context.allocate(bytes);
  std::byte* view = buffer->data();
  std::byte* text = view + count * sizeof(std::string_view);
  for_each_list([&](const Field& field) {
    if (field.type != Type::bytes) return;
    const std::size_t size = field.payload.size();
    if (size > 0) std::memcpy(text, field.payload.data(), size);
    ::new (static_cast<void*>(view)) std::string_view(reinterpret_cast<const char*>(text), size);
    view += sizeof(std::string_view);
    text += size;
  });
  return Tensor(DType::bytes, shape, buffer->data(), buffer);
}

Tensor Values::tensor(const FeatureSpec& spec, const BufferPtr& owner, std::byte* row,
                      ReadContext& context) const {
  const DType dtype = spec.dtype;
  check_dtype(dtype);
  const std::uint64_t n = count();
  const Shape shape = shape_of(spec.shape, n);
  if (dtype == DType::bytes) {
    if (shape.rank() == 0) return Tensor::bytes(only_string(), owner);
    return strings(shape, n, owner, context);
  }
  const std::size_t bytes = n * size_of(dtype);
  constexpr std::size_t kInline = 48;
  Tensor out;
  if (row != nullptr) {
    out = Tensor(dtype, shape, row, {});
  } else if (bytes <= kInline) {
    out = Tensor::allocate(dtype, shape);
  } else {
    const BufferPtr buffer = context.allocate(bytes);
    out = Tensor(dtype, shape, buffer->data(), buffer);
  }
  write_numbers(out.mutable_data());
  return out;
}

void Values::check_dtype(DType wanted) const {
  const DType dtype = dtype_of_kind(kind_);
  if (dtype != wanted)
    throw Error(ErrorCode::data_loss, "it holds " + std::string(name_of(dtype)) + ", not " +
                                          std::string(name_of(wanted)));
}

void Values::read(const FeatureSpec& spec, std::vector<std::string_view>& texts,
                  std::vector<float>& floats, std::vector<std::int64_t>& integers) const {
  check_dtype(spec.dtype);
  for_each_list([&](const Field& field) {
    if (kind_ == kBytes) {
      if (field.type == Type::bytes) texts.push_back(text_of(field.payload));
    } else if (kind_ == kFloats) {
      const std::size_t before = floats.size();
      floats.resize(before + count_of(kind_, field));
      const void* const from = field.type == Type::fixed32
                                   ? static_cast<const void*>(&field.value)
                                   : static_cast<const void*>(field.payload.data());
      if (floats.size() > before)
        std::memcpy(floats.data() + before, from, (floats.size() - before) * sizeof(float));
    } else if (field.type == Type::varint) {
      integers.push_back(static_cast<std::int64_t>(field.value));
    } else if (field.type == Type::bytes) {
      for (std::span<const std::byte> rest = field.payload; !rest.empty();)
        integers.push_back(static_cast<std::int64_t>(wire::take_varint(rest)));
    }
  });
  const std::size_t count = texts.size() + floats.size() + integers.size();
  if (!(spec.shape.rank() == 1 && spec.shape[0] == Shape::kUnknown))
    static_cast<void>(shape_of(spec.shape, count));
}

}  // namespace penstock::example
