// The contract of an iterator that makes its items ahead.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "pipeline/stage/order_iterator.h"

namespace penstock {

/// An iterator with a thread of its own, which makes its items ahead.
class Segment : public OrderIterator {
 public:
  Segment* segment() noexcept final { return this; }
  /// Begins to make items. The first pull also calls it.
  virtual void start() = 0;
  /// Like `pull`, but returns nothing instead of waiting. REQUIRES: `start` has returned.
  virtual std::optional<std::size_t> try_pull(std::span<ElementRef> out) = 0;
  /// Releases what the items taken so far were made of. The caller holds no mutex here, as memory
  /// that devices can read takes long to free.
  virtual void let_go() noexcept = 0;
  /// Waits until a new `try_pull` may have more to say than the last one, which returned nothing,
  /// or for that time.
  virtual void wait(std::chrono::milliseconds most) = 0;
  /// Sets a callback that is called once the input has ended, on the thread that makes items or on
  /// the calling one.
  virtual void on_exhausted(std::function<void()> callback) = 0;
  /// True if the engine itself failed, or no slot will ever be free. One pull throws the reason;
  /// later ones return nothing.
  virtual bool broken() const = 0;
};

using SegmentPtr = std::unique_ptr<Segment>;

}  // namespace penstock
