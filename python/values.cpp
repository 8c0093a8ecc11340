// Tensors and elements, and their exchange with numpy, PyTorch and other users of DLPack.
#include <array>
#include <cstring>

#include <nanobind/ndarray.h>

#include <penstock/dlpack.h>

#include "python/bindings.h"

namespace penstock::python {
namespace {

struct Format {
  const char* name;
  const char* numpy;   // its name in numpy and PyTorch
  const char* buffer;  // its format in the buffer protocol; null: it has none
};
constexpr std::array<Format, kDTypeCount> kFormats{{{"u8", "uint8", "B"},
                                                    {"i8", "int8", "b"},
                                                    {"u16", "uint16", "H"},
                                                    {"i16", "int16", "h"},
                                                    {"u32", "uint32", "I"},
                                                    {"i32", "int32", "i"},
                                                    {"u64", "uint64", "Q"},
                                                    {"i64", "int64", "q"},
                                                    {"f16", "float16", "e"},
                                                    {"bf16", "bfloat16", nullptr},
                                                    {"f32", "float32", "f"},
                                                    {"f64", "float64", "d"},
                                                    {"bool", "bool", "?"},
                                                    {"bytes", "bytes", nullptr}}};

const Format& format_of(DType dtype) {
  return kFormats[static_cast<std::size_t>(dtype)];
}

/// The deleters of capsules that no consumer took.
template <typename Managed>
void delete_capsule(PyObject* capsule, const char* name) noexcept {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

nb::object dlpack_of(const Tensor& tensor, nb::handle /*stream*/,
                     std::optional<std::pair<int, int>> max_version,
                     std::optional<std::pair<int, int>> device, std::optional<bool> copy) {
  if (device && *device != std::pair<int, int>(dlpack::kCpu, 0))
    throw nb::buffer_error("the tensor is in host memory");
  if (tensor.dtype() == DType::bytes)
    throw nb::buffer_error("DLPack has no byte strings; use tolist() or pyarrow.array(tensor)");
  const Tensor given = copy.value_or(false) ? tensor.clone() : tensor;
  if (!max_version || max_version->first < 1) return dlpack_capsule(to_dlpack(given));
  dlpack::DLManagedTensorVersioned* const managed = to_dlpack_versioned(given);
  if (copy.value_or(false)) managed->flags = 1 << 1;  // a copy, which the consumer may write
  return dlpack_capsule(managed);
}

struct View {
  Tensor tensor;
  std::array<Py_ssize_t, kMaxRank> shape, strides;
};

int get_buffer(PyObject* self, Py_buffer* out, int flags) noexcept {
  constexpr int kOrders =
      (PyBUF_C_CONTIGUOUS | PyBUF_F_CONTIGUOUS | PyBUF_ANY_CONTIGUOUS) & ~PyBUF_STRIDES;
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  const char* const format = format_of(tensor.dtype()).buffer;
  if (format == nullptr || (flags & PyBUF_WRITABLE) != 0 ||
      (!tensor.contiguous() &&
       ((flags & PyBUF_STRIDES) != PyBUF_STRIDES || (flags & kOrders) != 0)) ||
      (tensor.rank() > 1 && (flags & kOrders) == (PyBUF_F_CONTIGUOUS & ~PyBUF_STRIDES))) {
    PyErr_Format(PyExc_BufferError, "a tensor of %s is read-only, and has no such buffer",
                 format_of(tensor.dtype()).name);
    out->obj = nullptr;
    return -1;
  }
  auto* const view = new (std::nothrow) View{tensor, {}, {}};
  if (view == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  const auto size = static_cast<Py_ssize_t>(size_of(tensor.dtype()));
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    view->shape[static_cast<std::size_t>(axis)] = tensor.dim(axis);
    view->strides[static_cast<std::size_t>(axis)] = tensor.stride(axis) * size;
  }
  *out = Py_buffer{};
  out->buf = const_cast<std::byte*>(view->tensor.data());
  out->obj = Py_NewRef(self);
  out->len = static_cast<Py_ssize_t>(tensor.nbytes());
  out->itemsize = size;
  out->readonly = 1;
  out->ndim = tensor.rank();
  if ((flags & PyBUF_FORMAT) != 0) out->format = const_cast<char*>(format);
  if ((flags & PyBUF_ND) != 0) out->shape = view->shape.data();
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) out->strides = view->strides.data();
  out->internal = view;
  return 0;
}

void release_buffer(PyObject* /*self*/, Py_buffer* buffer) noexcept {
  delete static_cast<View*>(buffer->internal);
}

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                              {0, nullptr}};

nb::object list_of(const Tensor& tensor) {
  const bool half = tensor.dtype() == DType::f16 || tensor.dtype() == DType::bf16;
  if (!half && tensor.dtype() != DType::bytes)  // memoryview knows no half
    return nb::steal(PyMemoryView_FromObject(nb::cast(tensor).ptr())).attr("tolist")();
  if (tensor.rank() > 0) {
    nb::list result;
    for (std::int64_t i = 0; i < tensor.dim(0); ++i) result.append(list_of(tensor[i]));
    return result;
  }
  if (tensor.dtype() == DType::f16) return nb::float_(float_from_half(tensor.item<Half>()));
  if (half) return nb::float_(float_from_bfloat16(tensor.item<BFloat16>()));
  const std::string_view text = tensor.bytes_at(0);
  return nb::bytes(text.data(), text.size());
}

nb::object item_of(const Tensor& tensor) {
  if (tensor.volume() != 1)
    throw nb::value_error("the tensor has not one value; numpy.asarray(tensor) gives all");
  return list_of(tensor.rank() == 0 || !tensor.contiguous() ? tensor : tensor.reshape({}));
}

// Where numpy takes no buffer: texts become an array of bytes objects, bf16 one of ml_dtypes.
nb::object array_of(nb::handle self, nb::handle dtype, nb::handle copy) {
  const auto& tensor = nb::cast<const Tensor&>(self);
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array;
  if (tensor.dtype() == DType::bytes) {
    array = numpy.attr("array")(list_of(tensor), "dtype"_a = "object");
  } else if (tensor.dtype() == DType::bf16) {
    const nb::object rows = nb::cast(tensor.contiguous() ? tensor : tensor.clone());
    const auto& kept = *nb::inst_ptr<Tensor>(rows);  // small values lie in the object
    const Tensor bits(DType::u16, kept.shape(), const_cast<std::byte*>(kept.data()),
                      buffer_of(rows, nullptr, 0));
    array = numpy.attr("asarray")(nb::cast(bits))
                .attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
  } else {
    array = numpy.attr("asarray")(nb::steal(PyMemoryView_FromObject(self.ptr())));
  }
  if (!dtype.is_none()) array = array.attr("astype")(dtype);
  return !copy.is_none() && nb::cast<bool>(copy) ? nb::object(array.attr("copy")()) : array;
}

nb::object keys_of(const Element& element) {
  nb::list names;
  for (std::size_t i = 0; i < element.size(); ++i) names.append(nb::str(element.name(i).c_str()));
  return names;
}

nb::object items_of(const Element& element) {
  nb::list items;
  for (std::size_t i = 0; i < element.size(); ++i)
    items.append(nb::make_tuple(nb::str(element.name(i).c_str()), element[i]));
  return items;
}

std::string shown(const Tensor& tensor) {
  return "Tensor(" + std::string(name_of(tensor.dtype())) + " " + tensor.shape().to_string() + ")";
}

std::string shown(const Element& element) {
  std::string text = "{";
  for (std::size_t i = 0; i < element.size(); ++i)
    text += (i == 0 ? "" : ", ") + element.name(i) + ": " +
            std::string(name_of(element[i].dtype())) + " " + element[i].shape().to_string();
  return text + "}";
}

std::string bytes_of(nb::handle text) {
  if (nb::isinstance<nb::str>(text)) return nb::cast<std::string>(text);
  const nb::bytes bytes = nb::borrow<nb::bytes>(text);
  return {bytes.c_str(), bytes.size()};
}

template <typename T>
std::optional<Tensor> number_of(nb::handle value) {
  T number;
  return nb::try_cast(value, number) ? std::optional(Tensor::scalar(number)) : std::nullopt;
}

/// Returns a number of Python, or a list of numbers, as values of this dtype; nothing if they are
/// something else, or whole numbers that it can't hold. Floats are rounded.
std::optional<Tensor> plain_as(nb::handle value, DType dtype) {
  const bool whole = nb::isinstance<nb::int_>(value) && !nb::isinstance<nb::bool_>(value);
  if (whole || nb::isinstance<nb::float_>(value)) {
    switch (dtype) {
      case DType::u8:
        return number_of<std::uint8_t>(value);
      case DType::i8:
        return number_of<std::int8_t>(value);
      case DType::u16:
        return number_of<std::uint16_t>(value);
      case DType::i16:
        return number_of<std::int16_t>(value);
      case DType::u32:
        return number_of<std::uint32_t>(value);
      case DType::i32:
        return number_of<std::int32_t>(value);
      case DType::u64:
        return number_of<std::uint64_t>(value);
      case DType::i64:
        return number_of<std::int64_t>(value);
      case DType::f16:
        return Tensor::scalar(half_from_float(nb::cast<float>(value)));
      case DType::bf16:
        return Tensor::scalar(bfloat16_from_float(nb::cast<float>(value)));
      case DType::f32:
        return number_of<float>(value);
      case DType::f64:
        return number_of<double>(value);
      default:
        return std::nullopt;
    }
  }
  if (nb::isinstance<nb::list>(value) && nb::len(value) == 0)
    return dtype == DType::bytes ? Tensor::of_bytes({}) : Tensor::allocate(dtype, {0});
  if (nb::isinstance<nb::list>(value) && dtype != DType::bf16) {
    const nb::module_ numpy = nb::module_::import_("numpy");
    const nb::object given = numpy.attr("asarray")(value);
    const std::string kind = nb::cast<std::string>(given.attr("dtype").attr("kind"));
    const char to = format_of(dtype).numpy[0];  // u, i or f of a number
    if ((kind != "i" && kind != "f") || (to != 'f' && (kind == "f" || (to != 'i' && to != 'u'))))
      return std::nullopt;
    const nb::object made = given.attr("astype")(format_of(dtype).numpy);
    if (to == 'f' || nb::cast<bool>(numpy.attr("array_equal")(given, made)))
      return tensor_of(made, true);
  }
  return std::nullopt;
}

bool is_text(nb::handle value) {
  return nb::isinstance<nb::str>(value) || nb::isinstance<nb::bytes>(value);
}

}  // namespace

