// Where the components of a batch lie in a slot.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <penstock/element.h>
#include <penstock/spec.h>
#include <penstock/staged_batch.h>
#include <penstock/staging_area.h>

namespace penstock {

/// Such as "u8 [64, 3, 224, 224]".
std::string text_of(const DeviceTensor& tensor);

/// Components of known size first come one after another as the engine's slots have them, so that
/// most batches are one copy; then those of unknown size, and then byte strings as offsets and
/// text. Immutable.
class BatchLayout {
 public:
  struct Part {
    ComponentSpec row{};            ///< one row, without the batch dimension
    std::size_t offset = 0;         ///< in the slot
    std::size_t capacity = 0;       ///< bytes; of byte strings the text alone
    std::size_t row_bytes = 0;      ///< 0: not known before
    std::size_t text_offset = 0;    ///< of byte strings
    std::size_t offsets_bytes = 0;  ///< of byte strings

    bool is_text() const noexcept { return row.dtype == DType::bytes; }
  };

  /// Throws Error{invalid_argument} for what is no batch, or for a component of unknown size if
  /// `max_bytes` is 0.
  BatchLayout(const Spec& batches, std::int64_t rows, std::uint64_t max_bytes);

  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return parts_.size(); }
  const Part& operator[](std::size_t i) const noexcept { return parts_[i]; }
  const Names* names() const noexcept { return names_; }
  std::int64_t rows() const noexcept { return rows_; }
  /// All sizes are known.
  bool fixed() const noexcept { return fixed_; }

  /// Throws Error{out_of_range} or {invalid_argument} if these rows do not fit, with the bytes they
  /// take and the room there is.
  void check(std::span<const Piece> pieces, std::int64_t padded_rows) const;

 private:
  const std::int64_t rows_;
  const Names* names_ = nullptr;
  std::vector<Part> parts_;
  std::size_t bytes_ = 0;
  bool fixed_ = true;
};

/// Copies out of one buffer that continue each other become one. Keeps its memory.
class CopyList {
 public:
  void clear() noexcept { copies_.clear(); }
  void add(const Copy& copy, const Buffer* owner);
  /// What lies behind the copies so far is not to be copied along.
  void end_run() noexcept { owner_ = nullptr; }
  std::span<const Copy> copies() const noexcept { return copies_; }

 private:
  std::vector<Copy> copies_;
  const Buffer* owner_ = nullptr;  // of the last one
};

/// Bytes of rows [first, first + count) of a contiguous tensor.
std::span<const std::byte> rows_of(const Tensor& tensor, std::int64_t first, std::int64_t count);

}  // namespace penstock
