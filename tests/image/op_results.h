// Runs image ops on one image.
#pragma once

#include <penstock/image.h>

#include "pipeline/image/chain.h"
#include "tests/support/context.h"

namespace penstock::test {

using Bytes = std::vector<std::byte>;

inline Tensor bytes_tensor(const Bytes& bytes) {
  return Tensor::bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, BufferPtr());
}

/// Runs an op on an element whose only component is "image".
inline WorkItem run(const WorkOpPtr& op, Tensor input, std::uint64_t ordinal = 1,
                    std::uint64_t key = 1, Row row = {}) {
  test::HeapContext context(key);
  WorkItem item;
  item.ordinal = ordinal;
  item.row = row;
  item.element = Element({{"image", std::move(input)}});
  op->run({&item, 1}, context);
  return item;
}

}  // namespace penstock::test
