// Iterators over the items of a stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <penstock/state.h>

#include "pipeline/stage/element_ref.h"

namespace penstock {

class Segment;

/// The most items, or positions, that pass through stages at a time.
inline constexpr std::size_t kBlock = 256;

/// One pass over a stage's output, as items. Used by one thread at a time.
class OrderIterator {
 public:
  virtual ~OrderIterator() = default;

  /// Fills the front of `out` and returns the number of items. May return fewer than there is room
  /// for. Returns 0 only at the end, and then always. Throws Error{cancelled} if the thread has to
  /// stop, and is not called again after that. REQUIRES: !out.empty().
  virtual std::size_t pull(std::span<ElementRef> out) = 0;

  /// Returns the number of items if each can be fetched by its position; otherwise nothing.
  virtual std::optional<std::uint64_t> size() const { return std::nullopt; }
  /// Fetches the items at these positions. Independent of `pull`. REQUIRES: size() has a value, all
  /// positions are below it, and the spans have equal lengths.
  virtual void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out);

  /// Returns the program of all items if they share one, otherwise null. A map appends its op
  /// there, instead of to each item that passes.
  virtual ProgramPtr* common_program() noexcept { return nullptr; }

  /// Returns this iterator if it has a thread of its own that makes its items ahead; otherwise
  /// null.
  virtual Segment* segment() noexcept { return nullptr; }

  /// Skips `count` items. Throws Error{data_loss} if the input has fewer.
  virtual void discard(std::uint64_t count);

  /// Save the position, and return to it. `restore` is called on a fresh iterator of the same
  /// stage.
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state) = 0;

 protected:
  /// Pulls up to `count` items, and returns how many there were. Throws their `run_error`.
  std::uint64_t discard_at_most(std::uint64_t count);
  /// Returns the position `count` items after `position`, for an input of `size` items. Throws as
  /// `discard` does.
  static std::uint64_t passed(std::uint64_t position, std::uint64_t count, std::uint64_t size);
};

using OrderIteratorPtr = std::unique_ptr<OrderIterator>;

/// An iterator whose items can be fetched by position. Subclasses implement `size` and `fetch`.
class IndexedIterator : public OrderIterator {
 public:
  std::size_t pull(std::span<ElementRef> out) final;
  void discard(std::uint64_t count) final;
  void save(StateWriter& state) const final { state.put(position_); }
  void restore(StateReader& state) final { position_ = state.get(); }

 private:
  std::uint64_t position_ = 0;
};

}  // namespace penstock
