// What a run has delivered, and whether that may be.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <penstock/element.h>

namespace penstock::storm {

/// Grows by an entry for each row, each batch's end and each error, in memory that was there
/// before: writing it down never fails.
class Delivered {
 public:
  static constexpr std::uint64_t kEndOfBatch = 0;
  static constexpr std::uint64_t kError = 1;

  void clear() noexcept { size_ = 0; }
  void error() noexcept { add(kError); }
  /// A row's or anything's bytes, which may come in several parts: `mix` first.
  void row(std::uint64_t digest) noexcept { add(digest <= kError ? digest + 2 : digest); }
  void end_of_batch() noexcept { add(kEndOfBatch); }
  /// A batch's valid rows, or a single element.
  void element(const Element& element) noexcept;

  static std::uint64_t mix(std::uint64_t digest, const void* data, std::size_t size) noexcept;

  std::span<const std::uint64_t> entries() const noexcept { return {entries_.data(), size_}; }
  long errors() const noexcept;
  /// True if entries were lost: something goes round in circles.
  bool full() const noexcept { return size_ == entries_.size(); }

 private:
  void add(std::uint64_t entry) noexcept {
    if (!full()) entries_[size_++] = entry;
  }

  std::array<std::uint64_t, 1U << 14> entries_{};
  std::size_t size_ = 0;
};

/// What is wrong with `got`, beside a run in which nothing failed; empty: nothing. Up to the first
/// error both must be the same, batch by batch. Behind it, where batches may be cut otherwise, each
/// row must be one of the clean run's, in its order. Without an error nothing may be missing.
const char* wrong(std::span<const std::uint64_t> expected, const Delivered& got) noexcept;

}  // namespace penstock::storm
