// Arrow's C data interface in PyCapsules
// (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html).
#include <cerrno>
#include <cstring>

#include "pipelines/c/arrow.h"
#include "pipelines/c/handles.h"
#include "python/bindings.h"

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
  int (*get_next)(ArrowArrayStream*, ArrowArray*);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

namespace penstock::python {
namespace {

/// An Arrow struct that is released with its last owner.
template <typename T>
struct Owned {
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (value.release != nullptr) value.release(&value);
  }
  T value{};
};

template <typename T>
nb::object capsule_of(std::unique_ptr<Owned<T>> owned, const char* name) {
  return nb::steal(PyCapsule_New(owned.release(), name, [](PyObject* self) {
    delete static_cast<Owned<T>*>(PyCapsule_GetPointer(self, PyCapsule_GetName(self)));
  }));
}

nb::object arrow_of(const Element& batch, bool alone) {
  const penstock_element element{batch};
  auto schema = std::make_unique<Owned<ArrowSchema>>();
  auto array = std::make_unique<Owned<ArrowArray>>();
  if (penstock_element_arrow(&element, &schema->value, &array->value) != PENSTOCK_OK)
    throw Error(ErrorCode::invalid_argument, penstock_error());
  if (alone) {  // the one column, moved out of the struct
    auto column = std::make_unique<Owned<ArrowArray>>();
    auto type = std::make_unique<Owned<ArrowSchema>>();
    column->value = std::exchange(*array->value.children[0], ArrowArray{});
    type->value = std::exchange(*schema->value.children[0], ArrowSchema{});
    array = std::move(column);
    schema = std::move(type);
  }
  return nb::make_tuple(capsule_of(std::move(schema), "arrow_schema"),
                        capsule_of(std::move(array), "arrow_array"));
}

/// The memory of a chunk of a table, with the texts of a column that views need.
class ChunkBuffer final : public Buffer {
 public:
  using Chunk = std::shared_ptr<Owned<ArrowArray>>;
  ChunkBuffer(Chunk chunk, std::vector<std::string_view> texts)
      : chunk_(std::move(chunk)), texts_(std::move(texts)) {
    data_ = reinterpret_cast<std::byte*>(texts_.data());
    size_ = texts_.size() * sizeof(std::string_view);
  }

