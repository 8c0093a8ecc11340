#include "pipeline/stages/mix.h"

#include <algorithm>
#include <array>

#include "pipeline/stage/batch_rows.h"
#include "pipeline/stage/cardinality.h"
#include "pipeline/stage/support.h"
#include "pipeline/stages/mix_weights.h"

namespace penstock {
namespace {

/// The inputs of a mix, each open or exhausted.
class Inputs {
 public:
  explicit Inputs(std::vector<OrderIteratorPtr> inputs)
      : inputs_(std::move(inputs)), ended_(inputs_.size()) {}

  bool pull(std::size_t i, ElementRef& out) {
    if (!ended_[i]) ended_[i] = inputs_[i]->pull({&out, 1}) == 0;
    return !ended_[i];
  }
  bool ended(std::size_t i) const { return ended_[i]; }
  bool all_ended() const { return std::find(ended_.begin(), ended_.end(), false) == ended_.end(); }
  std::size_t size() const noexcept { return inputs_.size(); }
  void save(StateWriter& state) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      state.put(ended_[i] ? 1 : 0);
      inputs_[i]->save(state);
    }
  }
  void restore(StateReader& state) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      ended_[i] = state.get() != 0;
      inputs_[i]->restore(state);
    }
  }

 private:
  std::vector<OrderIteratorPtr> inputs_;
  std::vector<bool> ended_;
};

class SampleIterator final : public OrderIterator {
 public:
  SampleIterator(std::vector<OrderIteratorPtr> inputs, MixWeights::Record& weights,
                 bool stop_on_empty, std::uint64_t epoch, std::uint64_t key, std::uint64_t path,
                 std::uint32_t op)
      : inputs_(std::move(inputs)),
        record_(weights),
        stop_on_empty_(stop_on_empty),
        epoch_(epoch),
        key_(key),
        path_(path),
        op_(op) {}

  std::size_t pull(std::span<ElementRef> out) override {
    for (;;) {
      if (stopped_) return 0;
      weights_ = record_.at(epoch_, draws_);
      double total = 0;
      for (std::size_t i = 0; i < weights_->size(); ++i) total += weight(i);
      stopped_ = total <= 0;
      if (stopped_) return 0;
      const std::size_t drawn = draw(total);
      if (inputs_.pull(drawn, out[0])) return 1;
      if (stop_on_empty_) {
        stopped_ = true;
        return 0;
      }
    }
  }
  void save(StateWriter& state) const override {
    state.put(draws_);
    state.put(stopped_ ? 1 : 0);
    inputs_.save(state);
  }
  void restore(StateReader& state) override {
    draws_ = state.get();
    record_.reached(epoch_, draws_);
    stopped_ = state.get() != 0;
    inputs_.restore(state);
  }

 private:
  double weight(std::size_t i) const {
    return inputs_.ended(i) && !stop_on_empty_ ? 0 : (*weights_)[i];
  }
  std::size_t draw(double total) {
    double point = Rng(key_, mix_path(path_, draws_++), op_).uniform() * total;
    std::size_t last = 0;
    for (std::size_t i = 0; i < weights_->size(); ++i) {
      if (weight(i) <= 0) continue;
      last = i;
      if (point < weight(i)) break;
      point -= weight(i);
    }
    return last;
  }

  Inputs inputs_;
  MixWeights::Record& record_;
  std::shared_ptr<const std::vector<double>> weights_;  // of the present draw
  bool stop_on_empty_;
  std::uint64_t epoch_, key_, path_;
  std::uint32_t op_;
  std::uint64_t draws_ = 0;
  bool stopped_ = false;
};

class ChooseIterator final : public OrderIterator {
 public:
  ChooseIterator(std::vector<OrderIteratorPtr> inputs, OrderIteratorPtr choices, bool stop_on_empty,
                 std::string stage)
      : inputs_(std::move(inputs)),
        choices_(std::move(choices)),
        stop_on_empty_(stop_on_empty),
        stage_(std::move(stage)) {}

  std::size_t pull(std::span<ElementRef> out) override {
    while (!stopped_) {
      ElementRef choice;
      if (choices_->pull({&choice, 1}) == 0) break;
      if (is_error(choice)) {
        out[0] = std::move(choice);
        return 1;
      }
      const auto index = choice.payload->element[0].item<std::int64_t>();
      if (index < 0 || index >= static_cast<std::int64_t>(inputs_.size())) {
        Status status(ErrorCode::mismatch, "choice " + std::to_string(index) +
                                               " is out of range for " +
                                               std::to_string(inputs_.size()) + " inputs");
        out[0] = ref_to(Payload::make(locate(std::move(status), {}, stage_)), choice.ordinal);
        return 1;
      }
      if (inputs_.pull(static_cast<std::size_t>(index), out[0])) return 1;
      stopped_ = stop_on_empty_ || inputs_.all_ended();
    }
    return 0;
  }
  void save(StateWriter& state) const override {
    state.put(stopped_ ? 1 : 0);
    choices_->save(state);
    inputs_.save(state);
  }
  void restore(StateReader& state) override {
    stopped_ = state.get() != 0;
    choices_->restore(state);
    inputs_.restore(state);
  }

 private:
  Inputs inputs_;
  OrderIteratorPtr choices_;
  bool stop_on_empty_;
  std::string stage_;
  bool stopped_ = false;
};

