// Tensors to and from other libraries, as DLPack has them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <penstock/staged_batch.h>
#include <penstock/tensor.h>

namespace penstock {

/// DLPack's structs, laid out as in its header (https://dmlc.github.io/dlpack, versions before 1.0
/// and 1.x), so that a pointer to one may be handed over as a pointer to the other.
namespace dlpack {

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

}  // namespace dlpack

/// A batch whose components other libraries use. They share its lease: the slot is released when
/// this and the last exported tensor are gone, on the streams that waited. A deleter may run on any
/// thread. Copies share.
class ExportedBatch {
 public:
  /// The consumer's stream is ordered after the copy.
  ExportedBatch(StagedBatch batch, StreamView consumer);
  /// The caller owns what is returned and calls its deleter once. Throws Error{not_found}, and
  /// Error{invalid_argument} for byte strings, which DLPack has not.
  dlpack::DLManagedTensor* tensor(std::string_view component) const;
  dlpack::DLManagedTensorVersioned* versioned(std::string_view component) const;

 private:
  std::shared_ptr<StagedBatch> batch_;
  dlpack::DLDevice device_;
};

/// A tensor in host memory, strided or not. The versioned form says that it is read-only if others
/// share its memory.
dlpack::DLManagedTensor* to_dlpack(const Tensor& tensor);
dlpack::DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor);

/// Takes the tensor over; its deleter is called when the memory is used no more, and also if this
/// throws. Copies only what is not row-major. Throws Error{invalid_argument} for memory that the
/// host can't read, for a type or version that is not known, and for a shape that is none.
Tensor from_dlpack(dlpack::DLManagedTensor* managed);
Tensor from_dlpack(dlpack::DLManagedTensorVersioned* managed);

}  // namespace penstock
