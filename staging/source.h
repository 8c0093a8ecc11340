// Where a feed's batches come from: a run of a dataset, or a script.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <penstock/iterator.h>

namespace penstock {

/// Batches in order, epoch by epoch, as `Iterator` gives them. Used by one thread at a time;
/// `stats` and `cancel` by any.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual Next next() = 0;
  virtual bool next_epoch() = 0;
  virtual Stats stats() const = 0;
  /// What `next` has returned, as Iterator::save. By the thread that calls `next`.
  virtual std::string save() const = 0;
  virtual void cancel() noexcept = 0;
};

using BatchSourcePtr = std::unique_ptr<BatchSource>;

class IteratorSource final : public BatchSource {
 public:
  explicit IteratorSource(Iterator iterator) : iterator_(std::move(iterator)) {}
  Next next() override { return iterator_.next(); }
  bool next_epoch() override { return iterator_.next_epoch(); }
  Stats stats() const override { return iterator_.stats(); }
  std::string save() const override { return iterator_.save(); }
  void cancel() noexcept override { iterator_.cancel(); }

 private:
  Iterator iterator_;
};

}  // namespace penstock
