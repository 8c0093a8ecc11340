// Batch sources that follow a script, with the time that each batch takes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include <penstock/element.h>

#include "staging/clock.h"
#include "staging/source.h"

namespace penstock::test {

struct Script {
  std::int64_t elements = 0;  ///< of an epoch; element i is the number first + i * step
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t rows = 1;  ///< of a batch
  std::uint64_t epochs = 1;
  std::int64_t row_bytes = 8;   ///< at least 8
  TimeSource* clock = nullptr;  ///< null: batches take no time
  std::int64_t takes_ns = 0;    ///< per batch
  std::int64_t fails_at = -1;   ///< the number of the failing batch
  Stats stats{};                ///< per batch
  bool saves = true;
};

/// A source with one component "x" of u8 [rows, row_bytes]. Each row begins with its number.
class ScriptedSource final : public BatchSource {
 public:
  explicit ScriptedSource(Script script) : script_(std::move(script)) {
    for (std::int64_t at = 0; at < script_.elements; at += script_.rows) {
      const std::int64_t rows = std::min(script_.rows, script_.elements - at);
      Tensor x = Tensor::allocate(DType::u8, Shape({rows, script_.row_bytes}));
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t number = script_.first + (at + r) * script_.step;
        std::memcpy(x.mutable_data() + r * script_.row_bytes, &number, sizeof(number));
      }
      Element batch{{"x", std::move(x)}};
      batch.valid_rows = rows;
      batches_.push_back(std::move(batch));
    }
  }
  static Spec spec(std::int64_t row_bytes = 8) {
    return Spec({{"x", DType::u8, Shape({-1, row_bytes})}});
  }
  static std::int64_t number(const std::byte* row) {
    std::int64_t value = 0;
    std::memcpy(&value, row, sizeof(value));
    return value;
  }

  Next next() override {
    if (cancelled_) return Next(Error(ErrorCode::cancelled, "the script was cancelled"));
    if (at_ == static_cast<std::int64_t>(batches_.size())) return Next(End{});
    if (script_.takes_ns > 0) script_.clock->sleep_until(script_.clock->now() + script_.takes_ns);
    ++made_;
    if (at_ == script_.fails_at) {
      ++at_;
      return Next(Error(ErrorCode::data_loss, "the script says so"));
    }
    return Next(Element(batches_[static_cast<std::size_t>(at_++)]));
  }
  bool next_epoch() override {
    at_ = 0;
    return ++epoch_ < script_.epochs;
  }
  /// Returns the script's statistics, times the number of batches so far.
  Stats stats() const override {
    Stats stats = script_.stats;
    for (StageStats& stage : stats.stages) {
      stage.busy_s *= static_cast<double>(made_);
      stage.wait_s *= static_cast<double>(made_);
    }
    return stats;
  }
  /// Throws if the script says that it has no position.
  std::string save() const override {
    if (!script_.saves) throw Error(ErrorCode::invalid_argument, "the script has no position");
    return std::to_string(epoch_) + ":" + std::to_string(at_);
  }
  void cancel() noexcept override { cancelled_ = true; }

 private:
  const Script script_;
  std::vector<Element> batches_;
  std::int64_t at_ = 0;
  std::uint64_t epoch_ = 0;
  std::atomic<std::int64_t> made_{0};
  std::atomic<bool> cancelled_{false};
};

}  // namespace penstock::test
