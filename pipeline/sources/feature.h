// The features of a tf.Example: finding them in its bytes and making tensors of them.
//
// Source: TensorFlow, core/example/example.proto and feature.proto. Example { Features features = 1
// }, Features { map<string, Feature> feature = 1 }, Feature { oneof { BytesList = 1, FloatList = 2,
// Int64List = 3 } }, each list { repeated value = 1 }, packed or not.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock::example {

/// Calls `found` for every entry of the map, with its name and the bytes of its Feature; the last
/// of equal names counts. Throws Error{data_loss}.
void for_each_feature(
    std::span<const std::byte> example, int max_nesting,
    const std::function<void(std::string_view, std::span<const std::byte>)>& found);

/// The values of a Feature message.
class Values {
 public:
  /// Throws Error{data_loss}.
  Values(std::span<const std::byte> feature, int max_nesting);

  /// False if the Feature has no list at all: as if it were missing.
  bool present() const noexcept { return kind_ != 0; }
  /// A tensor of `spec`. Byte strings of a scalar view the record, which `owner` keeps alive; all
  /// others are written to `row` (null: to memory of `context`). Throws Error{data_loss} for
  /// another type or count. REQUIRES: present().
  Tensor tensor(const FeatureSpec& spec, const BufferPtr& owner, std::byte* row,
                ReadContext& context) const;

 private:
  template <typename Fn>
  void for_each_list(Fn fn) const;
  std::uint64_t count() const;
  void write_numbers(std::byte* out) const;
  Tensor strings(const Shape& shape, std::uint64_t count, ReadContext& context) const;
  std::string_view only_string() const;

  std::uint32_t kind_ = 0;           // field number of the lists that count
  std::span<const std::byte> tail_;  // the Feature from the first of them on
  int max_nesting_;
};

}  // namespace penstock::example
