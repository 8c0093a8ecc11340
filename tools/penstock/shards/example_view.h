// The contents of a tf.Example, for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tool {

/// One feature.
struct FeatureView {
  std::string key;
  char kind = '?';          ///< b: bytes, f: floats, i: integers, ?: none
  std::uint64_t count = 0;  ///< values
  std::string_view bytes;   ///< the first value, if they are bytes
  double number = 0;        ///< the first value, if they are numbers
};

/// A feature list of a tf.SequenceExample.
struct SequenceView {
  std::string key;
  char kind = '?';  ///< as of a feature, of the first step with values
  std::uint64_t steps = 0;
  std::uint64_t count = 0;  ///< values of all steps
};

/// The contents of a tf.SequenceExample, each sorted by key.
struct SequenceExampleView {
  std::vector<FeatureView> context;
  std::vector<SequenceView> sequences;
};

/// Returns the contents of a serialised tf.SequenceExample that has a feature list; nothing if it
/// is not one. Reads at most 1,000 features and 1,000 lists.
std::optional<SequenceExampleView> view_sequence_example(std::string_view record);

/// Returns the features of a serialised tf.Example, sorted by key; nothing if it is not one. Reads
/// at most 1,000 features. The views point into `record`. Source: TensorFlow's example.proto,
/// feature.proto.
std::optional<std::vector<FeatureView>> view_example(std::string_view record);

}  // namespace penstock::tool
