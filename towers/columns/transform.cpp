#include <penstock/towers/columns/transform.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/packing_op.h>

#include "towers/columns/column_plan.h"

namespace penstock::towers {
namespace {

using Kind = Column::Kind;

Tensor make_values(DType dtype, const Shape& shape, std::byte* row, WorkContext& context) {
  if (row != nullptr) return {dtype, shape, row, {}};
  const std::size_t bytes = static_cast<std::size_t>(shape.volume()) * size_of(dtype);
  if (bytes <= Tensor::kInlineBytes) return Tensor::allocate(dtype, shape);
  const BufferPtr buffer = context.allocate(bytes);
  return {dtype, shape, buffer->data(), buffer};
}

/// Writes the numbers of an element into its components.
class ElementWriter {
 public:
  ElementWriter(const ColumnPlan& plan, const WorkItem& item, Element& out, WorkContext& context)
      : plan_(plan), item_(item), out_(out), context_(context) {
    out.start(plan.output.names());
  }

  template <typename T>
  void put(const T* values, std::size_t count) {
    const Shape& wanted = plan_.output[out_.size()].shape;
    std::byte* row = nullptr;
    Shape shape = wanted;
    if (wanted.is_static()) {
      row = item_.row ? item_.row.data(out_.size()) : nullptr;
    } else {
      const auto all = static_cast<std::int64_t>(count);
      shape = wanted.rank() == 2 ? Shape{all / wanted[1], wanted[1]} : Shape{all};
    }
    Tensor tensor = make_values(dtype_of<T>, shape, row, context_);
    if (count > 0) std::memcpy(tensor.mutable_data(), values, count * sizeof(T));
    out_.append(std::move(tensor));
  }
  void carry(const Tensor& from) {
    const std::size_t bytes = size_of(from.dtype());
    std::byte* const row = item_.row ? item_.row.data(out_.size()) : nullptr;
    Tensor tensor = make_values(from.dtype(), {}, row, context_);
    std::memcpy(tensor.mutable_data(), from.data(), bytes);
    out_.append(std::move(tensor));
  }

 private:
  const ColumnPlan& plan_;
  const WorkItem& item_;
  Element& out_;
  WorkContext& context_;
};

/// Writes them in the form that `ragged_batch` copies; see PackingOp.
class PackedWriter {
 public:
  PackedWriter(const ColumnPlan& plan, std::vector<std::byte>& to)
      : plan_(plan), to_(to), extent_(to.size()) {
    const auto varies = static_cast<std::size_t>(std::ranges::count_if(
        plan.output, [](const ComponentSpec& component) { return is_packed_ragged(component); }));
    to.resize(to.size() + varies * kPackedAlignment);
  }

  template <typename T>
  void put(const T* values, std::size_t count) {
    const ComponentSpec& component = plan_.output[at_++];
    if (is_packed_ragged(component)) {
      const auto width =
          component.shape.rank() == 2 ? static_cast<std::size_t>(component.shape[1]) : 1;
      const auto extent = static_cast<std::int64_t>(count / width);
      std::memcpy(to_.data() + extent_, &extent, sizeof extent);
      extent_ += kPackedAlignment;
    }
    append(values, count * sizeof(T));
  }
  void carry(const Tensor& from) {
    ++at_;
    append(from.data(), size_of(from.dtype()));
  }

 private:
  void append(const void* values, std::size_t bytes) {
    const std::size_t begin = to_.size();
    to_.resize(begin + (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment);
    if (bytes > 0) std::memcpy(to_.data() + begin, values, bytes);
  }

  const ColumnPlan& plan_;
  std::vector<std::byte>& to_;
  std::size_t extent_;  // the place of the next one
  std::size_t at_ = 0;  // component
};

class ColumnOp final : public PackingOp {
 public:
  ColumnOp(std::shared_ptr<const ColumnPlan> plan, bool packs)
      : plan_(std::move(plan)), packs_(packs) {}

  std::string name() const override { return "columns"; }
  void describe(Description& description) const override {
    if (plan_->label >= 0)
      description.add("label",
                      plan_->source.features()[static_cast<std::size_t>(plan_->label)].name);
    plan_->source.describe(description);
    for (const std::string& word : plan_->classes) description.add("class", word);
    for (const ColumnStep& step : plan_->steps)
      description.add(step.column->name, text_of(*step.column));
  }
  Spec infer(const Spec& input) const override {
    if (!(input == plan_->input)) refuse_columns("columns: made for " + plan_->input.to_string());
    return packs_ ? packed_spec() : plan_->output;
  }
  WorkOpPtr packing() const override { return std::make_shared<ColumnOp>(plan_, true); }
  std::size_t preferred_group() const override { return 64; }
  bool deterministic() const override {
    return std::ranges::none_of(plan_->steps, [](const ColumnStep& step) {
      return step.column->normalizer.function != nullptr;
    });
  }

