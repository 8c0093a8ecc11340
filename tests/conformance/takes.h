// An op that takes memory of the budget, for graphs of numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <penstock/dataset.h>
#include <penstock/work.h>

#include "tests/support/numbers.h"

namespace penstock::test {

/// Returns the bytes that an element takes.
using BytesOf = std::function<std::uint64_t(std::uint64_t seed, std::int64_t x)>;

/// Takes memory for each element: while it works, or as long as the element exists.
class Takes final : public WorkOp {
 public:
  Takes(BytesOf bytes_of, std::uint64_t seed, bool keeps)
      : bytes_of_(std::move(bytes_of)), seed_(seed), keeps_(keeps) {}
  std::string name() const override { return keeps_ ? "keeps_memory" : "takes_memory"; }
  void describe(Description& description) const override { description.add("seed", seed_); }
  Spec infer(const Spec& input) const override { return input; }
  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      try {
        const auto x = item.element["x"].item<std::int64_t>();
        BufferPtr memory = context.allocate(bytes_of_(seed_, x));
        std::byte* const data = memory->data();
        std::memset(data, 1, memory->size());
        if (!keeps_) continue;
        std::memcpy(data, &x, sizeof(x));
        item.element.set("x", Tensor(DType::i64, Shape(), data, std::move(memory)));
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }

 private:
  const BytesOf bytes_of_;
  const std::uint64_t seed_;
  const bool keeps_;
};

}  // namespace penstock::test
