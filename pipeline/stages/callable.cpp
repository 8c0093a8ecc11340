#include <penstock/map.h>

#include <algorithm>
#include <array>
#include <vector>

#include "pipeline/core/callable_status.h"
#include "pipeline/core/rows.h"
#include "pipeline/core/sizes.h"
#include "pipeline/stages/adds.h"

namespace penstock {
namespace {

Status wrong_result(const std::string& op, const std::string& what) {
  return {ErrorCode::user, "the result of '" + op + "' does not fit its spec: " + what};
}

// Returns the error of a callable that got a batch. Most such callables were written for elements.
Status with_hint(Status status, std::int64_t valid_rows) noexcept {
  if (valid_rows < 0 || status.ok() || status.error().original()) return status;
  const Error& error = status.error();
  // Those of access to tensors, and of results that do not fit.
  constexpr std::array kOfForms{ErrorCode::invalid_argument, ErrorCode::out_of_range,
                                ErrorCode::not_found, ErrorCode::user};
  if (std::ranges::find(kOfForms, error.code()) == kOfForms.end()) return status;
  try {
    return Error(error.code(),
                 error.cause() + "; the input is batched (" + std::to_string(valid_rows) +
                     " rows): put the stage before batch, or let the callable take batches",
                 error.where());
  } catch (...) {
    return status;
  }
}

// A declared output spec, in a form that is cheap to check.
class Declared {
 public:
  explicit Declared(Spec spec) : spec_(std::move(spec)), names_(spec_.names()) {}

  const Spec& spec() const noexcept { return spec_; }
  const Names* names() const noexcept { return names_; }
  bool fits(const Element& element) const noexcept {
    if (element.names() != names_) return false;
    for (std::size_t i = 0; i < spec_.size(); ++i) {
      const Tensor& tensor = element[i];
      if (tensor.dtype() != spec_[i].dtype || !spec_[i].shape.accepts(tensor.shape())) return false;
    }
    return true;
  }

 private:
  Spec spec_;
  const Names* names_;
};

// The names and dtypes of the first result. If a callable declares no output, they must stay the
// same. Shapes may vary within the spec, which only the engine knows.
class Remembered {
 public:
  explicit Remembered(const Element& element) : names_(element.names()) {
    for (std::size_t i = 0; i < element.size(); ++i) dtypes_.push_back(element[i].dtype());
  }
  Remembered(const Names* names, std::uint64_t packed) : names_(names) {
    for (std::size_t i = names == nullptr ? 0 : names->size(); i-- > 0;) {
      dtypes_.push_back(static_cast<DType>(packed >> (8 * i) & 0xff));
    }
  }
  /// Returns the difference, or an empty text.
  std::string mismatch(const Element& element) const {
    std::vector<ComponentSpec> components;
    for (std::size_t i = 0; i < dtypes_.size(); ++i) {
      components.push_back({(*names_)[i], dtypes_[i], Shape::unknown_rank()});
    }
    return Spec(std::move(components)).mismatch(element);
  }

  /// The dtypes of up to kFew components, one byte for each. Checking elements of few components
  /// needs nothing else.
  static constexpr std::size_t kFew = 8;
  static std::uint64_t pack(const Element& element) noexcept {
    std::uint64_t dtypes = 0;
    for (std::size_t i = 0; i < element.size(); ++i) {
      dtypes = dtypes << 8 | static_cast<std::uint64_t>(element[i].dtype());
    }
    return dtypes;
  }

 private:
  static_assert(kDTypeCount <= 256);

  const Names* names_;
  std::vector<DType> dtypes_;
};

// Returns the rows of a batch, or -1 if its components do not agree on one outermost dimension.
std::int64_t rows_in(const Element& element) {
  std::int64_t rows = -1;
  for (std::size_t i = 0; i < element.size(); ++i) {
    if (element[i].rank() == 0 || (rows >= 0 && element[i].dim(0) != rows)) return -1;
    rows = element[i].dim(0);
  }
  return rows;
}

bool skipped(WorkItem& item, const WorkContext& context) {
  if (!item.status.ok() || !item.keep) return true;
  if (!context.cancelled()) return false;
  item.status = WorkContext::cancelled_status();
  return true;
}

class ElementOp final : public WorkOp {
 public:
  ElementOp(std::function<void(Element&, Rng&)> fn, MapOptions options, bool draws)
      : fn_(std::move(fn)), name_(options.name), draws_(draws) {
    if (options.output) declared_.emplace(*std::move(options.output));
    blocking_ = options.blocking;
  }

