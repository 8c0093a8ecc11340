// A reader of tf.Examples that makes no elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/limits.h>
#include <penstock/sources.h>

namespace penstock {

/// Reads one tf.Example after the other as `parse_example` does, without making elements. It is for
/// ops that compute something else from the values at once: a tensor for each value costs more than
/// finding the values.
///
///     ExampleReader reader({{.key = "age", .dtype = DType::f32, .shape = {1}}});
///     reader.read(record);
///     use(reader.floats(0)[0]);
///
/// Keeps its memory from one record to the next. Not synchronised.
class ExampleReader {
 public:
  /// Makes a reader of these features. Throws Error{invalid_argument} as parse_example does.
  explicit ExampleReader(std::vector<FeatureSpec> features, const Limits& limits = {});

  /// Finds the features of `record`. Texts are views of `record`, which must outlive their use.
  /// Throws Error{data_loss} naming the feature as parse_example does; the reader then has no
  /// values.
  void read(std::string_view record);

  /// Returns the number of features.
  std::size_t size() const noexcept { return features_.size(); }
  /// Returns the texts of feature i, in the order of the specs, row-major; the default's if the
  /// feature is missing. REQUIRES: the feature is of dtype bytes.
  std::span<const std::string_view> texts(std::size_t i) const noexcept { return found_[i].texts; }
  /// Returns the numbers of feature i, as `texts` does. REQUIRES: it is of dtype f32.
  std::span<const float> floats(std::size_t i) const noexcept { return found_[i].floats; }
  /// Returns the numbers of feature i, as `texts` does. REQUIRES: it is of dtype i64.
  std::span<const std::int64_t> integers(std::size_t i) const noexcept {
    return found_[i].integers;
  }

 private:
  struct Found {
    std::vector<std::string_view> texts{};
    std::vector<float> floats{};
    std::vector<std::int64_t> integers{};
    std::optional<std::span<const std::byte>> feature{};  // as it stands in the record
  };

  std::size_t find(std::string_view key, std::size_t entry);
  void note(std::string_view key, std::size_t entry, std::span<const std::byte> feature);
  bool find_plain(std::string_view record);
  bool read_plain(std::size_t i);
  void read(const FeatureSpec& wanted, Found& found, std::string_view record);
  void forget() noexcept;

  std::vector<FeatureSpec> features_;
  std::vector<std::int64_t> counts_;  // of their values; -1: any
  std::vector<std::size_t> by_key_;   // positions in features_, by key
  std::vector<std::string> keys_;     // sorted
  std::vector<std::size_t> guesses_;  // where the last example's entries were among them
  Limits limits_;
  std::vector<Found> found_;
};

}  // namespace penstock
