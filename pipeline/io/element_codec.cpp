#include "pipeline/io/element_codec.h"

#include <bit>
#include <cstring>

#include <penstock/error.h>
#include <penstock/internal/crc32c.h>
#include <penstock/state.h>

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kPrefix = 8;

[[noreturn]] void damaged(const char* what) {
  throw Error(ErrorCode::data_loss, std::string("the record is damaged: ") + what);
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + Allocator::kAlignment - 1) / Allocator::kAlignment * Allocator::kAlignment;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The header of a record whose checksum is correct.
std::string_view header_of(std::span<const std::byte> record) {
  if (record.size() < kPrefix) damaged("it is too short");
  std::uint32_t length = 0;
  std::uint32_t sum = 0;
  std::memcpy(&sum, record.data(), 4);
  std::memcpy(&length, record.data() + 4, 4);
  if (sum != crc32c(record.subspan(4))) damaged("its checksum differs");
  const std::span<const std::byte> rest = record.subspan(kPrefix);
  if (length > rest.size()) damaged("its header is longer than the record");
  return text_of(rest.first(length));
}

struct Column {
  DType dtype = DType::u8;
  Shape shape;
  std::vector<std::size_t> lengths;  // of byte strings
  std::size_t bytes = 0;
};

Column read_column(StateReader& header, const ComponentSpec& spec, std::size_t most) {
  Column column;
  const std::uint64_t dtype = header.get();
  if (dtype != static_cast<std::uint64_t>(spec.dtype)) damaged("another dtype");
  column.dtype = spec.dtype;
  const std::uint64_t rank = header.get();
  if (rank > static_cast<std::uint64_t>(kMaxRank)) damaged("too many dimensions");
  std::vector<std::int64_t> dims;
  std::uint64_t volume = 1;
  bool empty = false;
  for (std::uint64_t i = 0; i < rank; ++i) {
    const std::uint64_t dim = header.get();
    if (dim > INT64_MAX) damaged("a dimension is too large");
    dims.push_back(static_cast<std::int64_t>(dim));
    empty = empty || dim == 0;
    if (!empty && __builtin_mul_overflow(volume, dim, &volume)) damaged("a shape is too large");
  }
  if (empty) volume = 0;
  column.shape = Shape(std::span<const std::int64_t>(dims));
  if (!spec.shape.accepts(column.shape)) damaged("another shape");
  if (column.dtype != DType::bytes) {
    if (volume > most / size_of(column.dtype)) damaged("values are longer than the record");
    column.bytes = volume * size_of(column.dtype);
    return column;
  }
  // Empty byte strings take no bytes except for their length.
  if (volume > header.left()) damaged("more byte strings than its header has bytes");
  for (std::uint64_t i = 0; i < volume; ++i) {
    const std::uint64_t length = header.get();
    if (length > most - column.bytes) damaged("byte strings are longer than the record");
    column.lengths.push_back(length);
    column.bytes += length;
  }
  return column;
}

Tensor tensor_of(const Column& column, std::byte* data, const BufferPtr& owner) {
  if (column.dtype != DType::bytes) return {column.dtype, column.shape, data, owner};
  const auto* text = reinterpret_cast<const char*>(data);
  if (column.shape.rank() == 0) return Tensor::bytes({text, column.bytes}, owner);
  std::vector<std::string_view> texts;
  for (const std::size_t length : column.lengths) {
    texts.emplace_back(text, length);
    text += length;
  }
  return Tensor::of_bytes(texts).reshape(column.shape);
}

/// True if so many rows of a batch can be samples: some component has that many. For an element
/// without components, or that is not a batch, this is always true.
bool has_rows(const Element& element, std::int64_t rows) {
  if (rows <= 0 || element.size() == 0) return true;
  for (std::size_t i = 0; i < element.size(); ++i)
    if (element[i].rank() > 0 && element[i].dim(0) >= rows) return true;
  return false;
}

}  // namespace