  std::string name() const override { return name_; }
  bool deterministic() const override { return false; }
  void describe(Description& description) const override {
    description.add("output", declared_ ? declared_->spec().to_string() : "input");
  }
  Spec infer(const Spec& input) const override { return declared_ ? declared_->spec() : input; }
  bool blocking() const override { return blocking_; }
  bool random() const override { return draws_; }
  bool columnar() const override { return !draws_ && !blocking_; }

  std::size_t run_columns(const Element& in, Element& out, WorkItem& odd,
                          const WorkContext& context) const override {
    const Columns from(in);
    const Columns to(out);
    const auto rows = static_cast<std::size_t>(in[0].dim(0));
    Element& element = odd.element;
    Rng no_numbers(0, 0, 0);
    const bool renewable = from.alike(to);
    from.get(0, element);
    for (std::size_t row = 0;;) {
      if (context.cancelled()) {
        odd.status = WorkContext::cancelled_status();
        return row;
      }
      try {
        fn_(element, no_numbers);
      } catch (...) {
        odd.status = status_of_callable(name_);
        return row;
      }
      if (!to.put(row, element)) {
        judge(odd, Remembered(in));
        return row;
      }
      if (++row == rows) return rows;
      if (renewable) {
        from.renew(row, element);
      } else {
        from.get(row, element);
      }
    }
  }

  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (skipped(item, context)) continue;
      Rng rng = context.rng(item);
      const std::int64_t valid = item.element.valid_rows;
      try {
        if (valid < 0) {
          apply(item, rng);
        } else {
          apply_to_batch(item, rng);
        }
      } catch (...) {
        item.status = with_hint(status_of_callable(name_), valid);
      }
    }
  }

 private:
  // A batch remains a batch if the callable keeps its rows.
  void apply_to_batch(WorkItem& item, Rng& rng) const {
    const std::int64_t valid = item.element.valid_rows;
    const std::int64_t rows = rows_in(item.element);
    apply(item, rng);
    if (!item.status.ok()) item.status = with_hint(std::move(item.status), valid);
    if (item.element.valid_rows < 0 && rows_in(item.element) == rows) {
      item.element.valid_rows = valid;
    }
  }

  void apply(WorkItem& item, Rng& rng) const {
    Element& element = item.element;
    if (declared_ || element.size() > Remembered::kFew) return apply_checked(item, rng);
    const Names* const names = element.names();
    const std::uint64_t dtypes = Remembered::pack(element);
    fn_(element, rng);
    if (element.names() != names || Remembered::pack(element) != dtypes) {
      refuse(item, names, dtypes);
    }
  }

  [[gnu::noinline]] void apply_checked(WorkItem& item, Rng& rng) const {
    if (declared_) {
      fn_(item.element, rng);
      if (!declared_->fits(item.element)) {
        refuse(item, declared_->spec().mismatch(item.element));
      }
      return;
    }
    const Remembered before(item.element);
    fn_(item.element, rng);
    judge(item, before);
  }

  [[gnu::noinline]] void judge(WorkItem& item, const Remembered& before) const {
    if (declared_ && declared_->fits(item.element)) return;
    const std::string what =
        declared_ ? declared_->spec().mismatch(item.element) : before.mismatch(item.element);
    if (!what.empty()) refuse(item, what);
  }

  void refuse(WorkItem& item, const std::string& what) const {
    item.status = wrong_result(name_, what);
  }
  [[gnu::noinline]] void refuse(WorkItem& item, const Names* names, std::uint64_t dtypes) const {
    refuse(item, Remembered(names, dtypes).mismatch(item.element));
  }

  std::function<void(Element&, Rng&)> fn_;
  std::string name_;
  bool draws_;
  std::optional<Declared> declared_;
  bool blocking_ = false;
};

class ViewOp final : public WorkOp {
 public:
  ViewOp(ViewFn fn, const MapOptions& options)
      : fn_(std::move(fn)),
        name_(options.name),
        blocking_(options.blocking),
        declared_(*options.output) {
    for (const ComponentSpec& component : declared_.spec()) {
      bytes_.push_back(bytes_of(component.dtype, component.shape));
    }
  }

  std::string name() const override { return name_; }
  bool deterministic() const override { return false; }
  void describe(Description& description) const override {
    description.add("output", declared_.spec().to_string());
  }
  Spec infer(const Spec&) const override { return declared_.spec(); }
  bool blocking() const override { return blocking_; }
  bool random() const override { return true; }

  void run(std::span<WorkItem> items, WorkContext& context) const override {
    SmallPlaces places(bytes_.size());
    for (WorkItem& item : items) {
      if (skipped(item, context)) continue;
      try {
        Element out(declared_.names());
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = place(item, i, places[i], context);
        out.valid_rows = item.element.valid_rows;
        Rng rng = context.rng(item);
        fn_(item.element, out, rng);
        if (item.row) {
          detach(out, item.row, context);
        } else {
          take_in(out, places);
        }
        if (!declared_.fits(out)) {
          item.status = with_hint(wrong_result(name_, declared_.spec().mismatch(out)),
                                  item.element.valid_rows);
        }
        item.element = std::move(out);
      } catch (...) {
        item.status = with_hint(status_of_callable(name_), item.element.valid_rows);
      }
    }
  }

