// Exchange of tensors with other libraries through DLPack.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <penstock/staged_batch.h>
#include <penstock/tensor.h>

namespace penstock {

/// DLPack's structs, with the layout of its header (https://dmlc.github.io/dlpack, versions before
/// 1.0 and 1.x). So a pointer to one may be passed as a pointer to the other.
namespace dlpack {

/// @cond
enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kExtDev = 12 };
enum TypeCode : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in values; null: row-major
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
inline constexpr std::uint64_t kReadOnly = 1;
/// @endcond

}  // namespace dlpack

/// A batch whose components other libraries use. They share its lease: the slot is released when
/// this object and the last exported tensor are gone, on the streams that waited. A deleter may run
/// on any thread, also after the streams, the area and the other owners of the device are gone. It
/// must not run as work of a stream. Copies share the batch.
class ExportedBatch {
 public:
  /// Takes the batch over, and orders the consumer's stream after the copy. If the consumer's
  /// stream is wrapped, keep the wrapper until the last use of the tensors is enqueued: the slot is
  /// reused after the work up to its end. Throws Error{invalid_argument} that names a stream that
  /// has ended; the batch is then released.
  ExportedBatch(StagedBatch batch, StreamView consumer);
  /// Returns a component. The caller owns the result and calls its deleter once. Throws
  /// Error{not_found}, and Error{invalid_argument} for byte strings, which DLPack lacks.
  dlpack::DLManagedTensor* tensor(std::string_view component) const;
  /// Returns a component in DLPack's versioned form, as `tensor` does.
  dlpack::DLManagedTensorVersioned* versioned(std::string_view component) const;

 private:
  std::shared_ptr<StagedBatch> batch_;
  dlpack::DLDevice device_;
};

/// Returns a tensor in host memory, strided or not. The caller owns the result and calls its
/// deleter once.
dlpack::DLManagedTensor* to_dlpack(const Tensor& tensor);
/// Returns a tensor in DLPack's versioned form, which is marked read-only if other tensors share
/// its memory.
dlpack::DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor);

/// Takes the tensor over. Its deleter is called when the memory is no longer used, and also if this
/// throws. Copies only a tensor that is not row-major. Throws Error{invalid_argument} for memory
/// that the host can't read, for an unknown type or version, and for an invalid shape.
Tensor from_dlpack(dlpack::DLManagedTensor* managed);
/// Takes a tensor in DLPack's versioned form over, as the other `from_dlpack` does.
Tensor from_dlpack(dlpack::DLManagedTensorVersioned* managed);

}  // namespace penstock
