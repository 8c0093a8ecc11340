#include <penstock/dlpack.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace penstock {
namespace {

using dlpack::DLDataType;
using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;
using dlpack::DLTensor;

constexpr std::uint32_t kMajor = 1;

DLDataType type_of(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  switch (dtype) {
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64:
      return {dlpack::kUInt, bits, 1};
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
      return {dlpack::kInt, bits, 1};
    case DType::f16:
    case DType::f32:
    case DType::f64:
      return {dlpack::kFloat, bits, 1};
    case DType::bf16:
      return {dlpack::kBfloat, bits, 1};
    case DType::boolean:
      return {dlpack::kBool, bits, 1};
    case DType::bytes:
      break;
  }
  throw Error(ErrorCode::invalid_argument, "DLPack has no byte strings");
}

DType dtype_of_dlpack(const DLDataType& type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::bytes) continue;
    const DLDataType ours = type_of(dtype);
    if (ours.code == type.code && ours.bits == type.bits && type.lanes == 1) return dtype;
  }
  throw Error(ErrorCode::invalid_argument, "a DLPack type of code " + std::to_string(type.code) +
                                               ", " + std::to_string(type.bits) + " bits and " +
                                               std::to_string(type.lanes) +
                                               " lanes is not supported");
}

/// The data behind an exported tensor, with the owner of its memory.
template <typename Managed>
struct Holder {
  Managed managed{};
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> strides{};
  std::shared_ptr<const void> owner;
};

struct View {
  void* data;
  DType dtype;
  Shape shape;
  dlpack::DLDevice device;
};

template <typename Managed>
Holder<Managed>* make_holder(const View& view, std::shared_ptr<const void> owner) {
  auto holder = std::make_unique<Holder<Managed>>();
  DLTensor& tensor = holder->managed.dl_tensor;
  tensor.data = view.data;
  tensor.device = view.device;
  tensor.ndim = view.shape.rank();
  tensor.dtype = type_of(view.dtype);
  std::int64_t stride = 1;
  for (int axis = view.shape.rank() - 1; axis >= 0; --axis) {
    const auto at = static_cast<std::size_t>(axis);
    holder->shape[at] = view.shape[axis];
    holder->strides[at] = stride;
    stride *= view.shape[axis];
  }
  tensor.shape = holder->shape.data();
  tensor.strides = holder->strides.data();
  holder->owner = std::move(owner);
  holder->managed.manager_ctx = holder.get();
  holder->managed.deleter = [](Managed* self) {
    delete static_cast<Holder<Managed>*>(self->manager_ctx);
  };
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>)
    holder->managed.version = {kMajor, 0};
  return holder.release();
}

template <typename Managed>
Managed* export_tensor(const Tensor& tensor) {
  const auto kept = std::make_shared<Tensor>(tensor);
  const View view{kept->mutable_data(), kept->dtype(), kept->shape(), {dlpack::kCpu, 0}};
  Holder<Managed>* holder = make_holder<Managed>(view, kept);
  for (int axis = 0; axis < kept->rank(); ++axis)
    holder->strides[static_cast<std::size_t>(axis)] = kept->stride(axis);
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>)
    holder->managed.flags = kept->owner() ? dlpack::kReadOnly : 0;
  return &holder->managed;
}

/// Memory that a foreign deleter frees.
class ForeignBuffer final : public Buffer {
 public:
  ForeignBuffer(std::byte* data, std::size_t size, std::function<void()> deleter)
      : deleter_(std::move(deleter)) {
    data_ = data;
    size_ = size;
  }

 private:
  void dispose() noexcept override {
    deleter_();
    delete this;
  }
  const std::function<void()> deleter_;
};

[[noreturn]] void refuse_tensor(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "a DLPack tensor " + why);
}

