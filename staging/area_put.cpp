// The producer's side of a staging area.
#include <algorithm>
#include <cstring>

#include "staging/area.h"
#include "staging/range.h"

namespace penstock {

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

}  // namespace penstock
