// A batch on a device, and the consumer's hold on it.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include <penstock/device.h>
#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock {

class StagingState;
struct Flight;

/// A component of a staged batch, in device memory. Of dtype bytes: `data` are shape.volume() + 1
/// offsets (u64) into `text`.
struct DeviceTensor {
  DType dtype = DType::u8;
  Shape shape{};
  std::byte* data = nullptr;
  std::byte* text = nullptr;

  std::size_t nbytes() const { return static_cast<std::size_t>(shape.volume()) * size_of(dtype); }
};

/// A consumer's hold on a staged batch. Move-only; used by one thread at a time.
class StagedBatch {
 public:
  StagedBatch(StagedBatch&& other) noexcept;
  StagedBatch& operator=(StagedBatch&& other) noexcept;
  /// Releases it, on every stream that waited.
  ~StagedBatch();

  /// Orders the stream after the copy; the host does not block. Every stream that uses the batch
  /// must; at most kMostStreams.
  void wait(StreamView stream, Site site = Site::current());
  /// Blocks until the copy has ended. Throws what the area failed with, also if it hangs.
  void synchronize(Site site = Site::current()) const;
  /// The slot is free once this stream, and every one that waited, gets here. Work asked for later
  /// must not use the batch. Idempotent.
  void release(StreamView stream, Site site = Site::current());
  void release(Site site = Site::current()) noexcept;

  std::size_t size() const noexcept;
  /// REQUIRES: i < size().
  const DeviceTensor& at(std::size_t i) const noexcept;
  template <std::integral I>
  const DeviceTensor& operator[](I i) const noexcept {
    return at(static_cast<std::size_t>(i));
  }
  /// Throws Error{not_found} that lists the names there are.
  const DeviceTensor& operator[](std::string_view name) const;
  const DeviceTensor& operator[](const char* name) const { return (*this)[std::string_view(name)]; }
  /// Rows that hold samples; rows past it are zeros.
  std::int64_t valid_rows() const noexcept;
  /// Which batch of the area it is, from 0.
  std::uint64_t sequence() const noexcept;
  /// Which slot it lies in. Where batches are copied a slot's addresses never change.
  int slot() const noexcept;

  static constexpr std::size_t kMostStreams = 8;

 private:
  friend class StagingState;
  StagedBatch(std::shared_ptr<StagingState> area, Flight& flight) noexcept
      : area_(std::move(area)), flight_(&flight) {}

  void remember(StreamView stream);

  std::shared_ptr<StagingState> area_;
  Flight* flight_ = nullptr;  // null once released
  std::size_t waited_ = 0;
  std::array<StreamView, kMostStreams> streams_{};
};

}  // namespace penstock
