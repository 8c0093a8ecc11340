// Arrow's C data interface in PyCapsules
// (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html).
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <type_traits>

#define XXH_INLINE_ALL
#include <xxhash.h>

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

/// Returns whether value `i` of an array is null.
bool is_null(const ArrowArray& array, std::int64_t i) {
  const auto* const valid = static_cast<const std::uint8_t*>(array.buffers[0]);
  return (valid[i / 8] >> (i % 8) & 1) == 0;
}

/// Returns the position of the first null of `count` values from `first` on; -1: there is none.
std::int64_t first_null(const ArrowArray& array, std::int64_t first, std::int64_t count) {
  if (array.null_count != 0 && array.n_buffers > 0 && array.buffers[0] != nullptr) {
    for (std::int64_t i = first; i < first + count; ++i)
      if (is_null(array, i)) return i;
  }
  return -1;
}

/// Throws Error{invalid_argument} if one of these values is null.
void refuse_nulls(const ArrowArray& array, const std::string& name, std::int64_t first,
                  std::int64_t count) {
  if (first_null(array, first, count) >= 0) throw refusal(name, "has null values: fill them first");
}

/// Writes NaN where a value is null, as numpy and pandas have it.
template <typename T>
void fill_nulls(Tensor& values, const ArrowArray& array, std::int64_t first, T nan) {
  const std::span<T> all = values.mutable_values<T>();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_null(array, first + static_cast<std::int64_t>(i))) all[i] = nan;
}

/// The place of one value of an array of indices.
std::int64_t index_at(std::string_view format, const void* indices, std::int64_t i) {
  const auto at = [&](auto type) {
    return static_cast<std::int64_t>(static_cast<const decltype(type)*>(indices)[i]);
  };
  switch (format[0]) {
    case 'c':
      return at(std::int8_t{});
    case 'C':
      return at(std::uint8_t{});
    case 's':
      return at(std::int16_t{});
    case 'S':
      return at(std::uint16_t{});
    case 'i':
      return at(std::int32_t{});
    case 'I':
      return at(std::uint32_t{});
    default:
      return at(std::int64_t{});
  }
}

/// Rows of a column: row i is values[i] or, for lists, values[offsets[i]] to values[offsets[i +
/// 1]].
struct Rows {
  Tensor values;
  std::vector<std::int64_t> offsets;
};

/// Returns where lists begin and end, from 0 on, and the first value of all.
template <typename Offset>
std::pair<std::vector<std::int64_t>, std::int64_t> offsets_of(const ArrowArray& array,
                                                              std::int64_t first,
                                                              std::int64_t count) {
  if (count == 0) return {{0}, 0};
  const auto* const offsets = static_cast<const Offset*>(array.buffers[1]) + first;
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i <= count; ++i) all.push_back(offsets[i] - offsets[0]);
  return {std::move(all), offsets[0]};
}

/// Returns the length that all these lists have; -1: they have several.
std::int64_t length_of(const std::vector<std::int64_t>& offsets) {
  const std::int64_t length = offsets.size() > 1 ? offsets[1] : 0;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
    if (offsets[i + 1] - offsets[i] != length) return -1;
  return length;
}

/// Returns the values [count, ...] as [count / length, length, ...].
Tensor folded(const Tensor& values, std::int64_t count, std::int64_t length) {
  std::vector<std::int64_t> shape{count, length};
  for (int axis = 1; axis < values.rank(); ++axis) shape.push_back(values.dim(axis));
  return values.reshape(Shape(std::span<const std::int64_t>(shape)));
}