Tensor view_of(const DLTensor& from, std::function<void()> deleter) {
  // The buffer calls the deleter, whatever happens here.
  auto* data = static_cast<std::byte*>(from.data);
  if (data != nullptr) data += from.byte_offset;
  const BufferPtr owner(new ForeignBuffer(data, 0, std::move(deleter)));
  if (from.device.device_type != dlpack::kCpu && from.device.device_type != dlpack::kCudaHost)
    refuse_tensor("of device type " + std::to_string(from.device.device_type) +
                  " is not in host memory");
  if (from.ndim < 0 || from.ndim > kMaxRank || (from.ndim > 0 && from.shape == nullptr))
    refuse_tensor("of " + std::to_string(from.ndim) + " dimensions is not supported");
  const DType dtype = dtype_of_dlpack(from.dtype);
  std::vector<std::int64_t> dims(from.shape, from.shape + from.ndim);
  for (const std::int64_t dim : dims)
    if (dim < 0) refuse_tensor("has a dimension of " + std::to_string(dim));
  const Shape shape{std::span<const std::int64_t>(dims)};
  const std::int64_t volume = shape.volume();
  if (volume > std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(size_of(dtype)))
    refuse_tensor("is too large");
  if (volume > 0 && data == nullptr) refuse_tensor("has no memory");
  bool row_major = true;
  std::int64_t expected = 1;
  for (int axis = from.ndim - 1; axis >= 0 && from.strides != nullptr; --axis) {
    row_major = row_major && (dims[static_cast<std::size_t>(axis)] <= 1 || volume == 0 ||
                              from.strides[axis] == expected);
    expected *= dims[static_cast<std::size_t>(axis)];
  }
  if (volume == 0) return Tensor::allocate(dtype, shape);
  if (row_major) return {dtype, shape, data, owner};
  Tensor copy = Tensor::allocate(dtype, shape);
  const std::size_t bytes = size_of(dtype);
  std::vector<std::int64_t> at(dims.size(), 0);
  std::byte* out = copy.mutable_data();
  for (std::int64_t i = 0; i < volume; ++i, out += bytes) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) offset += at[axis] * from.strides[axis];
    std::memcpy(out, data + offset * static_cast<std::int64_t>(bytes), bytes);
    for (std::size_t axis = dims.size(); axis-- > 0 && ++at[axis] == dims[axis];) at[axis] = 0;
  }
  return copy;
}

template <typename Managed>
Tensor import_tensor(Managed* managed) {
  return view_of(managed->dl_tensor, [managed] {
    if (managed->deleter != nullptr) managed->deleter(managed);
  });
}

template <typename Managed>
Managed* export_component(const std::shared_ptr<StagedBatch>& batch, dlpack::DLDevice device,
                          std::string_view component) {
  const DeviceTensor& tensor = (*batch)[component];
  return &make_holder<Managed>({tensor.data, tensor.dtype, tensor.shape, device}, batch)->managed;
}

}  // namespace

ExportedBatch::ExportedBatch(StagedBatch batch, StreamView consumer)
    : batch_(std::make_shared<StagedBatch>(std::move(batch))) {
  const DeviceId id = consumer.device().id();
  switch (id.kind) {
    case DeviceKind::host:
      device_ = {dlpack::kCpu, 0};
      break;
    case DeviceKind::cuda:
      device_ = {dlpack::kCuda, id.index};
      break;
    case DeviceKind::other:
      device_ = {dlpack::kExtDev, id.index};
      break;
  }
  batch_->wait(consumer);
}

DLManagedTensor* ExportedBatch::tensor(std::string_view component) const {
  return export_component<DLManagedTensor>(not_moved(batch_, "exported batch"), device_, component);
}
DLManagedTensorVersioned* ExportedBatch::versioned(std::string_view component) const {
  return export_component<DLManagedTensorVersioned>(not_moved(batch_, "exported batch"), device_,
                                                    component);
}

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  return export_tensor<DLManagedTensor>(tensor);
}
DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor) {
  return export_tensor<DLManagedTensorVersioned>(tensor);
}

Tensor from_dlpack(DLManagedTensor* managed) {
  return import_tensor(managed);
}

Tensor from_dlpack(DLManagedTensorVersioned* managed) {
  if (managed->version.major != kMajor) {
    const std::uint32_t major = managed->version.major;
    if (managed->deleter != nullptr) managed->deleter(managed);
    refuse_tensor("of version " + std::to_string(major) + " is not supported");
  }
  return import_tensor(managed);
}

}  // namespace penstock