nb::object dlpack_capsule(dlpack::DLManagedTensor* managed) {
  return nb::steal(PyCapsule_New(managed, "dltensor", [](PyObject* self) {
    delete_capsule<dlpack::DLManagedTensor>(self, "dltensor");
  }));
}

nb::object dlpack_capsule(dlpack::DLManagedTensorVersioned* managed) {
  return nb::steal(PyCapsule_New(managed, "dltensor_versioned", [](PyObject* self) {
    delete_capsule<dlpack::DLManagedTensorVersioned>(self, "dltensor_versioned");
  }));
}

nb::tuple shape_tuple(const Shape& shape) {
  nb::list dims;
  for (const std::int64_t dim : shape.dims()) dims.append(dim);
  return nb::tuple(dims);
}

DType dtype_of_name(const std::string& name) {
  const std::string plain = name.starts_with("torch.") ? name.substr(6) : name;
  for (std::size_t i = 0; i < kFormats.size(); ++i)
    if (plain == kFormats[i].numpy) return static_cast<DType>(i);
  return dtype_from_name(plain);
}

DType dtype_of(nb::handle dtype) {
  if (nb::isinstance<nb::str>(dtype)) return dtype_of_name(nb::cast<std::string>(dtype));
  const nb::object name = nb::getattr(dtype, "name", nb::getattr(dtype, "__name__", dtype));
  return dtype_of_name(nb::cast<std::string>(nb::str(name)));
}