void encode_element(const Element& element, const Provenance& where, std::vector<std::byte>& out) {
  if (!has_rows(element, element.valid_rows))
    throw Error(ErrorCode::invalid_argument,
                "a batch of " + std::to_string(element.valid_rows) +
                    " valid rows can't be kept, since no component has as many");
  StateWriter header;
  header.put(static_cast<std::uint64_t>(element.valid_rows + 1));
  header.put(element.size());
  std::vector<Tensor> columns;
  for (std::size_t i = 0; i < element.size(); ++i) {
    columns.push_back(element[i].contiguous() ? element[i] : element[i].clone());
    const Tensor& column = columns.back();
    header.put(static_cast<std::uint64_t>(column.dtype()));
    header.put(static_cast<std::uint64_t>(column.rank()));
    for (int axis = 0; axis < column.rank(); ++axis) {
      header.put(static_cast<std::uint64_t>(column.dim(axis)));
    }
    if (column.dtype() != DType::bytes) continue;
    for (std::int64_t k = 0; k < column.volume(); ++k) header.put(column.bytes_at(k).size());
  }
  header.put_bytes(where.shard);
  header.put(static_cast<std::uint64_t>(where.offset + 1));
  header.put(static_cast<std::uint64_t>(where.index + 1));

  const std::size_t start = out.size();
  const auto append = [&out](const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out.insert(out.end(), bytes, bytes + size);
  };
  const auto length = static_cast<std::uint32_t>(header.bytes().size());
  out.resize(out.size() + 4);
  append(&length, 4);
  append(header.bytes().data(), header.bytes().size());
  for (const Tensor& column : columns) {
    out.resize(start + aligned(out.size() - start));
    if (column.dtype() != DType::bytes) {
      append(column.data(), column.nbytes());
      continue;
    }
    for (std::int64_t k = 0; k < column.volume(); ++k) {
      append(column.bytes_at(k).data(), column.bytes_at(k).size());
    }
  }
  out.resize(start + aligned(out.size() - start));
  const std::uint32_t sum = crc32c(std::span(out).subspan(start + 4));
  std::memcpy(out.data() + start, &sum, 4);
}

Element decode_element(const BufferPtr& record, std::size_t size, const Spec& spec,
                       const Names* names) {
  const std::string_view bytes = header_of({record->data(), size});
  StateReader header(bytes);
  Element element(names);
  const std::uint64_t rows = header.get();
  if (header.get() != spec.size()) damaged("another number of components");
  std::size_t at = aligned(kPrefix + bytes.size());
  for (std::size_t i = 0; i < spec.size(); ++i) {
    if (at > size) damaged("values are longer than the record");
    const Column column = read_column(header, spec[i], size - at);
    element[i] = tensor_of(column, record->data() + at, record);
    at = aligned(at + column.bytes);
  }
  if (rows > INT64_MAX) damaged("too many rows");
  element.valid_rows = static_cast<std::int64_t>(rows) - 1;
  if (!has_rows(element, element.valid_rows)) damaged("more valid rows than rows");
  return element;
}

Provenance decode_origin(std::span<const std::byte> record) {
  StateReader header(header_of(record));
  header.get();
  const std::uint64_t components = header.get();
  for (std::uint64_t i = 0; i < components; ++i) {
    const bool texts = header.get() == static_cast<std::uint64_t>(DType::bytes);
    const std::uint64_t rank = header.get();
    std::uint64_t volume = 1;
    for (std::uint64_t axis = 0; axis < rank; ++axis) volume *= header.get();
    for (std::uint64_t k = 0; texts && k < volume; ++k) header.get();
  }
  Provenance where;
  where.shard = header.get_bytes();
  where.offset = static_cast<std::int64_t>(header.get()) - 1;
  where.index = static_cast<std::int64_t>(header.get()) - 1;
  return where;
}

}  // namespace penstock