/// Returns `count` values of a column from `first` on: a view, except for bits and dictionaries.
Rows column_of(const ArrowSchema& schema, const ArrowArray& array, const std::string& name,
               std::int64_t first, std::int64_t count, const ChunkBuffer::Chunk& chunk) {
  const std::string_view format = schema.format;
  first += array.offset;
  if (format == "+l" || format == "+L" || format.starts_with("+w:")) {
    refuse_nulls(array, name, first, count);
    Rows rows;
    std::int64_t begin = 0;
    if (format.starts_with("+w:")) {
      const std::int64_t width = std::stoll(schema.format + 3);
      for (std::int64_t i = 0; i <= count; ++i) rows.offsets.push_back(i * width);
      begin = first * width;
    } else {
      std::tie(rows.offsets, begin) = format == "+l"
                                          ? offsets_of<std::int32_t>(array, first, count)
                                          : offsets_of<std::int64_t>(array, first, count);
    }
    Rows within =
        column_of(*schema.children[0], *array.children[0], name, begin, rows.offsets.back(), chunk);
    rows.values = std::move(within.values);
    if (!within.offsets.empty()) {
      const std::int64_t length = length_of(within.offsets);
      if (length < 0) throw refusal(name, "has lists of different lengths within lists: pad them");
      rows.values = folded(rows.values, rows.offsets.back(), length);
    }
    return rows;
  }
  const Shape extents{count};
  if (schema.dictionary != nullptr) {
    refuse_nulls(array, name, first, count);
    const Rows words =
        column_of(*schema.dictionary, *array.dictionary, name, 0, array.dictionary->length, chunk);
    if (!words.offsets.empty()) throw refusal(name, "is a dictionary of lists: decode it first");
    const Tensor& known = words.values;
    const auto place = [&](std::int64_t i) {
      return index_at(format, array.buffers[1], first + i);
    };
    if (known.dtype() == DType::bytes) {
      std::vector<std::string_view> texts;
      for (std::int64_t i = 0; i < count; ++i) texts.push_back(known.bytes_at(place(i)));
      BufferPtr views(new ChunkBuffer(chunk, std::move(texts)));
      std::byte* const data = views->data();
      return {{DType::bytes, extents, data, std::move(views)}, {}};
    }
    Tensor values = Tensor::allocate(known.dtype(), extents);
    const std::size_t size = size_of(known.dtype());
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(values.mutable_data() + static_cast<std::size_t>(i) * size,
                  known.data() + static_cast<std::size_t>(place(i)) * size, size);
    return {std::move(values), {}};
  }
  const std::optional<DType> dtype = dtype_of_format(format);
  if (!dtype) {
    throw refusal(name, "is of the Arrow type \"" + std::string(format) +
                            "\", which no tensor holds: cast it first");
  }
  const bool number = *dtype == DType::f16 || *dtype == DType::f32 || *dtype == DType::f64;
  if (!number) refuse_nulls(array, name, first, count);
  if (*dtype == DType::bytes) {
    const bool large = format == "U" || format == "Z";
    BufferPtr texts(new ChunkBuffer(chunk, format.starts_with("v")
                                               ? viewed_texts_of(array, first, count)
                                           : large ? texts_of<std::int64_t>(array, first, count)
                                                   : texts_of<std::int32_t>(array, first, count)));
    std::byte* const data = texts->data();
    return {{DType::bytes, extents, data, std::move(texts)}, {}};
  }
  const auto* const values = static_cast<const std::byte*>(array.buffers[1]);
  if (*dtype == DType::boolean) {
    Tensor bits = Tensor::allocate(DType::boolean, extents);
    for (std::int64_t i = 0; i < count; ++i)
      bits.mutable_data()[i] = values[(first + i) / 8] >> ((first + i) % 8) & std::byte{1};
    return {std::move(bits), {}};
  }
  const std::size_t size = size_of(*dtype);
  Tensor numbers(*dtype, extents,
                 const_cast<std::byte*>(values) + static_cast<std::size_t>(first) * size,
                 BufferPtr(new ChunkBuffer(chunk, {})));
  if (first_null(array, first, count) >= 0) {
    numbers = numbers.clone();
    if (*dtype == DType::f16) fill_nulls(numbers, array, first, Half{0x7e00});
    if (*dtype == DType::f32)
      fill_nulls(numbers, array, first, std::numeric_limits<float>::quiet_NaN());
    if (*dtype == DType::f64)
      fill_nulls(numbers, array, first, std::numeric_limits<double>::quiet_NaN());
  }
  return {std::move(numbers), {}};
}

/// Rows of a table that lie together.
struct Chunk {
  std::uint64_t begin = 0;  // the number of its first row
  Element values;
  std::vector<std::vector<std::int64_t>> offsets;  // of each column; empty where rows have a shape
};

