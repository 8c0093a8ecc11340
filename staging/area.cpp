#include "staging/area.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "staging/range.h"

namespace penstock {

namespace {

std::shared_ptr<StagingPool> own_pool(const DevicePtr& device, const BatchLayout& layout,
                                      const StagingOptions& options) {
  if (options.slots < 1 || options.ahead < -1 || !(options.watchdog_s > 0)) {
    throw Error(ErrorCode::invalid_argument,
                "a staging area has at least 1 slot, ahead is at least 0 (or -1) and the watchdog "
                "takes more than 0 s; not " +
                    std::to_string(options.slots) + ", " + std::to_string(options.ahead) + ", " +
                    std::to_string(options.watchdog_s));
  }
  return std::make_shared<StagingPool>(device,
                                       StagingPool::Options{.bytes = layout.bytes(),
                                                            .packed = !layout.fixed(),
                                                            .slots = options.slots,
                                                            .memory_bytes = options.memory_bytes});
}

/// A guard: one more waits.
class Waiting {
 public:
  explicit Waiting(int& count) noexcept : count_(++count) {}
  ~Waiting() { --count_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  int& count_;
};

}  // namespace

StagingState::StagingState(DevicePtr device, const Spec& batches, std::int64_t rows,
                           const StagingOptions& options, std::shared_ptr<StagingPool> pool)
    : device_(std::move(device)),
      backend_(device_->backend()),
      clock_(backend_.time()),
      layout_(batches, rows, options.max_bytes),
      in_place_(device_->unified()),
      watchdog_ns_(static_cast<std::int64_t>(options.watchdog_s * 1e9)),
      pool_(pool ? std::move(pool) : own_pool(device_, layout_, options)),
      most_(std::min(options.slots, pool_->most())),
      mutex_(pool_->mutex),
      change_(pool_->changed) {
  copy_.emplace(device_, "copy");
  if (backend_.guards()) guard_.emplace(device_, "guard");
  const int ahead = options.ahead < 0 ? slots() - 1 : options.ahead;
  for (int i = 0; i < slots() + ahead; ++i) {
    flights_.push_back(std::make_unique<Flight>(device_));
    flights_.back()->tensors.resize(layout_.size());
  }
  MutexLock lock(mutex_);
  for (const auto& flight : flights_) free_flights_.push_back(flight.get());
  member_.most = most_;
  pool_->mutex.assert_held();  // the same mutex
  pool_->join(member_);
}

StagingState::~StagingState() {
  // No other user remains. The requested work must end before its memory is freed.
  for (const auto& flight : flights_) {
    if (flight->staged) flight->ready.view().synchronize();
    for (std::size_t i = 0; i < flight->ends; ++i) flight->ended[i].view().synchronize();
  }
  if (guard_) guard_->view().synchronize();
  copy_.reset();
  guard_.reset();
  MutexLock lock(mutex_);
  for (const auto& flight : flights_) give_slot(*flight);
  pool_->mutex.assert_held();
  pool_->leave(member_);
  changed();
}

StagingSlot* StagingState::take_slot() {
  bool at_end = false;
  for (std::size_t i = 0; i < queue_.size(); ++i)
    at_end = at_end || queue_[i].kind == Entry::Kind::end;
  pool_->mutex.assert_held();
  return pool_->take(member_, at_end);
}

void StagingState::give_slot(Flight& flight) {
  if (!std::exchange(flight.has_slot, false)) return;
  pool_->mutex.assert_held();
  pool_->give_back(member_, *flight.slot);
}

void StagingState::ask_for_slots(bool asked) {
  if (!pool_->shared()) return;
  pool_->mutex.assert_held();
  pool_->ask(asked ? &member_ : nullptr);
  changed();
}

void StagingState::changed() {
  clock_.notify(change_);
}

void StagingState::throw_if_over() {
  if (!failed_.ok()) throw Error(failed_.error());
  if (closed_) throw Error(ErrorCode::cancelled, "the staging area is closed");
}

void StagingState::wait_for_change(std::int64_t since, std::int64_t until) {
  const std::int64_t now = clock_.now();
  const std::int64_t waited = now - since;
  if (waited >= watchdog_ns_) find_what_hangs();
  if (!failed_.ok()) return;
  wait_on(clock_, mutex_, change_, std::min(until, now + watchdog_ns_ - waited % watchdog_ns_));
}

void StagingState::await_copy(const Flight& flight) {
  MutexLock lock(mutex_);
  const std::int64_t since = clock_.now();
  while (!flight.copied && !flight.ready.view().done()) {
    if (!failed_.ok()) throw Error(failed_.error());
    wait_for_change(since);
  }
}

std::string StagingState::watchdog_text() const {
  return std::to_string(static_cast<double>(watchdog_ns_) * 1e-9).substr(0, 5) + " s";
}

// Only work that the device was asked to do can hang. A slow producer, or a consumer that keeps its
// batch, does not.
void StagingState::find_what_hangs() {
  const std::string after = " has not ended for " + watchdog_text();
  const std::int64_t before = clock_.now() - watchdog_ns_;
  std::string hangs;
  for (const auto& flight : flights_) {
    if (!flight->staged || flight->slot == nullptr) continue;
    const std::string where = "slot " + std::to_string(flight->slot->index) + " of " +
                              device_->id().to_string() + " on stream ";
    // Only a copy that has begun. Others may wait for it, or for work that still uses the slot.
    if (!flight->copied && flight->times.put <= before && flight->begin.view().done()) {
      hangs = "the copy into " + where + copy_->view().name();
      break;
    }
    if (flight->copied && flight->released && flight->times.ended <= before) {
      hangs = "work on " + where + flight->last_stream;
    }
  }
  if (hangs.empty()) return;
  if (failed_.ok()) failed_ = Status(ErrorCode::no_progress, hangs + after);
  changed();
  backend_.kick(kick_);
}

void StagingState::stand_in(Entry entry, std::optional<StagingPermit> permit) {
  MutexLock lock(mutex_);
  if (permit) entry.flight = permit->flight_;
  queue_.push_back(std::move(entry));
  if (permit) permit->flight_ = nullptr;
  changed();
}

void StagingState::put_end(std::optional<StagingPermit> permit) {
  stand_in({.kind = Entry::Kind::end}, std::move(permit));
}

void StagingState::put_error(const Status& error, std::optional<StagingPermit> permit) {
  stand_in({.kind = Entry::Kind::error, .error = error}, std::move(permit));
}

void StagingState::put_stop() {
  stand_in({.kind = Entry::Kind::stop}, std::nullopt);
}

void StagingState::recycle(Flight& flight) {
  flight.in_use = flight.staged = flight.copied = flight.has_pass = false;
  flight.released = flight.told = false;
  flight.ends = 0;
  flight.holds = 0;
  flight.slot = nullptr;
  flight.error = Status();
  flight.times = {};
  free_flights_.push_back(&flight);
  changed();
}

void StagingState::close() noexcept {
  MutexLock lock(mutex_);
  closed_ = true;
  changed();
  backend_.kick(kick_);
}

void StagingState::fail(const Status& error) noexcept {
  MutexLock lock(mutex_);
  if (failed_.ok()) failed_ = error;
  changed();
  backend_.kick(kick_);
}

void StagingState::observe(BatchObserver* observer) {
  MutexLock lock(mutex_);
  observer_ = observer;
}

StagingPermit StagingState::reserve() {
  MutexLock lock(mutex_);
  const std::int64_t since = clock_.now();
  for (;;) {
    throw_if_over();
    if (!free_flights_.empty()) break;
    wait_for_change(since);
  }
  Flight& flight = *free_flights_.back();
  free_flights_.pop_back();
  flight.in_use = true;
  return {shared_from_this(), flight};
}

void StagingState::give_back(Flight& flight) noexcept {
  MutexLock lock(mutex_);
  recycle(flight);
}

StagingSlot& StagingState::claim(Flight& flight) {
  MutexLock lock(mutex_);
  const std::int64_t since = clock_.now();
  for (;;) {
    throw_if_over();
    flight.slot = take_slot();
    if (flight.slot != nullptr) break;
    wait_for_change(since);
  }
  flight.has_slot = true;
  try {
    queue_.push_back({.flight = &flight});
  } catch (...) {
    give_slot(flight);
    changed();
    throw;
  }
  flight.times.sequence = claimed_++;
  return *flight.slot;
}

void StagingState::open(StagingSlot& slot) {
  if (slot.packed != nullptr) backend_.take_over(slot.packed);
  // The device first finishes all earlier work that uses the slot.
  const StreamView copy = *copy_;
  for (std::size_t i = 0; i < slot.releases; ++i) copy.wait(slot.released[i].view());
  slot.releases = 0;
  if (slot.closed && !in_place_) {
    copy.wait(*slot.closed);
    backend_.guard({slot.data, pool_->bytes()}, true, copy.state());
  }
}

void StagingState::put(StagingPermit permit, std::span<Piece> pieces, std::int64_t padded_rows) {
  const Range range(backend_, "penstock: put a batch");
  Flight& flight = *permit.flight_;
  flight.pieces.assign(std::make_move_iterator(pieces.begin()),
                       std::make_move_iterator(pieces.end()));
  Status error;
  try {
    StagingSlot& slot = claim(flight);
    permit.flight_ = nullptr;  // from here on the queue holds it, whatever fails
    open(slot);
    fill(flight, slot, padded_rows);
  } catch (...) {
    if (permit.flight_ != nullptr) throw;
    error = status_from_current_exception();
  }
  MutexLock lock(mutex_);
  if (!error.ok()) {
    give_slot(flight);
    flight.slot = nullptr;
    flight.error = error;
  } else {
    flight.holds = 1;
    flight.staged = true;
    flight.times.staged = clock_.now();
  }
  changed();
  backend_.kick(kick_);
  if (!error.ok()) throw Error(error.error());
}

void StagingState::fill(Flight& flight, StagingSlot& slot, std::int64_t padded_rows) {
  std::int64_t rows = 0;
  for (const Piece& piece : flight.pieces) rows += piece.count;
  flight.times.rows = rows;
  flight.times.put = clock_.now();
  for (const Piece& piece : flight.pieces) {
    for (std::size_t c = 0; c < piece.batch.size(); ++c)
      backend_.take_over(memory_of(piece.batch[c]));
  }
  const bool one = flight.pieces.size() == 1 && padded_rows <= rows;
  const bool whole = one && flight.pieces.front().whole;
  const bool view = in_place_ && one && !flight.pieces.front().shared;
  const StreamView copy = *copy_;
  copy.record(flight.begin);
  flight.copies.clear();
  for (std::size_t c = 0; c < layout_.size(); ++c) {
    const std::int64_t all =
        whole ? flight.pieces.front().batch[c].dim(0) : std::max(rows, padded_rows);
    if (layout_[c].is_text()) {
      pack_text(flight, slot, c);
      flight.tensors[c].shape = flight.tensors[c].shape.with(0, all);
    } else if (view) {
      Piece& piece = flight.pieces.front();
      Tensor& tensor = piece.batch[c];
      const Rows part = rows_in(piece, tensor);
      const std::ptrdiff_t begin = bytes_of(tensor, part).data() - tensor.data();
      // The memory was the producer's to write, and now belongs to the consumer.
      flight.tensors[c] = {tensor.dtype(), tensor.shape().with(0, part.count),
                           tensor.mutable_data() + begin, nullptr};
    } else {
      copy_rows(flight, slot, c, all);
    }
  }
  for (const Copy& each : flight.copies.copies()) copy.copy(each);
  copy.record(flight.ready);
}

void StagingState::copy_rows(Flight& flight, StagingSlot& slot, std::size_t c,
                             std::int64_t all_rows) {
  const BatchLayout::Part& part = layout_[c];
  Shape shape = part.row.shape;
  std::byte* const begin = slot.data + part.offset;
  std::byte* to = begin;
  std::int64_t rows = 0;
  for (const Piece& piece : flight.pieces) {
    const Tensor& from = piece.batch[c];
    const Rows part_rows = rows_in(piece, from);
    const std::span<const std::byte> bytes = bytes_of(from, part_rows);
    backend_.host_access(bytes, !piece.shared);
    flight.copies.add({to, bytes.data(), bytes.size()}, from.owner().get());
    to += bytes.size();
    shape = from.shape().drop_front();
    rows += part_rows.count;
  }
  if (!shape.is_static()) shape = Shape({0});  // only padding, of unknown size
  flight.tensors[c] = {part.row.dtype, shape.prepend(all_rows), begin, nullptr};
  const auto missing = static_cast<std::size_t>(all_rows - rows);
  const std::size_t row_bytes = static_cast<std::size_t>(shape.volume()) * size_of(part.row.dtype);
  const auto room = static_cast<std::size_t>(begin + part.capacity - to);
  if (missing == 0) return;
  const StreamView copy = *copy_;
  copy.clear({to, std::min(missing * row_bytes, room)});
  flight.copies.end_run();  // copies follow later, and none may overwrite this
}

void StagingState::pack_text(Flight& flight, StagingSlot& slot, std::size_t c) {
  const BatchLayout::Part& part = layout_[c];
  std::byte* offsets = slot.packed + part.offset;
  std::byte* text = slot.packed + part.text_offset;
  std::uint64_t end = 0;
  Shape shape = part.row.shape.is_static() ? part.row.shape : Shape();
  const auto put_offset = [&] {
    std::memcpy(offsets, &end, sizeof(end));
    offsets += sizeof(end);
  };
  backend_.host_access({slot.packed + part.offset, part.offsets_bytes}, true);
  for (const Piece& piece : flight.pieces) {
    const Tensor& tensor = piece.batch[c];
    shape = tensor.shape().drop_front();
    const std::int64_t each = shape.volume();
    const Rows rows = rows_in(piece, tensor);
    for (std::int64_t i = each * rows.first; i < each * (rows.first + rows.count); ++i) {
      const std::string_view value = tensor.bytes_at(i);
      put_offset();
      if (!value.empty()) std::memcpy(text + end, value.data(), value.size());
      end += value.size();
    }
  }
  // Padding rows are empty strings.
  while (offsets < slot.packed + part.offset + part.offsets_bytes) put_offset();
  flight.copies.add({slot.data + part.offset, slot.packed + part.offset, part.offsets_bytes},
                    nullptr);
  flight.copies.add({slot.data + part.text_offset, slot.packed + part.text_offset, end}, nullptr);
  flight.tensors[c] = {part.row.dtype, shape.prepend(flight.times.rows), slot.data + part.offset,
                       slot.data + part.text_offset};
}

// Leases move between threads unseen. So only the time shows that the thread that waits here holds
// them.
void StagingState::refuse_if_all_are_held(std::int64_t asked) {
  const auto held = std::count_if(flights_.begin(), flights_.end(),
                                  [](const auto& flight) { return flight->holds > 0; });
  if (held < slots()) return;
  if (clock_.now() - std::max(asked, leases_changed_) < watchdog_ns_) return;
  find_what_hangs();  // they may be held because of that
  if (!failed_.ok()) return;
  throw Error(ErrorCode::no_progress,
              device_->id().to_string() + ": all " + std::to_string(slots()) +
                  " slots are held, and none was released for " + watchdog_text() +
                  "; release a batch before asking for the next");
}

bool StagingState::returns_memory() {
  MutexLock lock(mutex_);
  if (dropping_) return true;
  const bool moves = waiting_ == 0;
  const std::int64_t since = clock_.now() - watchdog_ns_;
  for (const auto& flight : flights_) {
    if (flight->has_slot && !flight->staged) return true;  // is being filled
    if (!flight->staged || (flight->copied && !in_place_)) continue;
    if (!flight->copied || flight->released) return true;
    if (moves && std::max(flight->times.staged, leases_changed_) > since) return true;
  }
  return false;
}

StagedBatch StagingState::lease(Flight& flight) {
  leases_changed_ = clock_.now();
  return {shared_from_this(), flight};
}

StagingState::Taken StagingState::next(std::int64_t asked, std::int64_t until) {
  const Range range(backend_, "penstock: wait for a batch");
  MutexLock lock(mutex_);
  ask_for_slots(true);
  const Waiting waiting(waiting_);
  for (;;) {
    if (!failed_.ok()) return {.error = failed_, .over = true};
    throw_if_over();
    if (!pending_.ok()) {
      const Status error = std::exchange(pending_, Status());
      throw Error(error.error());
    }
    if (queue_.empty()) {
      refuse_if_all_are_held(asked);
    } else if (queue_.front().kind == Entry::Kind::stop) {
      ask_for_slots(false);
      return {.over = true};
    } else if (queue_.front().kind != Entry::Kind::batch) {
      Entry entry = queue_.pop_front();
      if (entry.flight != nullptr) recycle(*entry.flight);
      if (entry.error.ok()) ask_for_slots(false);
      return {.error = std::move(entry.error)};
    } else if (Flight& flight = *queue_.front().flight; !flight.error.ok()) {
      queue_.pop_front();
      Status error = flight.error;
      recycle(flight);
      return {.error = std::move(error)};
    } else if (flight.staged) {
      queue_.pop_front();
      flight.times.asked = asked;
      return {.batch = lease(flight)};
    }
    if (clock_.now() >= until) return {.late = true};
    wait_for_change(asked, until);
  }
}

StagedBatch StagingState::peek(std::size_t i) {
  MutexLock lock(mutex_);
  const std::int64_t asked = clock_.now();
  for (;;) {
    throw_if_over();
    std::size_t place = 0;
    for (std::size_t k = 0; k < queue_.size(); ++k) {
      Flight* flight = queue_[k].flight;
      if (queue_[k].kind != Entry::Kind::batch || !flight->error.ok()) continue;
      if (place++ != i || !flight->staged) continue;
      ++flight->holds;
      return lease(*flight);
    }
    if (i >= static_cast<std::size_t>(slots())) {
      throw Error(ErrorCode::invalid_argument,
                  "peek(" + std::to_string(i) + ") into " + std::to_string(slots()) + " slots");
    }
    wait_for_change(asked);
  }
}

std::size_t StagingState::size() const {
  MutexLock lock(mutex_);
  std::size_t count = 0;
  for (std::size_t k = 0; k < queue_.size(); ++k) {
    const Flight* flight = queue_[k].flight;
    const bool batch = queue_[k].kind == Entry::Kind::batch;
    count += batch && flight->staged && flight->error.ok() ? 1 : 0;
  }
  return count;
}

void StagingState::clear() {
  MutexLock lock(mutex_);
  for (std::size_t left = queue_.size(); left > 0; --left) {
    Entry entry = queue_.pop_front();
    if (entry.kind != Entry::Kind::batch || (!entry.flight->staged && entry.flight->error.ok())) {
      queue_.push_back(std::move(entry));  // ends, and batches that are being filled
    } else if (!entry.flight->error.ok()) {
      recycle(*entry.flight);
    } else {
      drop_hold(*entry.flight);
    }
  }
  changed();
}

void StagingState::wait(Flight& flight, const StreamView& stream, const Site& site) {
  stream.wait(flight.ready, site);
  {
    MutexLock lock(mutex_);
    if (std::exchange(flight.has_pass, true)) return;
  }
  stream.record(flight.passed, site);
}

void StagingState::release(Flight& flight, std::span<const StreamView> streams,
                           const Site& site) noexcept {
  MutexLock lock(mutex_);
  try {
    StagingSlot& slot = *flight.slot;
    while (slot.released.size() < slot.releases + streams.size())
      slot.released.emplace_back(device_);
    while (flight.ended.size() < flight.ends + streams.size()) flight.ended.emplace_back(device_);
    for (const StreamView& stream : streams) {
      ReleasePoint& released = slot.released[slot.releases++];
      ReleasePoint& ended = flight.ended[flight.ends++];
      released.end = ended.end =
          SharedStream::of(stream).record_or_end(released.recorded, ended.recorded, site);
      flight.last_stream = stream.name();
    }
    drop_hold(flight);
  } catch (...) {
    // A slot whose release can't be recorded never becomes free again.
    if (failed_.ok()) failed_ = status_from_current_exception();
    changed();
  }
}

void StagingState::drop_hold(Flight& flight) {
  if (--flight.holds > 0) return;
  flight.released = true;
  flight.times.released = flight.times.ended = leases_changed_ = clock_.now();
  if (guard_ && !in_place_) {
    StagingSlot& slot = *flight.slot;
    const StreamView guard = *guard_;
    guard.wait(flight.ready);
    for (std::size_t i = 0; i < slot.releases; ++i) guard.wait(slot.released[i].view());
    backend_.guard({slot.data, pool_->bytes()}, false, guard.state());
    guard.record(*slot.closed);
  }
  if (flight.copied && !in_place_) give_slot(flight);
  changed();
  backend_.kick(kick_);
}

bool StagingState::collect(std::vector<EventView>& events) {
  events.clear();
  for (const auto& flight : flights_) {
    if (!flight->staged) continue;
    if (!flight->copied) {
      events.push_back(flight->ready);
    } else if (flight->released) {
      // Waits for the first event that is not done. If all are done, takes one of them, so the wait
      // ends.
      std::size_t i = 0;
      while (i + 1 < flight->ends && flight->ended[i].view().done()) ++i;
      if (i < flight->ends) events.push_back(flight->ended[i].view());
    }
  }
  return !(closed_ && events.empty()) && failed_.ok();
}

// Components may be in different buffers.
void StagingState::hand_over(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    for (std::size_t c = 0; c < piece.batch.size(); ++c)
      backend_.hand_over(memory_of(piece.batch[c]));
  }
}

// Notes when the device was done with a batch.
void StagingState::note_end(Flight& flight) {
  BatchTimes& times = flight.times;
  if (flight.ends > 0) times.ended = 0;
  for (std::size_t i = 0; i < flight.ends; ++i)
    times.ended = std::max(times.ended, flight.ended[i].passed_ns(times.released));
  times.stepped = flight.ends > 0 ? flight.ended[0].passed_ns(times.released) : times.ended;
  times.passed =
      flight.has_pass ? flight.passed.view().completed_ns() : std::max(times.asked, times.ready);
}

// True if something changed. `dropped` then receives the pieces that may be released, and `used`
// the times of a batch that has been used.
bool StagingState::advance(Flight& flight, std::vector<Piece>& dropped,
                           std::optional<BatchTimes>& used) {
  if (!flight.staged) return false;
  if (!flight.copied) {
    if (!flight.ready.view().done()) return false;
    flight.copied = true;
    flight.times.copy_begin = flight.begin.view().completed_ns();
    flight.times.ready = flight.ready.view().completed_ns();
    if (flight.slot->packed != nullptr) backend_.hand_over(flight.slot->packed);
    if (!in_place_) {
      hand_over(flight.pieces);
      std::swap(dropped, flight.pieces);
      if (flight.released) give_slot(flight);
    }
    changed();
    return true;
  }
  if (!flight.released) return false;
  for (std::size_t i = 0; i < flight.ends; ++i) {
    if (!flight.ended[i].view().done()) return false;
  }
  if (!std::exchange(flight.told, true)) {
    note_end(flight);
    if (observer_ != nullptr && flight.times.asked >= 0) {
      used = flight.times;
      return true;
    }
  }
  if (in_place_) {
    hand_over(flight.pieces);
    std::swap(dropped, flight.pieces);
    give_slot(flight);
  }
  recycle(flight);
  return true;
}

void StagingState::reap_until_over() {
  std::vector<EventView> events;
  std::vector<Piece> dropped;
  std::vector<Flight*> order;
  events.reserve(flights_.size());
  for (const auto& flight : flights_) order.push_back(flight.get());
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!collect(events)) break;
    }
    {
      const Range range(backend_, "penstock: wait for the device");
      backend_.wait_any(events, kick_);
    }
    const Status status = device_->status();
    if (!status.ok()) {
      MutexLock lock(mutex_);
      const bool lost = status.error().code() == ErrorCode::device_lost;
      (lost ? failed_ : pending_) = status;
      changed();
      if (lost) break;
    }
    // The oldest batch first, so that the observer gets them in order.
    {
      MutexLock lock(mutex_);
      std::sort(order.begin(), order.end(), [](const Flight* a, const Flight* b) {
        return a->times.sequence < b->times.sequence;
      });
    }
    for (Flight* flight : order) {
      bool more = true;
      while (more) {
        BatchObserver* observer = nullptr;
        std::optional<BatchTimes> used;
        {
          MutexLock lock(mutex_);
          more = advance(*flight, dropped, used);
          dropping_ = !dropped.empty();
          observer = observer_;
        }
        // Without the lock: the observer computes, and pieces return slots to the engine.
        if (used) observer->finished(*used);
        if (dropped.empty()) continue;
        dropped.clear();
        MutexLock lock(mutex_);
        dropping_ = false;
      }
    }
  }
}

void StagingState::reap() noexcept {
  try {
    reap_until_over();
  } catch (...) {
    fail(status_from_current_exception());
  }
  BatchObserver* observer = nullptr;
  Status error;
  {
    MutexLock lock(mutex_);
    observer = observer_;
    error = failed_;
  }
  if (observer != nullptr && !error.ok()) observer->failed(error);
}

}  // namespace penstock
