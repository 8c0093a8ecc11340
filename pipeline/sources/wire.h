// The protocol buffer wire format, read in place and within bounds.
//
// Source: https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace penstock::wire {

enum class Type : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// One field of a message.
struct Field {
  std::uint32_t number = 0;
  Type type = Type::varint;
  std::uint64_t value = 0;               ///< varint, fixed64, fixed32
  std::span<const std::byte> payload{};  ///< bytes: a text, a message or packed numbers
};

/// Goes over the fields of a message. Groups, which nobody writes any more, are passed over.
///
///     Fields fields(message, 32);
///     while (const auto field = fields.next()) use(*field);
class Fields {
 public:
  Fields(std::span<const std::byte> message, int max_nesting) noexcept
      : rest_(message), max_nesting_(max_nesting) {}

  /// The next field, or nothing at the end. Throws Error{data_loss} for what is no message.
  std::optional<Field> next();
  /// What has not been read yet.
  std::span<const std::byte> rest() const noexcept { return rest_; }

 private:
  void skip_group(std::uint32_t number);

  std::span<const std::byte> rest_;
  int max_nesting_;
};

/// Takes a varint off the front of `bytes`. Throws Error{data_loss} if there is none.
std::uint64_t take_varint(std::span<const std::byte>& bytes);

}  // namespace penstock::wire
