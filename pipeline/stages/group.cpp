#include "pipeline/stages/group.h"

#include "pipeline/stage/support.h"
#include "pipeline/stages/values.h"

namespace penstock {
namespace {

/// String views, with the buffers that hold their text.
class BytesColumn final : public Buffer {
 public:
  explicit BytesColumn(std::size_t count) : views_(count), owners_(count) {
    data_ = reinterpret_cast<std::byte*>(views_.data());
    size_ = count * sizeof(std::string_view);
  }
  void set(std::size_t i, std::string_view view, BufferPtr owner) {
    views_[i] = view;
    owners_[i] = std::move(owner);
  }
  void for_each_part(const std::function<void(Buffer& part)>& use) noexcept override {
    for (const BufferPtr& owner : owners_)
      if (owner) use(*owner);
  }

 private:
  void dispose() noexcept override { delete this; }
  std::vector<std::string_view> views_;
  std::vector<BufferPtr> owners_;
};

}  // namespace

GroupIterator::GroupIterator(const Node& node, const OpenContext& context, std::size_t size,
                             bool drop_remainder)
    : values_(open_values(node, context)),
      held_(node, context),
      size_(size),
      drop_remainder_(drop_remainder),
      program_(own_first_program(context, node)) {}

std::size_t GroupIterator::pull(std::span<ElementRef> out) {
  Ref<Payload> payload = Payload::make();
  std::uint64_t ordinal = 0;
  while (payload->children.size() < size_) {
    ElementRef value;
    if (values_->pull({&value, 1}) == 0) {
      if (payload->children.empty() || drop_remainder_) return 0;
      break;
    }
    if (is_error(value)) {
      out[0] = std::move(value);
      return 1;
    }
    if (!held_.charge(value, payload->children.size() + 1)) held_.refuse();
    ordinal = mix_path(ordinal, value.ordinal);
    payload->children.push_back(std::move(value));
  }
  out[0] = ElementRef{0, ordinal, program_, std::move(payload)};
  return 1;
}

Tensor share_bytes(std::span<const Element* const> elements, std::size_t component) {
  auto* column = new BytesColumn(elements.size());
  const BufferPtr owner(column);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Tensor& tensor = (*elements[i])[component];
    const std::string_view text = tensor.bytes_at(0);
    if (tensor.owner() || text.empty()) {
      column->set(i, text, tensor.owner());
    } else {
      BufferPtr copy = allocate_buffer(text.size());
      std::memcpy(copy->data(), text.data(), text.size());
      column->set(i, {reinterpret_cast<const char*>(copy->data()), text.size()}, copy);
    }
  }
  return Tensor(DType::bytes, Shape{static_cast<std::int64_t>(elements.size())}, owner->data(),
                owner);
}

}  // namespace penstock
