// Where a feed's batches come from: a run of a dataset, or a script.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/iterator.h>

#include "staging/clock.h"
#include "staging/replay.h"

namespace penstock {

/// Batches in order, epoch by epoch, as `Iterator` gives them. Used by one thread at a time;
/// `stats` and `cancel` by any.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual Next next() = 0;
  /// Of the batch that `next` returned last; it is known where batches are made ahead.
  virtual Buffer::Made made() const noexcept { return {}; }
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
  Next next() override {
    Next next = iterator_.next();
    made_ = {};
    if (!next.has_value() || next.value().size() == 0) return next;
    if (const BufferPtr& buffer = next.value()[0].owner()) made_ = buffer->made();
    return next;
  }
  Buffer::Made made() const noexcept override { return made_; }
  bool next_epoch() override { return iterator_.next_epoch(); }
  Stats stats() const override { return iterator_.stats(); }
  std::string save() const override { return iterator_.save(); }
  void cancel() noexcept override { iterator_.cancel(); }

 private:
  Iterator iterator_;
  Buffer::Made made_;
};

/// Stamps what a source gives.
class StampedSource final : public BatchSource {
 public:
  /// `pulls`: the stamps go there; it must outlive this.
  StampedSource(std::unique_ptr<BatchSource> source, int line, const TimeSource& clock,
                std::vector<PullTimes>& pulls)
      : source_(std::move(source)), line_(line), clock_(clock), pulls_(pulls) {}
  Next next() override {
    Next next = source_->next();
    const Buffer::Made made = source_->made();
    const std::int64_t now = clock_.now();
    pulls_.push_back({.got = now,
                      .made = made.at_ns <= now ? made.at_ns : -1,  // else it is on another clock
                      .line = line_,
                      .slots = made.of,
                      .batch = next.has_value()});
    return next;
  }
  bool next_epoch() override { return source_->next_epoch(); }
  Stats stats() const override { return source_->stats(); }
  std::string save() const override { return source_->save(); }
  void cancel() noexcept override { source_->cancel(); }

 private:
  const std::unique_ptr<BatchSource> source_;
  const int line_;
  const TimeSource& clock_;
  std::vector<PullTimes>& pulls_;
};

}  // namespace penstock