Shape shape_of(nb::handle dims) {
  if (dims.is_none()) return Shape::unknown_rank();
  std::vector<std::int64_t> extents;
  std::vector<std::optional<std::int64_t>> given;
  if (!nb::try_cast(dims, given))
    throw nb::type_error("a shape is a list of whole numbers and None, such as [3, 224, None]");
  for (const std::optional<std::int64_t> dim : given)
    extents.push_back(dim.value_or(Shape::kUnknown));
  return Shape(std::span<const std::int64_t>(extents));
}

Spec spec_of(nb::handle dict) {
  std::vector<ComponentSpec> components;
  for (const nb::handle name : dict) {
    const nb::object value = dict[name];
    std::pair<nb::object, nb::object> given;
    if (!nb::isinstance<nb::tuple>(value) || !nb::try_cast(value, given))
      throw nb::type_error("a component's spec is (dtype, shape), such as (\"f32\", [3, 8])");
    components.push_back(
        {nb::cast<std::string>(name), dtype_of(given.first), shape_of(given.second)});
  }
  return Spec(std::move(components));
}

nb::dict dict_of(const Spec& spec) {
  nb::dict result;
  for (const ComponentSpec& component : spec) {
    nb::object shape = nb::none();
    if (component.shape.has_rank()) {
      nb::list dims;
      for (const std::int64_t dim : component.shape.dims())
        dims.append(dim == Shape::kUnknown ? nb::object(nb::none()) : nb::object(nb::int_(dim)));
      shape = nb::tuple(dims);
    }
    result[component.name.c_str()] = nb::make_tuple(std::string(name_of(component.dtype)), shape);
  }
  return result;
}

