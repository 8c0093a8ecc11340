#include "staging/area_producer.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "staging/range.h"

namespace penstock {

Flight& AreaProducer::reserve() {
  MutexLock lock(watch_.mutex);
  const std::int64_t since = watch_.now();
  for (;;) {
    watch_.throw_if_over();
    if (Flight* const flight = queue_.reserve()) return *flight;
    watch_.wait_for_change(since);
  }
}

void AreaProducer::give_back(Flight& flight) noexcept {
  MutexLock lock(watch_.mutex);
  queue_.recycle(flight);
  watch_.changed();
}

void AreaProducer::stand_in(FlightQueue::Entry entry) {
  MutexLock lock(watch_.mutex);
  queue_.put(std::move(entry));
  watch_.changed();
}

StagingSlot& AreaProducer::claim(Flight& flight) {
  MutexLock lock(watch_.mutex);
  const std::int64_t since = watch_.now();
  for (;;) {
    watch_.throw_if_over();
    if (queue_.claim(flight)) return *flight.slot;
    watch_.wait_for_change(since);
  }
}

void AreaProducer::open(StagingSlot& slot) {
  DeviceBackend& backend = watch_.backend();
  if (slot.packed != nullptr) backend.take_over(slot.packed);
  // The device first finishes all earlier work that uses the slot.
  const StreamView copy = copy_;
  for (std::size_t i = 0; i < slot.releases; ++i) copy.wait(slot.released[i].view());
  slot.releases = 0;
  if (slot.closed && !in_place_) {
    copy.wait(*slot.closed);
    backend.guard({slot.data, slot_bytes_}, true, copy.state());
  }
}

void AreaProducer::put(Flight*& given, std::span<Piece> pieces, std::int64_t padded_rows) {
  const Range range(watch_.backend(), "penstock: put a batch");
  Flight& flight = *given;
  flight.pieces.assign(std::make_move_iterator(pieces.begin()),
                       std::make_move_iterator(pieces.end()));
  Status error;
  try {
    StagingSlot& slot = claim(flight);
    given = nullptr;  // from here on the queue holds it, whatever fails
    open(slot);
    fill(flight, slot, padded_rows);
  } catch (...) {
    if (given != nullptr) throw;
    error = status_from_current_exception();
  }
  MutexLock lock(watch_.mutex);
  if (!error.ok()) {
    queue_.give_slot(flight);
    flight.slot = nullptr;
    flight.error = error;
  } else {
    flight.holds = 1;
    flight.staged = true;
    flight.times.staged = watch_.now();
  }
  watch_.changed();
  watch_.wake_reaper();
  if (!error.ok()) throw Error(error.error());
}

void AreaProducer::fill(Flight& flight, StagingSlot& slot, std::int64_t padded_rows) {
  DeviceBackend& backend = watch_.backend();
  std::int64_t rows = 0;
  for (const Piece& piece : flight.pieces) rows += piece.count;
  flight.times.rows = rows;
  flight.times.put = watch_.now();
  for (const Piece& piece : flight.pieces) {
    for (std::size_t c = 0; c < piece.batch.size(); ++c)
      backend.take_over(memory_of(piece.batch[c]));
  }
  const bool one = flight.pieces.size() == 1 && padded_rows <= rows;
  const bool whole = one && flight.pieces.front().whole;
  const bool view = in_place_ && one && !flight.pieces.front().shared;
  const StreamView copy = copy_;
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

void AreaProducer::copy_rows(Flight& flight, StagingSlot& slot, std::size_t c,
                             std::int64_t all_rows) {
  DeviceBackend& backend = watch_.backend();
  const BatchLayout::Part& part = layout_[c];
  Shape shape = part.row.shape;
  std::byte* const begin = slot.data + part.offset;
  std::byte* to = begin;
  std::int64_t rows = 0;
  for (const Piece& piece : flight.pieces) {
    const Tensor& from = piece.batch[c];
    const Rows part_rows = rows_in(piece, from);
    const std::span<const std::byte> bytes = bytes_of(from, part_rows);
    backend.host_access(bytes, !piece.shared);
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
  const StreamView copy = copy_;
  copy.clear({to, std::min(missing * row_bytes, room)});
  flight.copies.end_run();  // copies follow later, and none may overwrite this
}

void AreaProducer::pack_text(Flight& flight, StagingSlot& slot, std::size_t c) {
  DeviceBackend& backend = watch_.backend();
  const BatchLayout::Part& part = layout_[c];
  std::byte* offsets = slot.packed + part.offset;
  std::byte* text = slot.packed + part.text_offset;
  std::uint64_t end = 0;
  Shape shape = part.row.shape.is_static() ? part.row.shape : Shape();
  const auto put_offset = [&] {
    std::memcpy(offsets, &end, sizeof(end));
    offsets += sizeof(end);
  };
  backend.host_access({slot.packed + part.offset, part.offsets_bytes}, true);
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