  void run(std::span<WorkItem> items, WorkContext& context) const EXCLUDES(mutex_) override {
    std::unique_ptr<Scratch> scratch = take_scratch();
    scratch->packed.clear();
    scratch->ends.clear();
    for (WorkItem& item : items) {
      if (item.status.ok() && item.keep) transform(item, *scratch, context);
      scratch->ends.push_back(scratch->packed.size());
    }
    if (packs_) hand_out(items, *scratch, context);
    scratch->in.clear();
    const MutexLock lock(mutex_);
    scratches_.push_back(std::move(scratch));
  }

 private:
  struct Scratch {
    explicit Scratch(std::size_t steps) : values(steps) {}
    ColumnValues values;
    Element in;
    std::vector<std::byte> packed;
    std::vector<std::size_t> ends;  // in `packed`, of each item
  };

  std::unique_ptr<Scratch> take_scratch() const EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (!scratches_.empty()) {
        std::unique_ptr<Scratch> last = std::move(scratches_.back());
        scratches_.pop_back();
        return last;
      }
    }
    return std::make_unique<Scratch>(plan_->steps.size());
  }

  void transform(WorkItem& item, Scratch& scratch, WorkContext& context) const {
    const std::size_t before = scratch.packed.size();
    try {
      std::swap(scratch.in, item.element);  // its memory is reused for the next element
      scratch.values.compute(*plan_, scratch.in);
      if (packs_) {
        PackedWriter writer(*plan_, scratch.packed);
        write(scratch, writer);
      } else {
        ElementWriter writer(*plan_, item, item.element, context);
        write(scratch, writer);
      }
    } catch (...) {
      item.status = status_from_current_exception();
      item.element.clear();
      scratch.packed.resize(before);
    }
  }

  template <typename Writer>
  void write(const Scratch& scratch, Writer& writer) const {
    const ColumnValues& values = scratch.values;
    std::size_t at = 0;
    if (plan_->label >= 0) {
      writer.put(&values.label, 1);
      ++at;
    }
    while (at < plan_->columns_end) {
      const std::size_t step = plan_->emitted[at];
      const Kind kind = plan_->steps[step].column->kind;
      if (kind != Kind::numeric) {
        writer.put(values.ids[step].data(), values.ids[step].size());
        ++at;
      }
      if (kind != Kind::numeric && kind != Kind::weighted) continue;
      writer.put(values.numbers[step].data(), values.numbers[step].size());
      ++at;
    }
    for (; at < plan_->output.size(); ++at) writer.carry(scratch.in[plan_->output[at].name]);
  }

  /// All items share one buffer, because a buffer for each item would cost as much every time.
  void hand_out(std::span<WorkItem> items, const Scratch& scratch, WorkContext& context) const {
    if (scratch.packed.empty()) return;
    const BufferPtr buffer = context.allocate(scratch.packed.size());
    std::memcpy(buffer->data(), scratch.packed.data(), scratch.packed.size());
    const auto* const text = reinterpret_cast<const char*>(buffer->data());
    std::size_t begin = 0;
    for (std::size_t i = 0; i < items.size(); begin = scratch.ends[i++]) {
      if (!items[i].status.ok() || !items[i].keep) continue;
      items[i].element.start(packed_names_);
      items[i].element.append(Tensor::bytes({text + begin, scratch.ends[i] - begin}, buffer));
    }
  }

  const std::shared_ptr<const ColumnPlan> plan_;
  const bool packs_;
  const Names* const packed_names_ = packed_spec().names();
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> scratches_ GUARDED_BY(mutex_);
};

}  // namespace

FeatureSpec label_feature(const Label& label) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) refuse_columns("label " + label.key + ": " + what);
  };
  require(!label.key.empty(), "its key is empty");
  require(label.dtype == DType::i64 || label.dtype == DType::f32 || label.dtype == DType::bytes,
          "must be of i64, f32 or bytes, not " + std::string(name_of(label.dtype)));
  require((label.dtype == DType::bytes) != label.classes.empty(),
          "of bytes has a list of classes, and no other has");
  require(std::set<std::string>(label.classes.begin(), label.classes.end()).size() ==
              label.classes.size(),
          "has the same class twice");
  return {.key = label.key, .dtype = label.dtype, .shape = {}};
}

Dataset transform_columns(const Dataset& features, const std::vector<ColumnPtr>& columns,
                          const std::optional<Label>& label) {
  return features.map_op(std::make_shared<ColumnOp>(
      std::make_shared<const ColumnPlan>(columns, label, features.spec()), false));
}

}  // namespace penstock::towers
