// The features of a tf.Example: finding them in its bytes and making tensors of them.
//
// Source: TensorFlow, core/example/example.proto and feature.proto. Example { Features features = 1
// }, Features { map<string, Feature> feature = 1 }, Feature { oneof { BytesList = 1, FloatList = 2,
// Int64List = 3 } }, each list { repeated value = 1 }, packed or not.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/source.h>
#include <penstock/sources.h>

#include "pipeline/sources/wire.h"

namespace penstock::example {

/// Checks a feature, and makes its default value contiguous. Throws Error{invalid_argument} that
/// names the feature if its spec is invalid.
void check(FeatureSpec& feature);

/// Calls `found(name, value)` for every entry of the map in field `number` of a message, in order,
/// with its name and the bytes of its value. If names are equal, the last entry counts. Throws
/// Error{data_loss}.
template <typename Found>
void for_each_entry(std::span<const std::byte> message, std::uint32_t number, int max_nesting,
                    const Found& found) {
  const auto is_message = [](const wire::Field& field, std::uint32_t its_number) {
    return field.number == its_number && field.type == wire::Type::bytes;
  };
  wire::Fields messages(message, max_nesting);
  while (const auto map = messages.next()) {
    if (!is_message(*map, number)) continue;
    wire::Fields entries(map->payload, max_nesting);
    while (const auto entry = entries.next()) {
      if (!is_message(*entry, 1)) continue;
      std::string_view name;
      std::span<const std::byte> value;
      wire::Fields parts(entry->payload, max_nesting);
      while (const auto part = parts.next()) {
        if (part->type != wire::Type::bytes) continue;
        if (part->number == 1)
          name = {reinterpret_cast<const char*>(part->payload.data()), part->payload.size()};
        if (part->number == 2) value = part->payload;
      }
      found(name, value);
    }
  }
}

/// Does so for the features of an Example, and for the context of a SequenceExample.
template <typename Found>
void for_each_feature(std::span<const std::byte> example, int max_nesting, const Found& found) {
  for_each_entry(example, 1, max_nesting, found);
}

/// The values of a Feature message.
class Values {
 public:
  /// Finds the lists in the bytes of a Feature. Throws Error{data_loss}.
  Values(std::span<const std::byte> feature, int max_nesting);

  /// False if the Feature has no list at all. It then counts as missing.
  bool present() const noexcept { return kind_ != 0; }
  /// Returns the values as a tensor of `spec`. Few byte strings are views of the record, which
  /// `owner` keeps alive. All other values are written to `row` or, if it is null, to memory of
  /// `context`. Throws Error{data_loss} for another type or number of values. REQUIRES: present().
  Tensor tensor(const FeatureSpec& spec, const BufferPtr& owner, std::byte* row,
                ReadContext& context) const;
  /// Appends the values to the vector of their dtype. Texts are views of the record. Throws as
  /// `tensor` does.
  void read(const FeatureSpec& spec, std::vector<std::string_view>& texts,
            std::vector<float>& floats, std::vector<std::int64_t>& integers) const;

 private:
  void check_dtype(DType wanted) const;
  template <typename Fn>
  void for_each_list(Fn fn) const;
  std::uint64_t count() const;
  void write_numbers(std::byte* out) const;
  Tensor strings(const Shape& shape, std::uint64_t count, const BufferPtr& owner,
                 ReadContext& context) const;
  std::string_view only_string() const;

  std::uint32_t kind_ = 0;           // field number of the lists that are read
  std::span<const std::byte> tail_;  // the Feature, from the first of these lists on
  int max_nesting_;
};

}  // namespace penstock::example
