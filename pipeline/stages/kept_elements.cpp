#include "pipeline/stages/kept_elements.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace penstock {
namespace {

static_assert(alignof(Tensor) <= Arena::kAlignment && sizeof(Tensor) % Arena::kAlignment == 0);

constexpr std::size_t kMostToCopy = 1024;  // bytes of a tensor

/// Returns the bytes of the values, and of the text that they refer to.
std::size_t bytes_of(const Tensor& tensor) {
  std::size_t bytes = tensor.nbytes();
  if (tensor.dtype() != DType::bytes || !tensor.contiguous()) return bytes;
  for (std::int64_t i = 0; i < tensor.volume(); ++i) bytes += tensor.bytes_at(i).size();
  return bytes;
}

/// True if the values are in the tensor itself, with all that they refer to.
bool is_complete(const Tensor& tensor) noexcept {
  return tensor.is_inline() && tensor.dtype() != DType::bytes;
}

/// True if another process may write to the values.
bool is_mapped(const Tensor& tensor) noexcept {
  return tensor.owner() && tensor.owner()->mapping() != nullptr;
}

/// Returns the bytes that a copy of the tensor's values takes in a block; 0 if they stay where they
/// are. Those in a mapped file do: a copy would hide from later passes that the file has changed.
std::size_t copied_bytes(const Tensor& tensor, std::size_t bytes) noexcept {
  if (is_complete(tensor) || !tensor.contiguous() || bytes > kMostToCopy) return 0;
  if (is_mapped(tensor)) return 0;
  return Arena::aligned(bytes);
}

/// Copies the values to `place`. Returns a view of them that does not own them.
Tensor copy_to_block(const Tensor& tensor, std::byte* place) {
  if (tensor.dtype() != DType::bytes) {
    tensor.copy_to(place);
    return {tensor.dtype(), tensor.shape(), place, BufferPtr()};
  }
  auto* const views = reinterpret_cast<std::string_view*>(place);
  std::byte* text = place + tensor.nbytes();
  for (std::int64_t i = 0; i < tensor.volume(); ++i) {
    const std::string_view value = tensor.bytes_at(i);
    if (!value.empty()) std::memcpy(text, value.data(), value.size());
    std::construct_at(views + i, reinterpret_cast<const char*>(text), value.size());
    text += value.size();
  }
  return {tensor.dtype(), tensor.shape(), place, BufferPtr()};
}

}  // namespace

/// What a block holds for an element. Its tensors follow, then the values that were copied.
struct alignas(Tensor) KeptElements::Kept {
  std::uint64_t ordinal;
  const Names* names;
  std::int64_t valid_rows;
  ProgramPtr origin;
  std::uint64_t index;
  std::shared_ptr<const std::string> shard;
  std::int64_t offset;
  std::uint32_t count;  // tensors
  std::uint32_t bytes;  // of all of it

  Tensor* tensors() noexcept { return reinterpret_cast<Tensor*>(this + 1); }
};

KeptElements::~KeptElements() {
  for (const Arena::Block& block : arena_.blocks()) {
    for (std::size_t offset = 0; offset < block.used;) {
      auto* const kept = reinterpret_cast<Kept*>(block.buffer->data() + offset);
      offset += kept->bytes;
      std::destroy_n(kept->tensors(), kept->count);
      std::destroy_at(kept);
    }
  }
}

void KeptElements::add(std::uint64_t ordinal, const Payload& payload) {
  const Element& element = payload.element;
  std::size_t bytes = sizeof(Kept) + element.size() * sizeof(Tensor);
  std::uint64_t elsewhere = 0;
  for (std::size_t i = 0; i < element.size(); ++i) {
    const std::size_t all = bytes_of(element[i]);
    const std::size_t copied = copied_bytes(element[i], all);
    bytes += copied;
    if (copied == 0 && element[i].owner()) elsewhere += all;
  }
  std::byte* const place = arena_.take(bytes);
  std::byte* copy = place + sizeof(Kept) + element.size() * sizeof(Tensor);
  auto* const kept = std::construct_at(
      reinterpret_cast<Kept*>(place),
      Kept{ordinal, element.names(), element.valid_rows, payload.origin, payload.index,
           payload.shard, payload.offset, static_cast<std::uint32_t>(element.size()),
           static_cast<std::uint32_t>(bytes)});
  for (std::size_t i = 0; i < element.size(); ++i) {
    const std::size_t copied = copied_bytes(element[i], bytes_of(element[i]));
    std::construct_at(kept->tensors() + i,
                      copied > 0 ? copy_to_block(element[i], copy) : element[i]);
    copy += copied;
  }
  ++size_;
  bytes_ += bytes + elsewhere;
}

KeptElements::Kept& KeptElements::at(const Place& place) const noexcept {
  return *reinterpret_cast<Kept*>(arena_.blocks()[place.block].buffer->data() + place.offset);
}

void KeptElements::pass(Place& place) const noexcept {
  place.offset += at(place).bytes;
  if (place.offset == arena_.blocks()[place.block].used) place = {place.block + 1, 0};
}

KeptElements::Place KeptElements::find(std::size_t position) const noexcept {
  Place place;
  for (; position > 0; --position) pass(place);
  return place;
}

ElementRef KeptElements::next(Place& place) const {
  Kept& kept = at(place);
  const BufferPtr& block = arena_.blocks()[place.block].buffer;
  Ref<Payload> payload = Payload::make();
  payload->origin = kept.origin;
  payload->index = kept.index;
  payload->shard = kept.shard;
  payload->offset = kept.offset;
  Element& element = payload->element;
  if (kept.count > 0) element.start(kept.names);
  for (std::size_t i = 0; i < kept.count; ++i) {
    Tensor& tensor = kept.tensors()[i];
    if (tensor.owner() || is_complete(tensor)) {
      element.append(tensor);
    } else if (tensor.dtype() == DType::bytes && tensor.rank() == 0) {
      element.append(Tensor::bytes(tensor.bytes_at(), block));
    } else {
      element.append(tensor.dtype(), tensor.shape(), tensor.mutable_data(), block);
    }
  }
  element.valid_rows = kept.valid_rows;
  pass(place);
  return ref_to(std::move(payload), kept.ordinal);
}

}  // namespace penstock
