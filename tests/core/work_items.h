// The input of ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <penstock/source.h>

namespace penstock::test {

/// Returns {x: i64 []} elements 0, 1, 2 and so on, with the same numbers as ordinals.
inline std::vector<WorkItem> items(int count) {
  std::vector<WorkItem> result(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    result[static_cast<std::size_t>(i)].element = {{"x", Tensor::scalar(std::int64_t{i})}};
    result[static_cast<std::size_t>(i)].ordinal = static_cast<std::uint64_t>(i);
  }
  return result;
}

}  // namespace penstock::test