 private:
  void dispose() noexcept override { delete this; }
  Chunk chunk_;
  std::vector<std::string_view> texts_;
};

Error refusal(const std::string& name, const std::string& why) {
  return {ErrorCode::invalid_argument, "from_arrow: the column " + name + " " + why};
}

std::optional<DType> dtype_of_format(std::string_view format) {
  constexpr std::pair<const char*, DType> kFormats[] = {
      {"C", DType::u8},    {"c", DType::i8},    {"S", DType::u16},   {"s", DType::i16},
      {"I", DType::u32},   {"i", DType::i32},   {"L", DType::u64},   {"l", DType::i64},
      {"e", DType::f16},   {"f", DType::f32},   {"g", DType::f64},   {"b", DType::boolean},
      {"tdD", DType::i32}, {"tdm", DType::i64}, {"tts", DType::i32}, {"ttm", DType::i32},
      {"ttu", DType::i64}, {"ttn", DType::i64}};
  for (const auto& [name, dtype] : kFormats)
    if (format == name) return dtype;
  if (format.starts_with("ts") || format.starts_with("tD")) return DType::i64;
  if (format == "u" || format == "z" || format == "U" || format == "Z" || format == "vu" ||
      format == "vz")
    return DType::bytes;
  return std::nullopt;
}

template <typename Offset>
std::vector<std::string_view> texts_of(const ArrowArray& array, std::int64_t first,
                                       std::int64_t count) {
  const auto* const offsets = static_cast<const Offset*>(array.buffers[1]) + first;
  const auto* const bytes = static_cast<const char*>(array.buffers[2]);
  std::vector<std::string_view> texts;
  texts.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    texts.emplace_back(bytes + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
  return texts;
}

/// Texts of a view: short ones are in the 16 bytes of the view, others in one of several buffers.
std::vector<std::string_view> viewed_texts_of(const ArrowArray& array, std::int64_t first,
                                              std::int64_t count) {
  const auto* const views = static_cast<const char*>(array.buffers[1]) + 16 * first;
  std::vector<std::string_view> texts;
  texts.reserve(static_cast<std::size_t>(count));
  for (const char* view = views; view < views + 16 * count; view += 16) {
    std::int32_t parts[4];  // size, prefix, buffer, offset
    std::memcpy(parts, view, sizeof parts);
    const char* const bytes =
        parts[0] <= 12 ? view + 4
                       : static_cast<const char*>(array.buffers[2 + parts[2]]) + parts[3];
    texts.emplace_back(bytes, static_cast<std::size_t>(parts[0]));
  }
  return texts;
}

/// Returns the length that all of these lists have, and their first value.
template <typename Offset>
std::pair<std::int64_t, std::int64_t> even_lists(const ArrowArray& array, const std::string& name,
                                                 std::int64_t first, std::int64_t count) {
  const auto* const offsets = static_cast<const Offset*>(array.buffers[1]) + first;
  const std::int64_t length = count == 0 ? 0 : offsets[1] - offsets[0];
  for (std::int64_t i = 0; i < count; ++i)
    if (offsets[i + 1] - offsets[i] != length)
      throw refusal(name, "holds lists of different lengths: use generate, or pad them");
  return {length, count == 0 ? 0 : offsets[0]};
}

/// Throws Error{invalid_argument} if one of these values is null.
void refuse_nulls(const ArrowArray& array, const std::string& name, std::int64_t first,
                  std::int64_t count) {
  if (array.null_count != 0 && array.n_buffers > 0 && array.buffers[0] != nullptr) {
    const auto* const valid = static_cast<const std::uint8_t*>(array.buffers[0]);
    for (std::int64_t i = first; i < first + count; ++i)
      if ((valid[i / 8] >> (i % 8) & 1) == 0)
        throw refusal(name, "has null values: fill them first");
  }
}

/// Returns `count` values of a column from `first` on: a view, except for bits.
Tensor column_of(const ArrowSchema& schema, const ArrowArray& array, const std::string& name,
                 std::vector<std::int64_t> shape, std::int64_t first, std::int64_t count,
                 const ChunkBuffer::Chunk& chunk) {
  const std::string_view format = schema.format;
  first += array.offset;
  refuse_nulls(array, name, first, count);
  if (schema.dictionary != nullptr)
    throw refusal(name, "is dictionary-encoded: decode it first (pyarrow's dictionary_decode)");
  if (format.starts_with("+w:")) {
    const std::int64_t width = std::stoll(schema.format + 3);
    shape.push_back(width);
    return column_of(*schema.children[0], *array.children[0], name, std::move(shape), first * width,
                     count * width, chunk);
  }
  if (format == "+l" || format == "+L") {
    const auto [length, begin] = format == "+l"
                                     ? even_lists<std::int32_t>(array, name, first, count)
                                     : even_lists<std::int64_t>(array, name, first, count);
    shape.push_back(length);
    return column_of(*schema.children[0], *array.children[0], name, std::move(shape), begin,
                     count * length, chunk);
  }
  const std::optional<DType> dtype = dtype_of_format(format);
  if (!dtype) {
    throw refusal(name, "is of the Arrow type \"" + std::string(format) +
                            "\", which no tensor holds: cast it first");
  }
  const Shape extents{std::span<const std::int64_t>(shape)};
  if (*dtype == DType::bytes) {
    const bool large = format == "U" || format == "Z";
    BufferPtr texts(new ChunkBuffer(chunk, format.starts_with("v")
                                               ? viewed_texts_of(array, first, count)
                                           : large ? texts_of<std::int64_t>(array, first, count)
                                                   : texts_of<std::int32_t>(array, first, count)));
    std::byte* const data = texts->data();
    return {DType::bytes, extents, data, std::move(texts)};
  }
  const auto* const values = static_cast<const std::byte*>(array.buffers[1]);
  if (*dtype == DType::boolean) {
    Tensor bits = Tensor::allocate(DType::boolean, extents);
    for (std::int64_t i = 0; i < count; ++i)
      bits.mutable_data()[i] = values[(first + i) / 8] >> ((first + i) % 8) & std::byte{1};
    return bits;
  }
  const std::size_t size = size_of(*dtype);
  return {*dtype, extents, const_cast<std::byte*>(values) + static_cast<std::size_t>(first) * size,
          BufferPtr(new ChunkBuffer(chunk, {}))};
}

/// Adds the columns of a struct; those of a struct within are "outer.inner".
void add_columns(Element& columns, const ArrowSchema& schema, const ArrowArray& array,
                 const std::string& prefix, std::int64_t first, std::int64_t count,
                 const ChunkBuffer::Chunk& chunk) {
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    const std::string name = prefix + schema.children[i]->name;
    if (std::strcmp(schema.children[i]->format, "+s") == 0) {
      refuse_nulls(*array.children[i], name, first + array.offset + array.children[i]->offset,
                   count);
      add_columns(columns, *schema.children[i], *array.children[i], name + ".",
                  first + array.offset, count, chunk);
    } else {
      if (columns.has(name)) throw refusal(name, "is there twice");
      columns.set(name, column_of(*schema.children[i], *array.children[i], name, {count},
                                  first + array.offset, count, chunk));
    }
  }
}

/// Concatenates in halves, because a chain has at most 1,000 stages.
Dataset joined(const std::vector<Dataset>& parts, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return parts[begin];
  const std::size_t half = begin + (end - begin) / 2;
  return joined(parts, begin, half).concatenate(joined(parts, half, end));
}

Dataset from_arrow(nb::object table) {
  // A data set of Hugging Face gives tables, with the rows that it selects, in this way.
  if (!nb::hasattr(table, "__arrow_c_stream__") && nb::hasattr(table, "with_format"))
    table = table.attr("with_format")("arrow").attr("__getitem__")(
        nb::slice(nb::none(), nb::none(), nb::none()));
  if (!nb::hasattr(table, "__arrow_c_stream__"))
    throw nb::type_error(
        "from_arrow takes a table of pyarrow, polars or pandas, or another object with "
        "__arrow_c_stream__");
  const nb::object capsule = nb::borrow(table.attr("__arrow_c_stream__")());
  auto* const given =
      static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
  if (given == nullptr) throw nb::python_error();
  Owned<ArrowArrayStream> stream;
  stream.value = std::exchange(*given, ArrowArrayStream{});
  const auto check = [&](int code) {
    if (code == 0) return;
    const char* const text = stream.value.get_last_error(&stream.value);
    throw Error(ErrorCode::data_loss, text != nullptr ? text : std::strerror(code));
  };
  Owned<ArrowSchema> schema;
  check(stream.value.get_schema(&stream.value, &schema.value));
  if (std::strcmp(schema.value.format, "+s") != 0)
    throw Error(ErrorCode::invalid_argument, "from_arrow takes a table: its stream has no columns");
  std::vector<Dataset> parts;
  for (;;) {
    const auto chunk = std::make_shared<Owned<ArrowArray>>();
    check(stream.value.get_next(&stream.value, &chunk->value));
    if (chunk->value.release == nullptr) break;
    if (chunk->value.length == 0) continue;
    Element columns;
    add_columns(columns, schema.value, chunk->value, "", 0, chunk->value.length, chunk);
    parts.push_back(tensors(std::move(columns)));
  }
  if (parts.empty()) throw Error(ErrorCode::invalid_argument, "from_arrow: the table has no rows");
  return joined(parts, 0, parts.size());
}

}  // namespace

void bind_arrow(nb::module_& m) {
  nb::borrow<nb::class_<Element>>(m.attr("Element"))
      .def(
          "__arrow_c_array__",
          [](const Element& batch, nb::handle) { return arrow_of(batch, false); },
          "requested_schema"_a = nb::none(),
          "Gives a batch to Arrow as a struct of its components, without a copy of numbers.");
  nb::borrow<nb::class_<Tensor>>(m.attr("Tensor"))
      .def(
          "__arrow_c_array__",
          [](const Tensor& tensor, nb::handle) {
            Element column{{"values", tensor}};
            if (tensor.rank() > 0) column.valid_rows = tensor.dim(0);
            return arrow_of(column, true);
          },
          "requested_schema"_a = nb::none(), "Gives the rows to Arrow; texts as LargeBinary.");
  m.def("from_arrow", from_arrow, "table"_a,
        "Returns a dataset of the rows of whatever speaks Arrow's stream protocol: pyarrow, "
        "pandas, polars, a data set of Hugging Face. "
        "Columns of numbers are viewed, not copied. A column of a struct is \"outer.inner\". "
        "Indexed. Raises InvalidArgument for columns with nulls, "
        "dictionaries, and lists of different lengths.");
}

}  // namespace penstock::python
