// Dataset and its stages.
#include "python/fields.h"

namespace penstock::python {
namespace {

template <typename... P>
using Stage = Dataset (Dataset::*)(P...) const;

/// Returns what a function made or, where it adds components, its input with these.
Element merged(const Element& in, Element made, bool adds) {
  if (!adds) return made;
  Element all = in;
  for (std::size_t i = 0; i < made.size(); ++i) all.set(made.name(i), made[i]);
  return all;
}

Dataset map(const Dataset& in, const Function& function, MapArguments options) {
  const bool adds = !options.adds.empty();
  const Spec spec = adds ? Spec(options.adds) : options.output ? *options.output : in.spec();
  const auto fn = [function, spec](const auto&... arguments) {
    return function([&] { return nb::make_tuple(arguments...); },
                    [&](nb::handle made) { return element_of(made, true, &spec); });
  };
  if (options.batched && options.random)
    throw Error(ErrorCode::invalid_argument, "map: `batched` and `random` exclude each other");
  if (options.batched) {
    return in.map_batchwise(
        [fn, adds](const Element& batch, Element& out) {
          const Element made = fn(batch);
          // What it does not return stays as it was, but `out` holds no values yet.
          for (std::size_t i = 0; i < out.size(); ++i) {
            const std::string name = out.name(i);
            if (!made.has(name) && !(adds && batch.has(name)))
              throw Error(ErrorCode::user, "the function returned no component " + name);
            out[i] = made.has(name) ? made[name] : batch[name];
          }
          for (std::size_t i = 0; i < made.size(); ++i)
            if (!out.has(made.name(i))) out.set(made.name(i), made[i]);
        },
        std::move(options));
  }
  if (options.random) {
    return in.map(
        [fn, adds](Element element, Rng& rng) {
          return merged(element, fn(element, rng.next_u64()), adds);
        },
        std::move(options));
  }
  return in.map([fn, adds](Element element) { return merged(element, fn(element), adds); },
                std::move(options));
}

/// Returns a selection by whole numbers of any kind.
Dataset select(const Dataset& in, nb::handle indices) {
  const nb::object given = nb::isinstance<nb::list>(indices) ||
                                   nb::isinstance<nb::tuple>(indices) ||
                                   nb::hasattr(indices, "__dlpack__")
                               ? nb::borrow(indices)
                               : nb::object(nb::list(indices));
  std::vector<std::uint64_t> all;
  const auto add = [&](auto number) {
    if (number < 0) throw nb::index_error("select: positions count from 0, and none is negative");
    all.push_back(static_cast<std::uint64_t>(number));
  };
  if (nb::hasattr(given, "__dlpack__")) {
    const Tensor numbers = tensor_of(given, false);
    if (numbers.dtype() == DType::boolean)
      throw nb::type_error("select takes positions, not a mask: numpy.flatnonzero(mask)");
    if (numbers.dtype() == DType::i64)
      for (const std::int64_t number : numbers.to_vector<std::int64_t>()) add(number);
    else if (numbers.dtype() == DType::i32)
      for (const std::int32_t number : numbers.to_vector<std::int32_t>()) add(number);
    else if (numbers.dtype() == DType::u64)
      all = numbers.to_vector<std::uint64_t>();
    else if (numbers.volume() > 0)
      throw nb::type_error("select takes an array of i64, i32 or u64");
  } else {
    for (const nb::handle number : given) {
      if (nb::isinstance<nb::bool_>(number))
        throw nb::type_error("select takes positions, not a mask: numpy.flatnonzero(mask)");
      std::int64_t position = 0;
      if (!nb::try_cast(number, position))
        throw nb::type_error("select takes whole numbers below 2^63");
      add(position);
    }
  }
  return without_lock([&] { return in.select(std::move(all)); });
}

/// More on `map`, whose function has forms of its own in Python.
constexpr const char* kForms = R"(

In Python `fn` takes an Element and returns a dict (or an Element) with all components, or with
those of `adds`. With `random` it also takes a number of 64 bits, to seed a generator with. With
`batched` it takes many elements at once, [n, ...], and must treat rows independently: n varies,
and after an exception it is called for each row alone.)";

}  // namespace

