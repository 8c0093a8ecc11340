#include "pipeline/stages/pack.h"

#include <algorithm>

#include "pipeline/core/sizes.h"
#include "pipeline/stage/support.h"
#include "pipeline/stages/grouping.h"
#include "pipeline/stages/padding.h"

namespace penstock {
namespace {

class FirstFit final : public Grouping {
 public:
  explicit FirstFit(const PackOptions& options) : options_(options) {}

  Status add(const ElementRef& item, std::uint64_t number, std::deque<Gathered>& done) override {
    const std::int64_t length = item.payload->key;
    if (length > options_.length) {
      return {ErrorCode::out_of_range, "a sequence of " + std::to_string(length) +
                                           " does not fit a row of " +
                                           std::to_string(options_.length)};
    }
    auto row = std::ranges::find_if(rows_, [&](const Row& r) { return length <= r.room; });
    if (row == rows_.end()) {
      if (rows_.size() == static_cast<std::size_t>(options_.open)) {
        done.push_back(std::move(rows_.front().gathered));
        rows_.erase(rows_.begin());
      }
      row = rows_.insert(rows_.end(), Row{options_.length, {}});
    }
    row->room -= length;
    row->gathered.items.push_back(item);
    row->gathered.numbers.push_back(number);
    if (row->room == 0) {
      done.push_back(std::move(row->gathered));
      rows_.erase(row);
    }
    return {};
  }

  void finish(std::deque<Gathered>& done) override {
    for (Row& row : rows_) done.push_back(std::move(row.gathered));
    rows_.clear();
  }

 private:
  struct Row {
    std::int64_t room = 0;
    Gathered gathered;
  };
  const PackOptions& options_;
  std::vector<Row> rows_;  // the oldest first
};

/// Joins the sequences of a row, and pads it.
class PackOp final : public GatherOp {
 public:
  PackOp(const Spec& output, PackOptions options) : options_(std::move(options)) {
    std::vector<std::string> names;
    for (const ComponentSpec& component : output) names.push_back(component.name);
    names_ = Names::intern(names);
  }

  void gather(std::span<const Element* const> parts, WorkItem& out,
              WorkContext& context) const override {
    out.element.reset(names_);
    const std::size_t count = names_->size() - 2;
    for (std::size_t c = 0; c < count; ++c) {
      for (std::size_t i = 1; i < parts.size(); ++i) {
        const Tensor& part = (*parts[i])[c];
        const Tensor& first = (*parts.front())[c];
        if (part.dtype() == first.dtype() &&
            part.shape().drop_front() == first.shape().drop_front()) {
          continue;
        }
        out.index = i;
        out.status = Status(ErrorCode::mismatch,
                            "component " + (*names_)[c] + " has shape " + part.shape().to_string() +
                                " and another in the row " + first.shape().to_string());
        return;
      }
      out.element[c] = join(parts, c, context);
    }
    number(parts, out.element[count], out.element[count + 1], context);
  }
  bool pads() const noexcept override { return true; }

 private:
  Tensor join(std::span<const Element* const> parts, std::size_t c, WorkContext& context) const {
    const Tensor& first = (*parts.front())[c];
    const Shape shape = first.shape().with(0, options_.length);
    const std::size_t bytes = bytes_of(first.dtype(), shape);
    BufferPtr buffer = context.allocate(bytes);
    std::byte* to = buffer->data();
    for (const Element* part : parts) {
      (*part)[c].copy_to(to);
      to += (*part)[c].nbytes();
    }
    const auto rest = static_cast<std::int64_t>(
        (bytes - static_cast<std::size_t>(to - buffer->data())) / size_of(first.dtype()));
    fill_values(first.dtype(), options_.values[c], to, rest);
    return Tensor(first.dtype(), shape, buffer->data(), buffer);
  }

  void number(std::span<const Element* const> parts, Tensor& segment, Tensor& position,
              WorkContext& context) const {
    const auto length = static_cast<std::size_t>(options_.length);
    BufferPtr buffer = context.allocate(2 * length * sizeof(std::int32_t));
    auto* segments = reinterpret_cast<std::int32_t*>(buffer->data());
    std::int32_t* positions = segments + length;
    std::size_t at = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t rows = (*parts[i])[0].dim(0);
      for (std::int64_t k = 0; k < rows; ++k, ++at) {
        segments[at] = static_cast<std::int32_t>(i + 1);
        positions[at] = static_cast<std::int32_t>(k);
      }
    }
    std::fill(segments + at, segments + length, 0);
    std::fill(positions + at, positions + length, 0);
    const Shape shape{options_.length};
    segment = Tensor(DType::i32, shape, reinterpret_cast<std::byte*>(segments), buffer);
    position = Tensor(DType::i32, shape, reinterpret_cast<std::byte*>(positions), buffer);
  }

