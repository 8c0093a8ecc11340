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

/// An iterator over the fields of a message. It skips groups, which are obsolete.
///
///     Fields fields(message, 32);
///     while (const auto field = fields.next()) use(*field);
class Fields {
 public:
  Fields(std::span<const std::byte> message, int max_nesting) noexcept
      : rest_(message), max_nesting_(max_nesting) {}

  /// Returns the next field, or nothing at the end. Throws Error{data_loss} if the bytes are no
  /// message.
  std::optional<Field> next() {
    // The most common fields: a number below 16, and fewer than 128 bytes.
    if (rest_.size() >= 2) [[likely]] {
      const auto tag = std::to_integer<std::size_t>(rest_[0]);
      const auto size = std::to_integer<std::size_t>(rest_[1]);
      constexpr std::size_t kBytes = 2;
      if ((tag & 0x87) == kBytes && tag >= 8 && size < 0x80 && size <= rest_.size() - 2) {
        const Field field{static_cast<std::uint32_t>(tag >> 3), Type::bytes, 0,
                          rest_.subspan(2, size)};
        rest_ = rest_.subspan(2 + size);
        return field;
      }
    }
    return next_of_any();
  }
  /// Returns the bytes that were not read yet.
  std::span<const std::byte> rest() const noexcept { return rest_; }

 private:
  std::optional<Field> next_of_any();
  void skip_group(std::uint32_t number);

  std::span<const std::byte> rest_;
  int max_nesting_;
};

/// Takes a varint off the front of `bytes`. Throws Error{data_loss} if there is none.
std::uint64_t take_varint(std::span<const std::byte>& bytes);

}  // namespace penstock::wire