void bind_datasets(nb::module_& m) {
  nb::class_<Dataset> type(m, "Dataset", doc("Dataset"));
  const std::string map_doc = std::string(doc("Dataset::map")) + kForms;
  def(type, "shard", &Dataset::shard, "count"_a, "index"_a);
  def(type, "shuffle", &Dataset::shuffle);
  def(type, "repeat", &Dataset::repeat, "count"_a = kInfinite);
  def(type, "take", &Dataset::take, "count"_a);
  def(type, "skip", &Dataset::skip, "count"_a);
  def(type, "take_while", Stage<Predicate>(&Dataset::take_while), "predicate"_a);
  def(type, "filter", Stage<Predicate, std::string>(&Dataset::filter), "predicate"_a,
      "name"_a = "filter");
  def(type, "enumerate", &Dataset::enumerate, "start"_a = 0, "component"_a = "index");
  def(type, "concatenate", &Dataset::concatenate, "other"_a);
  def(type, "interleave", Stage<FlatMapFn, Spec, InterleaveOptions>(&Dataset::interleave), "fn"_a,
      "output"_a);
  def(type, "flat_map", Stage<FlatMapFn, Spec>(&Dataset::flat_map), "fn"_a, "output"_a);
  def(type, "unbatch", &Dataset::unbatch);
  def(type, "rebatch", Stage<std::int64_t, BatchOptions>(&Dataset::rebatch), "size"_a);
  def(type, "rebatch#2", Stage<std::vector<std::int64_t>, BatchOptions>(&Dataset::rebatch),
      "sizes"_a);
  def(type, "unique", &Dataset::unique, "components"_a = nb::list());
  def(type, "scan", Stage<Element, ScanFn, ScanOptions>(&Dataset::scan), "initial"_a, "fn"_a);
  def(type, "rejection_resample",
      Stage<KeyFn, std::vector<double>, ResampleOptions>(&Dataset::rejection_resample),
      "class_of"_a, "target"_a);
  def(type, "ignore_errors", &Dataset::ignore_errors, "log_warning"_a = false);
  def(type, "window", Stage<std::int64_t, WindowOptions>(&Dataset::window), "size"_a);
  def(type, "window#2", Stage<std::int64_t, WindowFn, WindowOptions>(&Dataset::window), "size"_a,
      "each"_a);
  def(type, "group_by_window", Stage<KeyFn, GroupOptions>(&Dataset::group_by_window), "key"_a);
  def(type, "cache", Stage<>(&Dataset::cache));
  def(type, "pad_batches", &Dataset::pad_batches);
  def(type, "prefetch", &Dataset::prefetch, "count"_a = -1);
  def(type, "map", Stage<const ImageOps&>(&Dataset::map), "ops"_a);
  with_options<MapArguments>(Types<const Dataset&>(), Types<Function>(), map,
                             [&](const auto& function, const auto&... options) {
                               type.def("map", function, "fn"_a, options..., map_doc.c_str());
                             });
  def(type, "map_op", &Dataset::map_op, "op"_a, "ordered"_a = true);
  def(type, "keep", &Dataset::keep, "components"_a);
  def(type, "drop", &Dataset::drop, "components"_a);
  def(type, "batch", &Dataset::batch, "size"_a);
  def(type, "padded_batch", &Dataset::padded_batch, "size"_a);
  def(type, "bucket_by_length", &Dataset::bucket_by_length);
  def(type, "pack", &Dataset::pack);
  def(type, "ragged_batch", &Dataset::ragged_batch, "size"_a);
  def(type, "split_at", &Dataset::split_at, "share"_a, "seed"_a);
  def(type, "cardinality", &Dataset::cardinality);
  using Path = std::filesystem::path;
  type.def(
          "cache", [](const Dataset& in, const Path& file) { return in.cache(file.string()); },
          "file"_a, doc("Dataset::cache#2"))
      .def(
          "snapshot",
          [](const Dataset& in, const Path& folder) { return in.snapshot(folder.string()); },
          "folder"_a, doc("Dataset::snapshot"))
      .def(
          "apply", [](nb::object self, nb::callable fn) { return fn(self); }, "fn"_a,
          doc("Dataset::apply"))
      .def("select", select, "indices"_a, doc("Dataset::select"),
           nb::sig("def select(self, indices: collections.abc.Iterable[int]) -> Dataset"))
      .def(
          "__len__",
          [](const Dataset& in) {
            const std::int64_t count = unlocked([&] { return in.cardinality(); });
            if (count < 0)
              throw nb::type_error(count == kInfinite ? "the dataset is infinite"
                                                      : "the number of elements is not known");
            return count;
          },
          "The number of elements. Raises TypeError if it is not known, or infinite.")
      .def("__bool__", [](const Dataset&) { return true; })
      .def_prop_ro(
          "spec", [](const Dataset& in) { return dict_of(in.spec()); },
          nb::sig("def spec(self) -> dict[str, tuple[str, tuple[int | None, ...] | None]]"),
          doc("Dataset::spec"))
      .def_prop_ro("class_names", class_names, doc("class_names"))
      .def(
          "guarantee", [](const Dataset& in) { return name_of(in.guarantee()); },
          doc("Dataset::guarantee"))
      .def_static(
          "from_toml",
          [](const Path& path) {
            return unlocked([&] { return read_pipeline(path.string()).dataset; });
          },
          "path"_a, doc("read_pipeline"))
      .def("__repr__", [](const Dataset& in) { return "Dataset(" + in.spec().to_string() + ")"; });
  nb::class_<MixWeights>(m, "MixWeights", doc("MixWeights"))
      .def(nb::init<std::vector<double>>(), "weights"_a)
      .def(
          "set",
          [](const MixWeights& w, std::vector<double> weights) {
            static_cast<void>(w.set(std::move(weights)));
          },
          "weights"_a, doc("MixWeights::set"));
  using Inputs = const std::vector<Dataset>&;
  def(m, "zip", zip, doc("zip"), "inputs"_a);
  def(m, "sample_from",
      static_cast<Dataset (*)(Inputs, std::vector<double>, MixOptions)>(sample_from),
      doc("sample_from"), "inputs"_a, "weights"_a);
  def(m, "sample_from",
      static_cast<Dataset (*)(Inputs, const MixWeights&, MixOptions)>(sample_from),
      doc("sample_from"), "inputs"_a, "weights"_a);
  def(m, "choose_from", choose_from, doc("choose_from"), "inputs"_a, "choices"_a,
      "stop_on_empty"_a = true);
}

}  // namespace penstock::python