  const PackOptions options_;  // a copy: items outlive the node of a nested dataset
  const Names* names_;
};

Spec packed(const Spec& input, const PackOptions& options) {
  std::vector<ComponentSpec> components(input.begin(), input.end());
  for (ComponentSpec& component : components) {
    component.shape = component.shape.with(0, options.length);
  }
  components.push_back({options.segment, DType::i32, {options.length}});
  components.push_back({options.position, DType::i32, {options.length}});
  return Spec(std::move(components));
}

/// Returns the extent that all components have in common.
std::int64_t sequence_length(const Element& element) {
  for (std::size_t i = 0; i < element.size(); ++i) {
    if (element[i].rank() > 0 && element[i].dim(0) == element[0].dim(0)) continue;
    throw Error(ErrorCode::mismatch, "component " + element.name(i) + " of shape " +
                                         element[i].shape().to_string() + " is not as long as " +
                                         element.name(0) + " of shape " +
                                         element[0].shape().to_string());
  }
  return element[0].dim(0);
}

class PackNode final : public Node {
 public:
  PackNode(const NodePtr& source, PackOptions options)
      : Node({source}, packed(source->spec(), options), source->cardinality() == 0 ? 0 : kUnknown),
        options_(std::move(options)),
        length_(make_key_op(sequence_length, "pack")),
        op_(std::make_shared<PackOp>(spec(), options_)) {}

  std::string name() const override { return "pack"; }
  Resume find_resume() const override { return Resume::work; }
  void describe(Description& description) const override {
    description.add("length", options_.length);
    description.add("open", options_.open);
    for (const double value : options_.values) description.add("value", value);
  }
  // The rows are not divisible: a sequence must not be cut.
  std::optional<BatchRows> find_batch_rows() const override {
    return BatchRows{.full = options_.length,
                     .most = options_.length,
                     .fewer = BatchRows::Fewer::none,
                     .divisible = false};
  }
  Execution execution() const override { return Execution::held; }
  Pending find_pending() const override { return Pending::fallible; }
  bool wants_values(std::size_t) const override { return true; }  // with their keys
  std::unique_ptr<Program> first_program(RunServices& run) const override {
    return std::make_unique<Program>(op_, run.counters(*this), run.stage_name(*this));
  }
  std::optional<Program::Step> step(RunServices& run) const override {
    return key_step(*this, run, length_, false);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<GroupingIterator>(*this, context, std::make_unique<FirstFit>(options_),
                                              own_first_program(context, *this));
  }

 private:
  PackOptions options_;
  WorkOpPtr length_;
  std::shared_ptr<const PackOp> op_;
};

}  // namespace

NodePtr make_pack(NodePtr input, PackOptions options) {
  constexpr const char* kStage = "pack";
  constexpr std::int64_t kLongest = INT32_MAX;
  if (options.length <= 0 || options.length > kLongest) {
    bad_stage(kStage, "length must be in [1, " + std::to_string(kLongest) + "], not " +
                          std::to_string(options.length));
  }
  if (options.open <= 0) {
    bad_stage(kStage, "open must be positive, not " + std::to_string(options.open));
  }
  const Spec& spec = input->spec();
  if (spec.size() == 0) bad_stage(kStage, "the elements have no components");
  if (options.values.empty()) options.values.assign(spec.size(), 0.0);
  if (options.values.size() != spec.size()) {
    bad_stage(kStage, std::to_string(options.values.size()) + " values for the components of " +
                          spec.to_string());
  }
  for (std::size_t i = 0; i < spec.size(); ++i) {
    const ComponentSpec& component = spec[i];
    if (component.shape.rank() < 1 || component.dtype == DType::bytes) {
      bad_stage(kStage, "component " + component.name + " of " +
                            std::string(name_of(component.dtype)) + " " +
                            component.shape.to_string() + " is not a sequence of numbers");
    }
    if (!can_hold(component.dtype, options.values[i])) {
      bad_stage(kStage, "component " + component.name + " of " +
                            std::string(name_of(component.dtype)) + " can't be padded with " +
                            std::to_string(options.values[i]));
    }
  }
  return std::make_shared<PackNode>(input, std::move(options));
}

}  // namespace penstock
