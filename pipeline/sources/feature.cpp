#include "pipeline/sources/feature.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "pipeline/sources/wire.h"

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

/// The shape that `count` values have under `wanted`, of which one dimension may be unknown.
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

/// Values of one field of a list, which may be packed.
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

void for_each_feature(
    std::span<const std::byte> example, int max_nesting,
    const std::function<void(std::string_view, std::span<const std::byte>)>& found) {
  const auto is_message = [](const Field& field) {
    return field.number == 1 && field.type == Type::bytes;
  };
  Fields messages(example, max_nesting);
  while (const auto features = messages.next()) {
    if (!is_message(*features)) continue;
    Fields entries(features->payload, max_nesting);
    while (const auto entry = entries.next()) {
      if (!is_message(*entry)) continue;
      std::string_view name;
      std::span<const std::byte> value;
      Fields parts(entry->payload, max_nesting);
      while (const auto part = parts.next()) {
        if (part->type != Type::bytes) continue;
        if (part->number == 1) name = text_of(part->payload);
        if (part->number == 2) value = part->payload;
      }
      found(name, value);
    }
  }
}

Values::Values(std::span<const std::byte> feature, int max_nesting) : max_nesting_(max_nesting) {
  Fields fields(feature, max_nesting);
  std::span<const std::byte> here = fields.rest();
  while (const auto field = fields.next()) {
    const bool is_list = field->number <= kInts && field->type == Type::bytes;
    // Of a oneof the last counts; lists of the same kind are one.
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

/// A tensor with the views and the text they view in one buffer.
Tensor Values::strings(const Shape& shape, std::uint64_t count, ReadContext& context) const {
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
  const DType dtype = dtype_of_kind(kind_);
  if (dtype != spec.dtype)
    throw Error(ErrorCode::data_loss, "it holds " + std::string(name_of(dtype)) + ", not " +
                                          std::string(name_of(spec.dtype)));
  const std::uint64_t n = count();
  const Shape shape = shape_of(spec.shape, n);
  if (dtype == DType::bytes) {
    if (shape.rank() == 0) return Tensor::bytes(only_string(), owner);
    return strings(shape, n, context);
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

}  // namespace penstock::example
