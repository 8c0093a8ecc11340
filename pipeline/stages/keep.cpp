#include "pipeline/stages/keep.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pipeline/stage/batch_rows.h"
#include "pipeline/stage/support.h"

namespace penstock {
namespace {

class KeepOp final : public WorkOp {
 public:
  KeepOp(std::string name, const Spec& output, std::vector<std::size_t> kept)
      : name_(std::move(name)), names_(output.names()), kept_(std::move(kept)) {}

  std::string name() const override { return name_; }
  void describe(Description&) const override {}  // the stage describes itself
  Spec infer(const Spec& input) const override {
    std::vector<ComponentSpec> components;
    for (const std::size_t i : kept_) components.push_back(input[i]);
    return Spec(std::move(components));
  }
  bool can_fail() const override { return false; }
  bool columnar() const override { return true; }

  void run(std::span<WorkItem> items, WorkContext&) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      try {
        Element kept(names_);
        for (std::size_t i = 0; i < kept_.size(); ++i) kept[i] = std::move(item.element[kept_[i]]);
        kept.valid_rows = item.element.valid_rows;
        item.element = std::move(kept);
      } catch (...) {  // no memory, for many components
        item.status = status_from_current_exception();
      }
    }
  }
  std::size_t run_columns(const Element& in, Element& out, WorkItem&,
                          const WorkContext&) const override {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const Tensor& from = in[kept_[i]];
      if (from.nbytes() > 0) std::memcpy(out[i].mutable_data(), from.data(), from.nbytes());
    }
    return static_cast<std::size_t>(in[0].dim(0));
  }

 private:
  std::string name_;
  const Names* names_;
  std::vector<std::size_t> kept_;
};

Spec part_of(const Spec& input, const std::vector<std::size_t>& kept) {
  std::vector<ComponentSpec> components;
  for (const std::size_t i : kept) components.push_back(input[i]);
  return Spec(std::move(components));
}

class KeepNode final : public Node {
 public:
  KeepNode(NodePtr source, std::string name, std::vector<std::string> given,
           std::vector<std::size_t> kept, Spec output)
      : Node({source}, std::move(output), source->cardinality()),
        name_(std::move(name)),
        given_(std::move(given)),
        kept_(std::move(kept)),
        op_(std::make_shared<KeepOp>(name_, spec(), kept_)) {}

  std::string name() const override { return name_; }
  void describe(Description& description) const override {
    std::string components;
    for (const std::string& component : given_)
      components += (components.empty() ? "" : ",") + component;
    description.add("components", components);
  }
  Relation relation() const override { return Relation::each; }
  std::optional<BatchRows> find_batch_rows() const override {
    return rows_through(input(), spec());
  }
  NodePtr over(NodePtr other) const override {
    Spec output = part_of(other->spec(), kept_);
    return std::make_shared<KeepNode>(std::move(other), name_, given_, kept_, std::move(output));
  }
  Execution execution() const override { return Execution::fused; }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return inputs[0];
  }
  Pending find_pending() const override {
    return input().pending() == Pending::fallible ? Pending::fallible : Pending::infallible;
  }
  std::optional<std::uint64_t> find_indexed_size() const override { return input().indexed_size(); }
  std::optional<Program::Step> step(RunServices& run) const override {
    Program::Step step{
        op_, 0, run.counters(*this), run.stage_name(*this), fixed_payload_bytes(spec()), spec()};
    step.places.assign(input().spec().size(), -1);
    for (std::size_t i = 0; i < kept_.size(); ++i) step.places[kept_[i]] = static_cast<int>(i);
    return step;
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return extend(input().open(context), context, *this);
  }

 private:
  std::string name_;
  std::vector<std::string> given_;
  std::vector<std::size_t> kept_;  // positions in the input
  WorkOpPtr op_;
};

/// Returns the positions of the components in `input`, in the given order.
std::vector<std::size_t> positions_of(const std::vector<std::string>& components, const Spec& input,
                                      const char* stage) {
  if (components.empty()) bad_stage(stage, "no component is named");
  std::vector<std::size_t> positions;
  for (const std::string& component : components) {
    const int position = input.find(component);
    if (position < 0) {
      bad_stage(stage,
                "there is no component '" + component + "'; the input is " + input.to_string());
    }
    if (std::ranges::find(positions, static_cast<std::size_t>(position)) != positions.end())
      bad_stage(stage, "component '" + component + "' is named twice");
    positions.push_back(static_cast<std::size_t>(position));
  }
  return positions;
}

NodePtr make_node(NodePtr input, std::string name, std::vector<std::string> given,
                  std::vector<std::size_t> kept) {
  Spec output = part_of(input->spec(), kept);
  return std::make_shared<KeepNode>(std::move(input), std::move(name), std::move(given),
                                    std::move(kept), std::move(output));
}

}  // namespace

NodePtr make_keep(NodePtr input, std::vector<std::string> components) {
  std::vector<std::size_t> kept = positions_of(components, input->spec(), "keep");
  return make_node(std::move(input), "keep", std::move(components), std::move(kept));
}

NodePtr make_drop(NodePtr input, std::vector<std::string> components) {
  const std::vector<std::size_t> dropped = positions_of(components, input->spec(), "drop");
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < input->spec().size(); ++i)
    if (std::ranges::find(dropped, i) == dropped.end()) kept.push_back(i);
  if (kept.empty()) bad_stage("drop", "no component is left of " + input->spec().to_string());
  return make_node(std::move(input), "drop", std::move(components), std::move(kept));
}

}  // namespace penstock