/// Adds the columns of a struct; those of a struct within are "outer.inner".
void add_columns(Chunk& columns, const ArrowSchema& schema, const ArrowArray& array,
                 const std::string& prefix, std::pair<std::int64_t, std::int64_t> rows,
                 const std::optional<std::vector<std::string>>& wanted,
                 const ChunkBuffer::Chunk& chunk) {
  const auto [first, count] = rows;
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    const std::string name = prefix + schema.children[i]->name;
    const auto is_wanted = [&](const std::string& each) {
      return each == name || each.starts_with(name + ".") || name.starts_with(each + ".");
    };
    // pandas gives numbers of its rows, too.
    if (wanted ? std::ranges::none_of(*wanted, is_wanted) : name.starts_with("__index_level_"))
      continue;
    if (std::strcmp(schema.children[i]->format, "+s") == 0) {
      refuse_nulls(*array.children[i], name, first + array.offset + array.children[i]->offset,
                   count);
      add_columns(columns, *schema.children[i], *array.children[i], name + ".",
                  {first + array.offset, count}, wanted, chunk);
    } else {
      if (columns.values.has(name)) throw refusal(name, "is there twice");
      Rows column = column_of(*schema.children[i], *array.children[i], name, first + array.offset,
                              count, chunk);
      columns.values.set(name, std::move(column.values));
      columns.offsets.push_back(std::move(column.offsets));
    }
  }
}

/// The rows of a table.
class TableSource final : public Source {
 public:
  explicit TableSource(std::vector<Chunk> chunks) : chunks_(std::move(chunks)) {
    std::vector<ComponentSpec> components;
    for (std::size_t i = 0; i < chunks_[0].values.size(); ++i) components.push_back(settle(i));
    spec_ = Spec(std::move(components));
    size_ = chunks_.back().begin + rows_of(chunks_.back());
  }

  std::string name() const override { return "from_arrow"; }
  Spec spec() const override { return spec_; }
  std::optional<std::uint64_t> size() const override { return size_; }
  // Two tables of the same values are one, however they are cut into chunks.
  void describe(Description& description) const override {
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                         XXH3_freeState);
    for (std::size_t i = 0; i < spec_.size(); ++i) {
      XXH3_64bits_reset(state.get());
      for (const Chunk& chunk : chunks_) hash(*state, chunk.offsets[i]);
      for (const Chunk& chunk : chunks_) hash(*state, chunk.values[i]);
      description.add(spec_[i].name,
                      std::string(name_of(spec_[i].dtype)) + " " + spec_[i].shape.to_string());
      description.add("hash", std::uint64_t{XXH3_64bits_digest(state.get())});
    }
    description.add("rows", size_);
  }

  bool columnar() const override { return columnar_; }
  void read_columns(std::span<const std::uint64_t> indices, Element& out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t bytes = chunks_[0].values[i].nbytes() / rows_of(chunks_[0]);
      std::byte* place = out[i].mutable_data();
      for (const std::uint64_t index : indices) {
        const Chunk& chunk = chunk_of(index);
        std::memcpy(place, chunk.values[i].data() + bytes * (index - chunk.begin), bytes);
        place += bytes;
      }
    }
  }
  void read(std::span<ReadItem> items, ReadContext&) const override {
    for (ReadItem& item : items) {
      const Chunk& chunk = chunk_of(item.index);
      const std::size_t row = item.index - chunk.begin;
      item.element.reset(chunk.values.names());
      for (std::size_t i = 0; i < chunk.values.size(); ++i) {
        const std::vector<std::int64_t>& offsets = chunk.offsets[i];
        item.element[i] = offsets.empty()
                              ? chunk.values[i][static_cast<std::int64_t>(row)]
                              : chunk.values[i].slice(0, offsets[row], offsets[row + 1]);
      }
    }
  }

 private:
  static std::size_t rows_of(const Chunk& chunk) {
    return chunk.offsets[0].empty() ? static_cast<std::size_t>(chunk.values[0].dim(0))
                                    : chunk.offsets[0].size() - 1;
  }
  const Chunk& chunk_of(std::uint64_t row) const {
    return *std::prev(std::ranges::upper_bound(chunks_, row, {}, &Chunk::begin));
  }

  /// Gives column `i` a shape if all its lists have one length; returns its spec.
  ComponentSpec settle(std::size_t i) {
    const std::string name = chunks_[0].values.name(i);
    // The values of chunks without any have no inner shape.
    const Tensor* shaped = &chunks_[0].values[i];
    for (const Chunk& chunk : chunks_)
      if (shaped->dim(0) == 0) shaped = &chunk.values[i];
    const Tensor first = *shaped;
    if (chunks_[0].offsets[i].empty()) {
      columnar_ &= first.dtype() != DType::bytes;
      return {name, first.dtype(), Shape{}};
    }
    const std::int64_t length = length_of(chunks_[0].offsets[i]);
    bool one_length = length >= 0;
    for (Chunk& chunk : chunks_) {
      Tensor& values = chunk.values[i];
      if (values.dim(0) == 0) values = first.slice(0, 0, 0);
      if (values.shape().drop_front() != first.shape().drop_front())
        throw refusal(name, "has lists of different lengths within lists: pad them");
      one_length &= length_of(chunk.offsets[i]) == length;
    }
    std::vector<std::int64_t> shape{one_length ? length : Shape::kUnknown};
    for (int axis = 1; axis < first.rank(); ++axis) shape.push_back(first.dim(axis));
    columnar_ &= one_length && first.dtype() != DType::bytes;
    if (one_length) {
      for (Chunk& chunk : chunks_) {
        const auto count = static_cast<std::int64_t>(chunk.offsets[i].size()) - 1;
        chunk.values[i] = folded(chunk.values[i], count, length);
        chunk.offsets[i].clear();
      }
    }
    return {name, first.dtype(), Shape(std::span<const std::int64_t>(shape))};
  }

  static void hash(XXH3_state_t& state, const std::vector<std::int64_t>& offsets) {
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      const std::int64_t length = offsets[i + 1] - offsets[i];
      XXH3_64bits_update(&state, &length, sizeof length);
    }
  }
  static void hash(XXH3_state_t& state, const Tensor& values) {
    if (values.dtype() != DType::bytes) {
      XXH3_64bits_update(&state, values.data(), values.nbytes());
      return;
    }
    for (const std::string_view text : values.to_vector<std::string_view>()) {
      const std::size_t size = text.size();
      XXH3_64bits_update(&state, &size, sizeof size);
      XXH3_64bits_update(&state, text.data(), size);
    }
  }

  std::vector<Chunk> chunks_;
  Spec spec_;
  std::uint64_t size_ = 0;
  bool columnar_ = true;
};