Tensor tensor_of(nb::handle value, bool copy) {
  if (nb::isinstance<Tensor>(value)) return nb::cast<Tensor>(value);
  if (nb::isinstance<nb::bool_>(value)) return Tensor::scalar(nb::cast<bool>(value));
  if (nb::isinstance<nb::int_>(value)) {
    std::int64_t number = 0;
    if (!nb::try_cast(value, number))
      throw nb::value_error("a whole number does not fit in 64 bits: give an array of u64");
    return Tensor::scalar(number);
  }
  if (nb::isinstance<nb::float_>(value)) return Tensor::scalar(nb::cast<double>(value));
  if (is_text(value)) return Tensor::copy_bytes(bytes_of(value));
  if (nb::isinstance<nb::list>(value) && nb::len(value) > 0 && is_text(value[0])) {
    std::vector<std::string> texts;
    for (const nb::handle text : nb::borrow<nb::list>(value)) {
      if (!is_text(text)) throw nb::type_error("a list of texts holds something else");
      texts.push_back(bytes_of(text));
    }
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    return Tensor::of_bytes(views);
  }
  if (nb::isinstance<nb::list>(value))
    return tensor_of(nb::module_::import_("numpy").attr("asarray")(value), copy);
  // Arrays of texts, times and objects have no numbers; scalars of numpy are no arrays.
  const nb::object dtype_given = nb::getattr(value, "dtype", nb::none());
  const nb::object kind = nb::getattr(dtype_given, "kind", nb::none());
  const auto refuse = [&](const std::string& what) {
    throw nb::type_error(("no tensor can be made of " + what +
                          ": give a number, text, a list of texts (tolist()), or an array of "
                          "numbers in host memory (astype())")
                             .c_str());
  };
  if (nb::isinstance<nb::str>(kind) &&
      !nb::cast<bool>(nb::str("biuf?V").attr("__contains__")(kind)))
    refuse("an array of " + nb::cast<std::string>(nb::str(dtype_given)));
  const nb::object scalar = nb::isinstance<nb::str>(kind)
                                ? nb::module_::import_("numpy").attr("asarray")(value)
                                : nb::borrow(value);
  nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> array;
  if (!nb::try_cast(scalar, array)) {
    refuse(nb::isinstance<nb::str>(kind)
               ? "an array of " + nb::cast<std::string>(nb::str(dtype_given))
               : "an object of type " +
                     nb::cast<std::string>(nb::str(value.type().attr("__name__"))));
  }
  const nb::dlpack::dtype type = array.dtype();
  DType dtype = DType::u8;
  bool known = false;
  for (std::size_t i = 0; i + 1 < kFormats.size() && !known; ++i) {
    const auto candidate = static_cast<DType>(i);
    const dlpack::TypeCode code = candidate == DType::boolean  ? dlpack::kBool
                                  : candidate == DType::bf16   ? dlpack::kBfloat
                                  : kFormats[i].name[0] == 'u' ? dlpack::kUInt
                                  : kFormats[i].name[0] == 'i' ? dlpack::kInt
                                                               : dlpack::kFloat;
    known = type.code == code && type.bits == 8 * size_of(candidate) && type.lanes == 1;
    if (known) dtype = candidate;
  }
  if (!known)
    throw nb::type_error("an array of numbers that no tensor holds (complex, or of odd width)");
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis)
    extents.push_back(static_cast<std::int64_t>(array.shape(axis)));
  const Shape shape{std::span<const std::int64_t>(extents)};
  auto* const data =
      static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(array.data())));
  if (!copy && array.nbytes() > Tensor::kInlineBytes)
    return {dtype, shape, data, buffer_of(nb::cast(array), data, array.nbytes())};
  Tensor result = Tensor::allocate(dtype, shape);
  if (array.nbytes() > 0) std::memcpy(result.mutable_data(), data, array.nbytes());
  return result;
}

Tensor tensor_as(nb::handle value, DType dtype, bool copy) {
  std::optional<Tensor> plain = plain_as(value, dtype);
  return plain ? std::move(*plain) : tensor_of(value, copy);
}

