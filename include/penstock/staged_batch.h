// A batch on a device, and the lease that holds it.
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

/// A component of a staged batch, in device memory. For dtype bytes, `data` are shape.volume() + 1
/// offsets (u64) into `text`.
struct DeviceTensor {
  DType dtype = DType::u8;    ///< of the values
  Shape shape{};              ///< outermost first
  std::byte* data = nullptr;  ///< the values, row-major
  std::byte* text = nullptr;  ///< null unless of dtype bytes

  /// Returns the bytes of the values: volume times the size of one.
  std::size_t nbytes() const { return static_cast<std::size_t>(shape.volume()) * size_of(dtype); }
};

/// A lease: the consumer's hold on a staged batch. Move-only. One thread at a time may use it. It
/// may outlive the staging area, and the streams that waited for it: such a stream has passed the
/// release once its work has ended.
class StagedBatch {
 public:
  StagedBatch(StagedBatch&& other) noexcept;
  StagedBatch& operator=(StagedBatch&& other) noexcept;
  /// Releases the batch on every stream that waited for it.
  ~StagedBatch();

  /// Orders the stream after the copy, without blocking the host. Every stream that uses the batch
  /// must wait; at most kMostStreams may. Throws Error{invalid_argument} that names a stream that
  /// has ended.
  void wait(StreamView stream, Site site = Site::current());
  /// Blocks until the copy has ended. Throws the area's error, also if the copy hangs.
  void synchronize(Site site = Site::current()) const;
  /// Frees the slot once this stream, and every stream that waited, reaches this point. Work that
  /// you enqueue later must not use the batch. Idempotent. Throws as `wait` does; the lease is then
  /// not released yet.
  void release(StreamView stream, Site site = Site::current());
  /// Frees the slot once every stream that waited reaches this point.
  void release(Site site = Site::current()) noexcept;

  /// Returns the number of components.
  std::size_t size() const noexcept;
  /// Returns component i. REQUIRES: i < size().
  const DeviceTensor& at(std::size_t i) const;
  /// Returns component i. REQUIRES: i < size().
  template <std::integral I>
  const DeviceTensor& operator[](I i) const {
    return at(static_cast<std::size_t>(i));
  }
  /// Returns the component of that name. Throws Error{not_found} that lists the names of the batch.
  const DeviceTensor& operator[](std::string_view name) const;
  const DeviceTensor& operator[](const char* name) const { return (*this)[std::string_view(name)]; }
  /// Returns true if the batch has a component of that name.
  bool has(std::string_view name) const noexcept;
  /// Returns the number of rows that hold samples. Rows past it are zeros.
  std::int64_t valid_rows() const noexcept;
  /// Returns the number of the batch in its area, from 0.
  std::uint64_t sequence() const noexcept;
  /// Returns the number of the slot that it lies in. Where batches are copied, the addresses of a
  /// slot never change.
  int slot() const noexcept;

  /// The most streams that may wait for a batch.
  static constexpr std::size_t kMostStreams = 8;

 private:
  friend class StagingState;
  StagedBatch(std::shared_ptr<StagingState> area, Flight& flight) noexcept
      : area_(std::move(area)), flight_(&flight) {}

  void remember(const StreamView& stream);
  Flight& flight() const;
  void take(StagedBatch& other) noexcept;

  std::shared_ptr<StagingState> area_;
  Flight* flight_ = nullptr;  // null once released
  std::size_t waited_ = 0;
  std::array<StreamView, kMostStreams> streams_{};
};

}  // namespace penstock
