// Datasets for runs with small budgets.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include <penstock/rng.h>
#include <penstock/sources.h>

#include "tests/support/numbers.h"

namespace penstock::test {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline Spec data_spec() {
  return Spec({{"data", DType::bytes, Shape()}});
}

/// A source of records with heavy-tailed sizes: most are small, a few are a hundred times as large.
class ParetoSource final : public Source {
 public:
  struct Options {
    std::uint64_t count = 150;
    std::uint64_t least = 500;
    std::uint64_t most = 60000;
    bool blocking = false;
    bool tells_bytes = true;
    std::uint64_t giant = UINT64_MAX;  // this record has `giant_bytes`
    std::uint64_t giant_bytes = 0;
    bool giants_only = false;  // all later records are giants, too
  };
  explicit ParetoSource(Options options) : options_(options) {}

  std::string name() const override { return "pareto"; }
  void describe(Description& description) const override {
    description.add("count", options_.count);
  }
  Spec spec() const override { return data_spec(); }
  std::optional<std::uint64_t> size() const override { return options_.count; }
  bool blocking() const override { return options_.blocking; }
  std::uint64_t bytes_of(std::uint64_t index) const {
    if (index == options_.giant || (options_.giants_only && index > options_.giant))
      return options_.giant_bytes;
    Rng rng(7, index, 1);
    const double size = static_cast<double>(options_.least) / std::pow(1 - rng.uniform(), 0.8);
    return static_cast<std::uint64_t>(std::min(size, static_cast<double>(options_.most)));
  }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    return options_.tells_bytes ? bytes_of(index) : 0;
  }
  void read(std::span<ReadItem> items, ReadContext& context) const override {
    for (ReadItem& item : items) {
      try {
        const std::uint64_t bytes = bytes_of(item.index);
        BufferPtr buffer = context.allocate(bytes);
        std::memset(buffer->data(), static_cast<int>(item.index % 251), bytes);
        const std::string_view text(reinterpret_cast<const char*>(buffer->data()), bytes);
        item.element = Element({{"data", Tensor::bytes(text, buffer)}});
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }
  Provenance locate(std::uint64_t index) const override {
    return {"pareto", static_cast<std::int64_t>(index), static_cast<std::int64_t>(index), {}};
  }

 private:
  Options options_;
};

/// An op that takes twice the memory of its input, and keeps one half.
class DoubleOp final : public WorkOp {
 public:
  std::string name() const override { return "double"; }
  void describe(Description&) const override {}
  Spec infer(const Spec& input) const override { return input; }
  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok()) continue;
      try {
        const std::string_view in = item.element["data"].bytes_at(0);
        BufferPtr scratch = context.allocate(in.size());
        std::memcpy(scratch->data(), in.data(), in.size());
        BufferPtr out = context.allocate(in.size());
        std::memcpy(out->data(), scratch->data(), in.size());
        const std::string_view text(reinterpret_cast<const char*>(out->data()), in.size());
        item.element = Element({{"data", Tensor::bytes(text, out)}});
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }
};

}  // namespace penstock::test
