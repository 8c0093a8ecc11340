#include "pipeline/stages/packed_rows.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "pipeline/core/texts.h"

namespace penstock {
namespace {

constexpr std::size_t kWord = sizeof(std::int64_t);
static_assert(kWord == kPackedAlignment);

constexpr std::size_t in_words(std::size_t bytes) {
  return (bytes + kWord - 1) / kWord * kWord;
}

void put(std::byte*& to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  to += bytes;
}

std::int64_t number_at(const std::byte* from) {
  std::int64_t number = 0;
  std::memcpy(&number, from, sizeof number);
  return number;
}

}  // namespace

PackedRows::PackedRows(const Spec& elements, bool whole) : elements_(elements) {
  std::vector<ComponentSpec> components;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const ComponentSpec& component = elements[i];
    Part part{.from = i, .varies = varies(component), .dtype = component.dtype};
    part.packed = part.varies || whole;
    part.inner = part.varies ? component.shape.drop_front() : component.shape;
    part.volume = static_cast<std::size_t>(part.inner.volume());
    part.row_bytes = part.volume * size_of(part.dtype);
    if (part.varies) ragged_.push_back(parts_.size());
    if (!part.packed) {
      part.place = components.size();
      components.push_back(component);
    }
    parts_.push_back(part);
  }
  components.push_back(packed_spec()[0]);
  packed_ = Spec(std::move(components));
  packed_names_ = packed_.names();
}

std::size_t PackedRows::bytes_of(const Element& element) const {
  std::size_t bytes = ragged_.size() * kWord;
  for (const std::size_t at : ragged_) {
    const Tensor& tensor = element[parts_[at].from];
    if (parts_[at].dtype != DType::bytes) {
      bytes += in_words(tensor.nbytes());
      continue;
    }
    const std::int64_t count = tensor.volume();
    std::size_t text = 0;
    const Tensor dense = tensor.contiguous() ? tensor : tensor.clone();
    for (std::int64_t i = 0; i < count; ++i) text += dense.bytes_at(i).size();
    bytes += static_cast<std::size_t>(count) * kWord + in_words(text);
  }
  return bytes;
}

std::byte* PackedRows::pack(Element& in, Element& out, std::byte* to,
                            const BufferPtr& owner) const {
  const std::byte* const begin = to;
  for (const std::size_t at : ragged_) {
    const std::int64_t extent = in[parts_[at].from].dim(0);
    put(to, &extent, sizeof extent);
  }
  for (const std::size_t at : ragged_) {
    const Tensor& tensor = in[parts_[at].from];
    const std::byte* const first = to;
    if (parts_[at].dtype != DType::bytes) {
      const std::size_t bytes = tensor.nbytes();
      if (tensor.contiguous()) {
        if (bytes > 0) std::memcpy(to, tensor.data(), bytes);
      } else {
        tensor.copy_to(to);
      }
      to += bytes;
    } else {
      const Tensor dense = tensor.contiguous() ? tensor : tensor.clone();
      const std::int64_t count = dense.volume();
      for (std::int64_t i = 0; i < count; ++i) {
        const std::size_t length = dense.bytes_at(i).size();
        put(to, &length, sizeof length);
      }
      for (std::int64_t i = 0; i < count; ++i)
        put(to, dense.bytes_at(i).data(), dense.bytes_at(i).size());
    }
    to += in_words(static_cast<std::size_t>(to - first)) - static_cast<std::size_t>(to - first);
  }
  out.start(packed_names_);
  for (const Part& part : parts_)
    if (!part.varies) out.append(std::move(in[part.from]));
  const std::string_view text(reinterpret_cast<const char*>(begin),
                              static_cast<std::size_t>(to - begin));
  out.append(Tensor::bytes(text, owner));
  return to;
}

void PackedRows::unpack(const Element& batch, const Names* names, Element& out,
                        ReadContext& memory) const {
  const Tensor& packed = batch[packed_.size() - 1];
  const auto rows = static_cast<std::size_t>(packed.volume());
  std::vector<const std::byte*> begin(rows);
  std::vector<const std::byte*> at(rows);  // the rest of each row
  std::vector<std::size_t> totals(ragged_.size());
  for (std::size_t r = 0; r < rows; ++r) {
    const std::string_view text = packed.bytes_at(static_cast<std::int64_t>(r));
    begin[r] = reinterpret_cast<const std::byte*>(text.data());
    for (std::size_t c = 0; c < ragged_.size(); ++c)
      totals[c] += static_cast<std::size_t>(number_at(begin[r] + c * kWord));
    at[r] = begin[r] + ragged_.size() * kWord;
  }
  const auto aligned = [](std::size_t bytes) {
    return (bytes + Allocator::kAlignment - 1) / Allocator::kAlignment * Allocator::kAlignment;
  };
  const std::size_t of_splits = aligned((rows + 1) * kWord);
  std::size_t bytes = 0;
  for (const Part& part : parts_)
    if (part.packed && !part.varies) bytes += aligned(rows * part.row_bytes);
  for (std::size_t c = 0; c < ragged_.size(); ++c) {
    const Part& part = parts_[ragged_[c]];
    bytes += of_splits + (part.dtype == DType::bytes ? 0 : aligned(totals[c] * part.row_bytes));
  }
  const BufferPtr buffer = memory.allocate(std::max<std::size_t>(bytes, 1));
  std::byte* to = buffer->data();

  out.start(names);
  std::size_t c = 0;  // among the ragged
  for (const Part& part : parts_) {
    if (!part.packed) {
      out.append(batch[part.place]);
      continue;
    }
    if (!part.varies) {
      out.append(part.dtype, part.inner.prepend(static_cast<std::int64_t>(rows)), to, buffer);
      for (std::size_t r = 0; r < rows; ++r) {
        std::memcpy(to + r * part.row_bytes, at[r], part.row_bytes);
        at[r] += in_words(part.row_bytes);
      }
      to += aligned(rows * part.row_bytes);
      continue;
    }
    const auto extent = [&](std::size_t r) {
      return static_cast<std::size_t>(number_at(begin[r] + c * kWord));
    };
    const Shape shape = part.inner.prepend(static_cast<std::int64_t>(totals[c]));
    if (part.dtype == DType::bytes) {
      std::vector<std::string_view> texts;
      texts.reserve(totals[c] * part.volume);
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t count = extent(r) * part.volume;
        const std::byte* text = at[r] + count * kWord;
        const std::byte* const first = text;
        for (std::size_t i = 0; i < count; ++i) {
          const auto length = static_cast<std::size_t>(number_at(at[r] + i * kWord));
          texts.emplace_back(reinterpret_cast<const char*>(text), length);
          text += length;
        }
        at[r] = first + in_words(static_cast<std::size_t>(text - first));
      }
      out.append(copy_texts(texts, memory).reshape(shape));
    } else {
      out.append(part.dtype, shape, to, buffer);
      std::byte* end = to;
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t size = extent(r) * part.row_bytes;
        put(end, at[r], size);
        at[r] += in_words(size);
      }
      to += aligned(totals[c] * part.row_bytes);
    }
    auto* const splits = reinterpret_cast<std::int64_t*>(to);
    splits[0] = 0;
    for (std::size_t r = 0; r < rows; ++r)
      splits[r + 1] = splits[r] + static_cast<std::int64_t>(extent(r));
    out.append(DType::i64, Shape{static_cast<std::int64_t>(rows) + 1}, to, buffer);
    to += of_splits;
    ++c;
  }
  out.valid_rows = batch.valid_rows;
}

}  // namespace penstock