using Names = std::optional<std::vector<std::string>>;

Dataset from_arrow(nb::object table, const Names& names) {
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
  if (given->release == nullptr) throw nb::value_error("from_arrow: the stream was read before");
  Owned<ArrowArrayStream> stream;
  stream.value = std::exchange(*given, ArrowArrayStream{});
  const auto check = [&](int code) {
    if (code == 0) return;
    const char* const text = stream.value.get_last_error(&stream.value);
    throw Error(ErrorCode::data_loss, text != nullptr ? text : std::strerror(code));
  };
  Owned<ArrowSchema> schema;
  // Threads of a reader may need the lock.
  check(unlocked([&] { return stream.value.get_schema(&stream.value, &schema.value); }));
  if (std::strcmp(schema.value.format, "+s") != 0)
    throw Error(ErrorCode::invalid_argument, "from_arrow takes a table: its stream has no columns");
  std::vector<Chunk> chunks;
  for (std::uint64_t rows = 0;;) {
    const auto chunk = std::make_shared<Owned<ArrowArray>>();
    check(unlocked([&] { return stream.value.get_next(&stream.value, &chunk->value); }));
    if (chunk->value.release == nullptr) break;
    if (chunk->value.length == 0) continue;
    Chunk& columns = chunks.emplace_back();
    columns.begin = std::exchange(rows, rows + static_cast<std::uint64_t>(chunk->value.length));
    refuse_nulls(chunk->value, "of all", chunk->value.offset, chunk->value.length);
    add_columns(columns, schema.value, chunk->value, "", {0, chunk->value.length}, names, chunk);
  }
  if (chunks.empty()) throw Error(ErrorCode::invalid_argument, "from_arrow: the table has no rows");
  std::vector<std::string> found;
  for (std::size_t i = 0; i < chunks[0].values.size(); ++i)
    found.push_back(chunks[0].values.name(i));
  for (const std::string& name : names.value_or(std::vector<std::string>()))
    if (std::ranges::none_of(found, [&](const std::string& each) {
          return each == name || each.starts_with(name + ".");
        }))
      throw refusal(name, "is not there");
  if (chunks[0].values.empty())
    throw Error(ErrorCode::invalid_argument, "from_arrow: the table has no columns");
  return Dataset(std::make_shared<TableSource>(std::move(chunks)));
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
  m.def("from_arrow", from_arrow, "table"_a, "columns"_a = nb::none(),
        "Returns a dataset of the rows of whatever speaks Arrow's stream protocol: pyarrow, "
        "pandas, polars, a data set of Hugging Face. "
        "`columns` names those to read. "
        "Columns of numbers are viewed, not copied. A column of a struct is \"outer.inner\"; one "
        "of lists has rows of any length, or a shape if all lists have one length. Nulls of floats "
        "are NaN. "
        "Indexed. Raises InvalidArgument for other nulls, and for lists of different lengths "
        "within lists.");
}

}  // namespace penstock::python
