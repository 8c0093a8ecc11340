// The data that a run has delivered, and a check of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <penstock/element.h>

namespace penstock::storm {

/// A list with an entry for each row, each end of a batch and each error. Its memory is allocated
/// in advance, so that recording never fails.
class Delivered {
 public:
  static constexpr std::uint64_t kEndOfBatch = 0;
  static constexpr std::uint64_t kError = 1;

  void clear() noexcept { size_ = 0; }
  void error() noexcept { add(kError); }
  /// Adds the digest of the bytes of a row, or of other data. For several parts, combine them with
  /// `mix` first.
  void row(std::uint64_t digest) noexcept { add(digest <= kError ? digest + 2 : digest); }
  void end_of_batch() noexcept { add(kEndOfBatch); }
  /// Adds a batch's valid rows, or a single element.
  void element(const Element& element) noexcept;

  static std::uint64_t mix(std::uint64_t digest, const void* data, std::size_t size) noexcept;

  std::span<const std::uint64_t> entries() const noexcept { return {entries_.data(), size_}; }
  long errors() const noexcept;
  /// True if entries were lost, because the run repeats itself endlessly.
  bool full() const noexcept { return size_ == entries_.size(); }

 private:
  void add(std::uint64_t entry) noexcept {
    if (!full()) entries_[size_++] = entry;
  }

  std::array<std::uint64_t, 1U << 14> entries_{};
  std::size_t size_ = 0;
};

/// Compares `got` with a run in which nothing failed. Returns the first mistake; empty: none. Up to
/// the first error, both must be the same, batch by batch. After it, batches may be cut
/// differently, but each row must be one of the clean run's, in its order. Without an error,
/// nothing may be missing.
const char* wrong(std::span<const std::uint64_t> expected, const Delivered& got) noexcept;

}  // namespace penstock::storm