Spec relaxed(const std::vector<NodePtr>& inputs, std::string_view stage) {
  if (inputs.empty()) bad_stage(stage, "no inputs were given");
  Spec spec = inputs[0]->spec();
  for (const NodePtr& input : inputs) spec = Spec::relax(spec, input->spec(), stage);
  return spec;
}

class MixNode : public Node {
 public:
  MixNode(std::vector<NodePtr> all, std::size_t mixed, Spec spec, std::int64_t cardinality)
      : Node(std::move(all), std::move(spec), cardinality), mixed_(mixed) {}
  std::optional<BatchRows> find_batch_rows() const override {
    return rows_of_any(inputs(), mixed_);
  }
  Pending find_pending() const override {
    Pending worst = Pending::none;
    for (std::size_t i = 0; i < mixed_; ++i) worst = std::max(worst, input(i).pending());
    return worst;
  }

 protected:
  std::vector<OrderIteratorPtr> open_inputs(const OpenContext& context) const {
    std::vector<OrderIteratorPtr> opened;
    for (std::size_t i = 0; i < mixed_; ++i) opened.push_back(input(i).open(context.branch(i)));
    return opened;
  }
  std::size_t mixed_;
};

class SampleNode final : public MixNode {
 public:
  SampleNode(const std::vector<NodePtr>& inputs, const MixWeights& weights, bool fixed,
             MixOptions options)
      : MixNode(inputs, inputs.size(), relaxed(inputs, "sample_from"),
                fixed ? mixed_cardinality(inputs, weights.changes().front().weights, options)
                      : kUnknown),
        weights_(weights),
        initial_(weights.changes().front().weights),
        options_(options) {}

  std::string name() const override { return "sample_from"; }
  // Weights that are set later are not part of the graph.
  void describe(Description& description) const override {
    for (const double weight : initial_) description.add("weight", weight);
    if (options_.seed) description.add("seed", *options_.seed);
    description.add("stop_on_empty", options_.stop_on_empty);
  }
  bool random() const override { return true; }
  void save_record(std::uint64_t epoch, bool exact, StateWriter& record,
                   StateWriter& reached) const override {
    weights_.record()->save(epoch, exact, record, reached);
  }
  void restore_record(StateReader& record, StateReader& reached) const override {
    weights_.record()->restore(record, reached);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<SampleIterator>(
        open_inputs(context), *weights_.record(), options_.stop_on_empty, context.epoch,
        epoch_key(options_.seed.value_or(context.run.seed()), context.epoch), context.path,
        context.run.rng_op(*this));
  }

 private:
  static std::int64_t mixed_cardinality(const std::vector<NodePtr>& inputs,
                                        const std::vector<double>& weights, MixOptions options) {
    std::int64_t total = 0;
    bool ends = false;
    for (std::size_t i = 0; i < inputs.size() && i < weights.size(); ++i) {
      if (weights[i] <= 0) continue;
      total = add_cardinality(total, inputs[i]->cardinality());
      ends = ends || inputs[i]->cardinality() != kInfinite;
    }
    return options.stop_on_empty && ends && total != 0 ? kUnknown : total;
  }

  MixWeights weights_;
  std::vector<double> initial_;
  MixOptions options_;
};

class ChooseNode final : public MixNode {
 public:
  ChooseNode(std::vector<NodePtr> all, Spec spec, bool stop_on_empty)
      : MixNode(all, all.size() - 1, std::move(spec), kUnknown), stop_on_empty_(stop_on_empty) {}

  std::string name() const override { return "choose_from"; }
  void describe(Description& description) const override {
    description.add("stop_on_empty", stop_on_empty_);
  }
  Pending find_pending() const override {
    return std::max(MixNode::find_pending(), Pending::infallible);
  }
  bool wants_values(std::size_t which) const override {
    return which == mixed_ && input(which).pending() == Pending::fallible;
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    const OpenContext branch = context.branch(mixed_);
    OrderIteratorPtr choices = input(mixed_).open(branch);
    if (input(mixed_).pending() != Pending::none) {
      OpenContext where = branch;
      where.nested = branch.nested || input(mixed_).pending() == Pending::infallible;
      choices = context.run.values(*this, std::move(choices), where);
    }
    return std::make_unique<ChooseIterator>(open_inputs(context), std::move(choices),
                                            stop_on_empty_, context.run.stage_name(*this));
  }

 private:
  bool stop_on_empty_;
};

}  // namespace

NodePtr make_sample_from(std::vector<NodePtr> inputs, const MixWeights& weights, bool fixed,
                         MixOptions options) {
  const std::size_t count = weights.record()->inputs();
  if (count != inputs.size()) {
    bad_stage("sample_from",
              std::to_string(count) + " weights for " + std::to_string(inputs.size()) + " inputs");
  }
  return std::make_shared<SampleNode>(inputs, weights, fixed, options);
}

NodePtr make_choose_from(std::vector<NodePtr> inputs, NodePtr choices, bool stop_on_empty) {
  Spec spec = relaxed(inputs, "choose_from");
  const Spec& choice = choices->spec();
  if (choice.size() != 1 || choice[0].dtype != DType::i64 || choice[0].shape != Shape()) {
    bad_stage("choose_from", "choices must be one i64 scalar, not " + choice.to_string());
  }
  inputs.push_back(std::move(choices));
  return std::make_shared<ChooseNode>(std::move(inputs), std::move(spec), stop_on_empty);
}

}  // namespace penstock
