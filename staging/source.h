// The origin of a feed's batches: a run of a dataset, or a script.
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

/// A source of batches in order, epoch by epoch, as `Iterator` returns them. One thread at a time
/// may use it; any thread may call `stats` and `cancel`.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual Next next() = 0;
  /// Returns when the batch that `next` returned last was made. Known if batches are made ahead.
  virtual Buffer::Made made() const noexcept { return {}; }
  /// True if `next` has returned an end that is not the end of the data: the run was cancelled or
  /// gave up. The error in front of that end says why.
  virtual bool broke_off() const noexcept { return false; }
  virtual bool next_epoch() = 0;
  virtual Stats stats() const = 0;
  /// Saves the position after the results that `next` has returned, like Iterator::save. Only for
  /// the thread that calls `next`.
  virtual std::string save() const = 0;
  virtual void cancel() noexcept = 0;
};

using BatchSourcePtr = std::unique_ptr<BatchSource>;

/// The batches of an iterator.
class IteratorSource final : public BatchSource {
 public:
  /// `skips`: the run has OnError::skip, so that an error means that the error budget is exceeded.
  IteratorSource(Iterator iterator, bool skips) : iterator_(std::move(iterator)), skips_(skips) {}
  Next next() override {
    Next next = iterator_.next();
    made_ = {};
    broke_off_ = next.is_end() && failed_ && (skips_ || !epoch_is_finished());
    failed_ = next.is_error();
    if (!next.has_value() || next.value().size() == 0) return next;
    if (const BufferPtr& buffer = next.value()[0].owner()) made_ = buffer->made();
    return next;
  }
  Buffer::Made made() const noexcept override { return made_; }
  bool broke_off() const noexcept override { return broke_off_; }
  bool next_epoch() override { return iterator_.next_epoch(); }
  Stats stats() const override { return iterator_.stats(); }
  std::string save() const override { return iterator_.save(); }
  void cancel() noexcept override { iterator_.cancel(); }

 private:
  /// An epoch that was delivered to its end has an entry in the statistics.
  bool epoch_is_finished() const {
    const std::vector<EpochStats> epochs = iterator_.stats().epochs;
    return !epochs.empty() && epochs.back().epoch == iterator_.epoch();
  }

  Iterator iterator_;
  const bool skips_;
  Buffer::Made made_;
  bool failed_ = false;  // the last result was an error
  bool broke_off_ = false;
};

/// A source that changes `next` of another source, and leaves the rest to it.
class ForwardingSource : public BatchSource {
 public:
  explicit ForwardingSource(BatchSourcePtr source) : source_(std::move(source)) {}
  Buffer::Made made() const noexcept override { return source_->made(); }
  bool broke_off() const noexcept override { return source_->broke_off(); }
  bool next_epoch() override { return source_->next_epoch(); }
  Stats stats() const override { return source_->stats(); }
  std::string save() const override { return source_->save(); }
  void cancel() noexcept override { source_->cancel(); }

 protected:
  BatchSource& source() noexcept { return *source_; }

 private:
  const BatchSourcePtr source_;
};

/// A source that records the times at which another source returns its batches.
class StampedSource final : public ForwardingSource {
 public:
  /// `pulls`: receives the times; it must outlive this object.
  StampedSource(BatchSourcePtr source, int line, const TimeSource& clock,
                std::vector<PullTimes>& pulls)
      : ForwardingSource(std::move(source)), line_(line), clock_(clock), pulls_(pulls) {}
  Next next() override {
    Next next = source().next();
    const Buffer::Made made = source().made();
    if (next.has_value() && next.value().size() == 0) return next;  // made by another process
    const std::int64_t now = clock_.now();
    pulls_.push_back({.got = now,
                      .made = made.at_ns <= now ? made.at_ns : -1,  // else it is on another clock
                      .begun = made.begun_ns,
                      .line = line_,
                      .slots = made.of,
                      .batch = next.has_value()});
    return next;
  }

 private:
  const int line_;
  const TimeSource& clock_;
  std::vector<PullTimes>& pulls_;
};

}  // namespace penstock
