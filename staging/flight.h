// One batch on its way through a staging area.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/device_backend.h>
#include <penstock/staging_area.h>

#include "staging/layout.h"
#include "staging/shared_stream.h"
#include "staging/staging_pool.h"

namespace penstock {

/// The times of the events of a batch, in nanoseconds on the device's clock.
struct BatchTimes {
  std::uint64_t sequence = 0;
  std::int64_t rows = 0;
  std::int64_t put = 0;         ///< when it had a slot, just before the copy was requested
  std::int64_t staged = 0;      ///< when the copy was requested; from then on, `get` may return it
  std::int64_t copy_begin = 0;  ///< when the copy stream had the slot
  std::int64_t ready = 0;       ///< when the copy ended
  std::int64_t asked = -1;      ///< when `get` was called; -1: it never was
  std::int64_t passed = 0;      ///< when the consumer's stream passed its wait, or could have
  std::int64_t released = 0;    ///< when the consumer released it
  std::int64_t stepped = 0;     ///< when the stream that waited first passed the release
  std::int64_t ended = 0;       ///< when the last stream passed the release
};

/// An observer that the reaper calls for each delivered batch once its slot is free again.
/// REQUIRES: it must not call the area.
class BatchObserver {
 public:
  virtual ~BatchObserver() = default;
  virtual void finished(const BatchTimes& times) noexcept = 0;
  /// The device is lost.
  virtual void failed(const Status& /*error*/) noexcept {}
};

/// One batch under way, from the permit to make it until its slot is free. It has events of its
/// own, so that those of the previous batch can still be waited for. The area's mutex guards it,
/// except for the members that its producer fills between claim and `staged`.
///
/// A flight passes through these states: reserved, slot claimed, staged, leased, released, drained.
/// The slot can be claimed again as soon as the lease is released and the copy is known to be done.
/// Events order the next copy after the release. The flight, and with it the permit, is free once
/// the device has reached the release.
struct Flight {
  explicit Flight(const DevicePtr& device) : begin(device), ready(device), passed(device) {}

  Event begin;
  Event ready;
  Event passed;
  std::vector<ReleasePoint> ended;
  std::size_t ends = 0;   // the number of recorded ones
  bool staged = false;    // `ready` is recorded
  bool copied = false;    // the reaper has seen that the copy is done
  bool has_pass = false;  // `passed` was recorded
  int holds = 0;          // held by the queue, then by the consumer, and by peeks
  bool released = false;  // no holds are left
  bool told = false;      // the observer was told that it has been used
  StagingSlot* slot = nullptr;
  bool has_slot = false;  // the slot was not given back yet
  Status error;           // an error in the batch's place
  std::vector<DeviceTensor> tensors;
  std::vector<Piece> pieces;  // kept while the copy reads them
  CopyList copies;
  std::string last_stream;  // the last stream that it was released on
  BatchTimes times;
};

}  // namespace penstock
