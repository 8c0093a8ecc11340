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

/// Returns the features of a serialised tf.Example, sorted by key; nothing if it is not one. Reads
/// at most 1,000 features. The views point into `record`. Source: TensorFlow's example.proto,
/// feature.proto.
std::optional<std::vector<FeatureView>> view_example(std::string_view record);

}  // namespace penstock::tool
