#include "pipeline/stages/ragged_batch.h"

#include <algorithm>

#include <penstock/work.h>

#include "pipeline/stage/support.h"
#include "pipeline/stages/batch.h"
#include "pipeline/stages/map.h"
#include "pipeline/stages/packed_rows.h"

namespace penstock {
namespace {

constexpr const char* kRaggedStage = "ragged_batch";

Spec ragged(const Spec& input, std::int64_t rows) {
  std::vector<ComponentSpec> components;
  for (const ComponentSpec& component : input) {
    if (!component.shape.has_rank()) {
      bad_stage(kRaggedStage, "component " + component.name + " has unknown rank");
    }
    const bool varies = PackedRows::varies(component);
    if (!(varies ? component.shape.drop_front() : component.shape).is_static()) {
      bad_stage(kRaggedStage, "component " + component.name + " of shape " +
                                  component.shape.to_string() +
                                  " may vary in its outermost dimension only");
    }
    components.push_back(component);
    if (!varies) {
      components.back().shape = component.shape.prepend(rows);
      continue;
    }
    const Shape splits{rows < 0 ? Shape::kUnknown : rows + 1};
    components.push_back({component.name + ".row_splits", DType::i64, splits});
  }
  return Spec(std::move(components));
}

/// Packs components of any length into one byte string, so that batches of the elements fit slots.
class PackRowsOp final : public WorkOp {
 public:
  explicit PackRowsOp(const Spec& input) : rows_(input) {}

  std::string name() const override { return "pack_rows"; }
  void describe(Description& /*description*/) const override {}
  Spec infer(const Spec& /*input*/) const override { return rows_.packed(); }
  std::size_t preferred_group() const override { return 64; }

  void run(std::span<WorkItem> items, WorkContext& context) const override {
    std::size_t bytes = 0;
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      const std::string problem = rows_.elements().mismatch(item.element);
      if (problem.empty()) {
        bytes += rows_.bytes_of(item.element);
      } else {
        item.status = Status(ErrorCode::mismatch, problem);
      }
    }
    if (bytes == 0) return;
    // One buffer that the rows share, because a buffer for each row would cost as much as this one.
    const BufferPtr buffer = context.allocate(bytes);
    std::byte* to = buffer->data();
    Element in;
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      std::swap(in, item.element);  // its memory serves the next element
      to = rows_.pack(in, item.element, to, buffer);
    }
  }

 private:
  const PackedRows rows_;
};

/// Turns batches of such elements into ragged batches.
class UnpackRowsOp final : public WorkOp {
 public:
  UnpackRowsOp(const Spec& elements, bool whole)
      : rows_(elements, whole), names_(ragged(elements, Shape::kUnknown).names()) {}

  std::string name() const override { return kRaggedStage; }
  void describe(Description& /*description*/) const override {}
  Spec infer(const Spec& /*input*/) const override {
    return ragged(rows_.elements(), Shape::kUnknown);
  }
  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      const Element in = std::move(item.element);
      rows_.unpack(in, names_, item.element, context);
    }
  }

 private:
  const PackedRows rows_;
  const Names* names_;
};

/// The stage behind batches of packed rows.
class RaggedBatchNode final : public Node {
 public:
  RaggedBatchNode(NodePtr batches, const Spec& elements, bool whole)
      : Node({batches},
             ragged(elements, batches->batch_rows()->fewer == BatchRows::Fewer::none
                                  ? batches->batch_rows()->full
                                  : Shape::kUnknown),
             batches->cardinality()),
        elements_(elements),
        whole_(whole),
        op_(std::make_shared<UnpackRowsOp>(elements, whole)) {}

  std::string name() const override { return kRaggedStage; }
  void describe(Description& /*description*/) const override {}
  Relation relation() const override { return Relation::each; }
  std::optional<BatchRows> find_batch_rows() const override {
    std::optional<BatchRows> rows = input().batch_rows();
    if (rows) rows->divisible = false;
    return rows;
  }
  NodePtr over(NodePtr batches) const override {
    return std::make_shared<RaggedBatchNode>(std::move(batches), elements_, whole_);
  }
  Execution execution() const override { return Execution::fused; }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return inputs[0];
  }
  Pending find_pending() const override { return Pending::fallible; }
  std::optional<Program::Step> step(RunServices& run) const override {
    return Program::Step{
        op_, 0, run.counters(*this), run.stage_name(*this), fixed_payload_bytes(spec()), spec()};
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return extend(input().open(context), context, *this);
  }

 private:
  const Spec elements_;
  const bool whole_;
  const WorkOpPtr op_;
};

}  // namespace

NodePtr make_ragged_batch(NodePtr input, std::int64_t size, BatchOptions options) {
  if (size <= 0) bad_stage(kRaggedStage, "size must be positive, not " + std::to_string(size));
  const Spec elements = input->spec();
  static_cast<void>(ragged(elements, size));  // throws if such batches are impossible
  if (std::ranges::none_of(elements, PackedRows::varies))
    return make_batch(std::move(input), size, options);
  NodePtr packed = input->packing();
  const bool whole = packed != nullptr;
  if (!whole) packed = make_map(std::move(input), std::make_shared<PackRowsOp>(elements), true);
  return std::make_shared<RaggedBatchNode>(make_batch(std::move(packed), size, options), elements,
                                           whole);
}

}  // namespace penstock