Element element_of(nb::handle values, bool copy, const Spec* expected) {
  if (nb::isinstance<Element>(values)) return nb::cast<Element>(values);
  if (!nb::isinstance<nb::dict>(values)) {
    throw nb::type_error(("a function returned an object of type " +
                          nb::cast<std::string>(nb::str(values.type().attr("__name__"))) +
                          ", not a dict of names and values")
                             .c_str());
  }
  Element element;
  for (auto [key, value] : nb::borrow<nb::dict>(values)) {
    const std::string name = nb::cast<std::string>(key);
    const int at = expected == nullptr ? -1 : expected->find(name);
    element.set(name,
                at < 0 ? tensor_of(value, copy)
                       : tensor_as(value, (*expected)[static_cast<std::size_t>(at)].dtype, copy));
  }
  return element;
}

void bind_values(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor", nb::type_slots(tensor_slots), doc("Tensor"))
      .def(
          "__init__",
          [](Tensor* self, nb::handle value) { new (self) Tensor(tensor_of(value, true)); },
          "value"_a)
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return std::string(name_of(t.dtype())); },
          doc("Tensor::dtype"))
      .def_prop_ro(
          "shape", [](const Tensor& t) { return shape_tuple(t.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"), doc("Tensor::shape"))
      .def_prop_ro("nbytes", &Tensor::nbytes, doc("Tensor::nbytes"))
      .def_prop_ro(
          "data_ptr", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data()); },
          doc("Tensor::data"))
      .def("item", item_of, doc("Tensor::item"))
      .def("tolist", list_of, "Returns the values as nested lists; texts as bytes.")
      .def("__len__",
           [](const Tensor& t) {
             if (t.rank() == 0) throw nb::type_error("a scalar has no length");
             return t.dim(0);
           })
      .def(
          "__getitem__",
          [](const Tensor& t, std::int64_t i) {
            if (t.rank() == 0 || i < -t.dim(0) || i >= t.dim(0))
              throw nb::index_error("no such row");
            return t[i < 0 ? i + t.dim(0) : i];
          },
          "index"_a, doc("Tensor::operator[]"))
      .def(
          "__bytes__", [](const Tensor& t) { return nb::object(item_of(t)); },
          nb::sig("def __bytes__(self) -> bytes"))
      .def("__dlpack__", dlpack_of, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
           "Gives the values to another library without a copy, read-only where others share them.")
      .def("__dlpack_device__", [](const Tensor&) { return nb::make_tuple(int{dlpack::kCpu}, 0); })
      .def("__array__", array_of, "dtype"_a = nb::none(), "copy"_a = nb::none(),
           "Returns a numpy array: a view of numbers, or objects of type bytes.")
      .def(
          "__eq__",
          [](const Tensor& t, nb::handle other) {
            return item_of(t).equal(nb::isinstance<Tensor>(other)
                                        ? item_of(nb::cast<const Tensor&>(other))
                                        : nb::borrow(other));
          },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"),
          "Compares the value of a tensor of volume 1. Raises ValueError for any other.")
      .def("__bool__", [](const Tensor& t) { return PyObject_IsTrue(item_of(t).ptr()) == 1; })
      .def("__int__", [](const Tensor& t) { return nb::int_(item_of(t)); })
      .def("__float__", [](const Tensor& t) { return nb::float_(item_of(t)); })
      .def("__repr__", [](const Tensor& t) { return shown(t); });
  nb::class_<Element>(m, "Element", doc("Element"))
      .def(
          "__init__",
          [](Element* self, const Values& values) { new (self) Element(element_of(values, true)); },
          "values"_a)
      .def_prop_ro(
          "valid_rows", [](const Element& e) { return e.valid_rows; }, doc("Element::valid_rows"))
      .def(
          "__getitem__",
          [](const Element& e, const std::string& name) -> Tensor {
            if (!e.has(name)) throw nb::key_error((name + ": there are " + shown(e)).c_str());
            return e[name];
          },
          "name"_a)
      .def(
          "get",
          [](const Element& e, const std::string& name, nb::object otherwise) {
            return e.has(name) ? nb::cast(Tensor(e[name])) : otherwise;
          },
          "name"_a, "default"_a = nb::none())
      .def("__len__", &Element::size)
      .def("__contains__", [](const Element& e, const std::string& name) { return e.has(name); })
      .def(
          "__iter__", [](const Element& e) { return nb::iter(keys_of(e)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("keys", keys_of, nb::sig("def keys(self) -> list[str]"))
      .def(
          "values",
          [](const Element& e) {
            nb::list values;
            for (std::size_t i = 0; i < e.size(); ++i) values.append(e[i]);
            return values;
          },
          nb::sig("def values(self) -> list[Tensor]"))
      .def("items", items_of, nb::sig("def items(self) -> list[tuple[str, Tensor]]"))
      .def("__repr__", [](const Element& e) { return shown(e); });
}

}  // namespace penstock::python
