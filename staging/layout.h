// The places of a batch's components in a slot.
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

/// Returns the dtype and shape as text, such as "u8 [64, 3, 224, 224]".
std::string text_of(const DeviceTensor& tensor);

/// The places of a batch's components in a slot. Components of known size come first, in the order
/// and at the distances that the engine's slots have, so that most batches are one copy. Components
/// of unknown size follow, and then byte strings as offsets and text. Immutable.
class BatchLayout {
 public:
  struct Part {
    ComponentSpec row{};            ///< one row, without the batch dimension
    std::size_t offset = 0;         ///< from the start of the slot
    std::size_t capacity = 0;       ///< in bytes; for byte strings, of the text alone
    bool sized = false;             ///< true if its bytes are known beforehand
    std::size_t text_offset = 0;    ///< for byte strings: where the text begins
    std::size_t offsets_bytes = 0;  ///< for byte strings: room for the offsets

    bool is_text() const noexcept { return row.dtype == DType::bytes; }
  };

  /// `rows`: the most rows that a batch has. With 0, components have as many as their spec says, or
  /// any number.
  ///
  /// Throws Error{invalid_argument} if elements of the spec are not batches, or if a component has
  /// no known size and `max_bytes` is 0.
  BatchLayout(const Spec& batches, std::int64_t rows, std::uint64_t max_bytes);

  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return parts_.size(); }
  const Part& operator[](std::size_t i) const noexcept { return parts_[i]; }
  const Names* names() const noexcept { return names_; }
  std::int64_t rows() const noexcept { return rows_; }
  /// True if the sizes of all components are known.
  bool fixed() const noexcept { return fixed_; }

  /// Throws Error{out_of_range} if these rows do not fit into a slot. The message names the bytes
  /// that they take and the room that a slot has. Throws Error{invalid_argument} if they do not
  /// match the spec.
  void check(std::span<const Piece> pieces, std::int64_t padded_rows) const;

 private:
  void check_component(std::span<const Piece> pieces, std::size_t c) const;

  const std::int64_t rows_;
  const Names* names_ = nullptr;
  std::vector<Part> parts_;
  std::size_t bytes_ = 0;
  bool fixed_ = true;
};

/// A list of copies. Copies from one buffer that continue each other are joined to one. `clear`
/// keeps the list's memory.
class CopyList {
 public:
  void clear() noexcept { copies_.clear(); }
  void add(const Copy& copy, const Buffer* owner);
  /// Ends the current run of copies: the next copy is not joined to the copies so far.
  void end_run() noexcept { owner_ = nullptr; }
  std::span<const Copy> copies() const noexcept { return copies_; }

 private:
  std::vector<Copy> copies_;
  const Buffer* owner_ = nullptr;  // owner of the last copy's memory
};

/// Returns the address that identifies the memory a tensor is a part of.
inline const void* memory_of(const Tensor& tensor) noexcept {
  return tensor.owner() ? tensor.owner()->data() : tensor.data();
}

/// A range of rows of one component.
struct Rows {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
/// Returns the rows of `component` that belong to the piece. `component` is one of the piece's
/// batch.
Rows rows_in(const Piece& piece, const Tensor& component);
/// Returns the bytes of these rows. The tensor must be contiguous.
std::span<const std::byte> bytes_of(const Tensor& tensor, Rows rows);

}  // namespace penstock
