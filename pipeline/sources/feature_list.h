// The feature lists of a tf.SequenceExample.
//
// Source: TensorFlow, core/example/example.proto and feature.proto. SequenceExample { Features
// context = 1, FeatureLists feature_lists = 2 }, FeatureLists { map<string, FeatureList>
// feature_list = 1 }, FeatureList { repeated Feature feature = 1 }. The context is at the place of
// an Example's features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/source.h>
#include <penstock/sources.h>

#include "pipeline/sources/feature.h"

namespace penstock::example {

/// Calls `found(name, list)` for every feature list, as `for_each_entry` does.
template <typename Found>
void for_each_feature_list(std::span<const std::byte> record, int max_nesting, const Found& found) {
  constexpr std::uint32_t kFeatureLists = 2;
  for_each_entry(record, kFeatureLists, max_nesting, found);
}

/// Checks a sequence. Throws Error{invalid_argument} that names it if its spec is invalid.
void check(const SequenceSpec& sequence);

/// Appends the components that a sequence becomes: its values and, if steps have any number of
/// them, the splits.
void add_components(const SequenceSpec& sequence, std::vector<ComponentSpec>& components);

/// Reads feature lists, one after the other. Its memory serves the next one. Not synchronised.
class SequenceReader {
 public:
  /// Appends the tensors of a FeatureList, or of a missing one, to `out`. Throws Error{data_loss}
  /// that names the sequence and the step.
  void read(const SequenceSpec& sequence, std::optional<std::span<const std::byte>> list,
            int max_nesting, ReadContext& context, Element& out);

 private:
  void read_steps(const SequenceSpec& sequence, std::span<const std::byte> list, int max_nesting);
  Tensor values(DType dtype, const Shape& shape, ReadContext& context) const;

  std::vector<std::string_view> texts_;
  std::vector<float> floats_;
  std::vector<std::int64_t> integers_;
  std::vector<std::int64_t> splits_;  // where each step ends, from 0 on
};

/// Returns the error of a feature that a record lacks. It says so if the record is a
/// SequenceExample.
std::string missing_text(std::string_view record, std::string_view key, int max_nesting);

}  // namespace penstock::example
