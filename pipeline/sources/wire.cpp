#include "pipeline/sources/wire.h"

#include <cstring>
#include <string>

#include <penstock/error.h>

namespace penstock::wire {
namespace {

constexpr unsigned kStartGroup = 3, kEndGroup = 4;

[[noreturn]] void malformed(const char* what) {
  throw Error(ErrorCode::data_loss, std::string("not a protocol buffer message: ") + what);
}

std::span<const std::byte> take(std::span<const std::byte>& bytes, std::uint64_t size) {
  if (size > bytes.size()) malformed("a field is longer than what remains");
  const std::span<const std::byte> taken = bytes.first(size);
  bytes = bytes.subspan(size);
  return taken;
}

template <typename T>
T take_fixed(std::span<const std::byte>& bytes) {
  T value;
  std::memcpy(&value, take(bytes, sizeof(T)).data(), sizeof(T));
  return value;
}

struct Tag {
  std::uint32_t number;
  unsigned type;
};

Tag take_tag(std::span<const std::byte>& bytes) {
  const std::uint64_t tag = take_varint(bytes);
  if (tag > UINT32_MAX || tag < 8) malformed("a field number is out of range");
  return {static_cast<std::uint32_t>(tag >> 3), static_cast<unsigned>(tag & 7)};
}

Field take_value(Tag tag, std::span<const std::byte>& bytes) {
  Field field{.number = tag.number, .type = static_cast<Type>(tag.type)};
  switch (field.type) {
    case Type::varint:
      field.value = take_varint(bytes);
      break;
    case Type::fixed64:
      field.value = take_fixed<std::uint64_t>(bytes);
      break;
    case Type::bytes:
      field.payload = take(bytes, take_varint(bytes));
      break;
    case Type::fixed32:
      field.value = take_fixed<std::uint32_t>(bytes);
      break;
    default:
      malformed("an unknown wire type");
  }
  return field;
}

}  // namespace

std::uint64_t take_varint(std::span<const std::byte>& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[i]);
    value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      bytes = bytes.subspan(i + 1);
      return value;
    }
  }
  malformed("a varint does not end");
}

std::optional<Field> Fields::next_of_any() {
  while (!rest_.empty()) {
    const Tag tag = take_tag(rest_);
    if (tag.type != kStartGroup) return take_value(tag, rest_);
    skip_group(tag.number);
  }
  return std::nullopt;
}

void Fields::skip_group(std::uint32_t number) {
  // Only the number of the outermost group's end is compared, because nothing inside is used.
  int depth = 1;
  while (true) {
    const Tag tag = take_tag(rest_);
    if (tag.type == kStartGroup) {
      if (++depth > max_nesting_) malformed("groups are nested too deeply");
    } else if (tag.type != kEndGroup) {
      take_value(tag, rest_);
    } else if (--depth == 0) {
      if (tag.number != number) malformed("a group ends with another's number");
      return;
    }
  }
}

}  // namespace penstock::wire