 private:
  // The memory of small values without a row while the callable uses them. Their tensors are views
  // until then, so that the callable can copy them.
  struct alignas(Tensor) SmallPlace {
    std::byte bytes[Tensor::kInlineBytes];
  };
  using SmallPlaces = boost::container::small_vector<SmallPlace, 4>;

  Tensor place(const WorkItem& item, std::size_t i, SmallPlace& small, WorkContext& context) const {
    const ComponentSpec& component = declared_.spec()[i];
    std::byte* data = item.row ? item.row.data(i) : nullptr;
    if (data != nullptr) return {component.dtype, component.shape, data, BufferPtr()};
    if (bytes_[i] <= sizeof(SmallPlace)) {
      small = {};
      return {component.dtype, component.shape, small.bytes, BufferPtr()};
    }
    BufferPtr buffer = context.allocate(bytes_[i]);
    data = buffer->data();
    return {component.dtype, component.shape, data, std::move(buffer)};
  }

  static void take_in(Element& out, const SmallPlaces& places) {
    const auto* const begin = reinterpret_cast<const std::byte*>(places.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (lies_in(out[i], begin, places.size() * sizeof(SmallPlace))) out[i] = out[i].clone();
    }
  }

  // Components may have been exchanged, so none may be overwritten before it is copied to its
  // place.
  void detach(Element& out, const Row& row, WorkContext& context) const {
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i < bytes_.size() && out[i].data() == row.data(i)) continue;
      for (std::size_t place = 0; place < bytes_.size(); ++place) {
        if (row.data(place) == nullptr || !lies_in(out[i], row.data(place), bytes_[place]))
          continue;
        out[i] = copy_of(out[i], context);
        break;
      }
    }
  }

  static Tensor copy_of(const Tensor& value, WorkContext& context) {
    if (value.nbytes() <= Tensor::kInlineBytes) return value.clone();
    BufferPtr buffer = context.allocate(value.nbytes());
    std::byte* const data = buffer->data();
    value.copy_to(data);
    return {value.dtype(), value.shape(), data, std::move(buffer)};
  }

  ViewFn fn_;
  std::string name_;
  bool blocking_;
  Declared declared_;
  std::vector<std::size_t> bytes_;
};

class PredicateOp final : public WorkOp {
 public:
  PredicateOp(Predicate predicate, std::string name)
      : predicate_(std::move(predicate)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  bool deterministic() const override { return false; }
  void describe(Description&) const override {}
  Spec infer(const Spec& input) const override { return input; }

  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (skipped(item, context)) continue;
      try {
        item.keep = predicate_(item.element);
      } catch (...) {
        item.status = with_hint(status_of_callable(name_), item.element.valid_rows);
      }
    }
  }

 private:
  Predicate predicate_;
  std::string name_;
};

void require_callable(bool callable, const std::string& name) {
  if (!callable) {
    throw Error(ErrorCode::invalid_argument, "the callable of '" + name + "' is empty");
  }
}

}  // namespace

WorkOpPtr make_element_op(ElementFn fn, MapOptions options) {
  require_callable(static_cast<bool>(fn), options.name);
  require_resolved(options);
  return std::make_shared<ElementOp>(
      [fn = std::move(fn)](Element& element, Rng& rng) { element = fn(std::move(element), rng); },
      std::move(options), true);
}

WorkOpPtr make_in_place_op(std::function<void(Element&, Rng&)> fn, MapOptions options, bool draws) {
  require_callable(static_cast<bool>(fn), options.name);
  require_resolved(options);
  return std::make_shared<ElementOp>(std::move(fn), std::move(options), draws);
}

WorkOpPtr make_view_op(ViewFn fn, MapOptions options) {
  require_callable(static_cast<bool>(fn), options.name);
  refuse_adds(options);
  if (!options.output || !options.output->is_fixed_size()) {
    throw Error(ErrorCode::invalid_argument,
                "'" + options.name + "' writes into views, so its output spec must be given and " +
                    "of fixed size, not " +
                    (options.output ? options.output->to_string() : "missing"));
  }
  return std::make_shared<ViewOp>(std::move(fn), options);
}

WorkOpPtr make_predicate_op(Predicate predicate, std::string name) {
  require_callable(static_cast<bool>(predicate), name);
  return std::make_shared<PredicateOp>(std::move(predicate), std::move(name));
}

}  // namespace penstock
