// The places where columns find their features: components of elements, or tf.Examples that are
// parsed here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/description.h>
#include <penstock/element.h>
#include <penstock/example_reader.h>

#include <penstock/towers/columns/transform.h>

namespace penstock::towers {

/// The values of a feature in one example. The dtype tells which span holds them. A view.
struct FeatureValues {
  DType dtype = DType::bytes;
  std::span<const std::string_view> texts{};
  std::span<const std::int64_t> integers{};
  std::span<const float> floats{};
  std::span<const double> doubles{};
};
/// Returns the tensor's values; none for other dtypes. Throws Error{invalid_argument} for a strided
/// view.
FeatureValues feature_values(const Tensor& tensor);

/// A reader of features from elements. Immutable and thread-safe.
class FeatureInput {
 public:
  FeatureInput(const Spec& input, const std::vector<ColumnPtr>& columns,
               const std::optional<Label>& label);

  /// Returns the features that can be found. Other functions use their indices. Examples have the
  /// requested features first, then the element's components.
  const Spec& features() const noexcept { return features_; }
  /// Adds everything that parsing depends on.
  void describe(Description& description) const;

  struct Scratch {
    std::optional<ExampleReader> reader{};
    std::vector<FeatureValues> values{};  ///< one for each feature; views of the element
  };
  /// Throws Error{data_loss} for a record that is not an example with these features.
  void read(const Element& in, Scratch& scratch) const;

 private:
  Spec features_;
  std::vector<FeatureSpec> parsed_;  // features of examples
  int record_ = -1;                  // the component that holds examples
};

}  // namespace penstock::towers
