#include "pipeline/stages/resample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "pipeline/stage/support.h"
#include "pipeline/stages/values.h"

namespace penstock {
namespace {

constexpr const char* kResampleStage = "rejection_resample";

class ResampleIterator final : public OrderIterator {
 public:
  ResampleIterator(OrderIteratorPtr input, const std::vector<double>& target,
                   const std::vector<double>& initial, const Names* names, std::uint64_t key,
                   std::uint32_t op, std::string stage)
      : input_(std::move(input)),
        target_(target),
        initial_(initial),
        names_(names),
        key_(key),
        op_(op),
        stage_(std::move(stage)),
        seen_(target.size()) {}

  std::size_t pull(std::span<ElementRef> out) override {
    for (;;) {
      const std::size_t pulled = input_->pull(out);
      if (pulled == 0) return 0;
      const std::size_t kept = keep_items(
          out.first(pulled), [this](ElementRef& item) { return is_error(item) || keep(item); });
      if (kept > 0) return kept;
    }
  }
  void save(StateWriter& state) const override {
    for (const std::uint64_t count : seen_) state.put(count);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    for (std::uint64_t& count : seen_) count = state.get();
    input_->restore(state);
  }

 private:
  bool keep(ElementRef& item) {
    const std::int64_t label = item.payload->key;
    if (label < 0 || label >= static_cast<std::int64_t>(target_.size())) {
      item = error_at(
          item,
          Status(ErrorCode::mismatch, "class " + std::to_string(label) + " is out of range for " +
                                          std::to_string(target_.size()) + " classes"),
          stage_);
      return true;
    }
    ++seen_[static_cast<std::size_t>(label)];
    Rng rng(key_, item.ordinal, op_);
    if (!rng.coin(acceptance(static_cast<std::size_t>(label)))) return false;
    add_class(item, label);
    return true;
  }

  double ratio(std::size_t i) const {
    const double share = initial_.empty() ? static_cast<double>(seen_[i]) : initial_[i];
    return share > 0 ? target_[i] / share : 0;
  }
  double acceptance(std::size_t label) const {
    double most = 0;
    for (std::size_t i = 0; i < target_.size(); ++i) most = std::max(most, ratio(i));
    constexpr double kRounding = 1e-9;
    if (most <= 0) return 0;
    return ratio(label) >= most * (1 - kRounding) ? 1 : ratio(label) / most;
  }

  void add_class(ElementRef& item, std::int64_t label) const {
    const Payload& from = *item.payload;
    Ref<Payload> payload = Payload::make();
    payload->element.reset(names_);
    payload->element[0] = Tensor::scalar(label);
    for (std::size_t i = 0; i < from.element.size(); ++i) {
      payload->element[i + 1] = from.element[i];
    }
    payload->origin = from.origin;
    payload->index = from.index;
    payload->shard = from.shard;
    payload->offset = from.offset;
    item.payload = std::move(payload);
  }

  OrderIteratorPtr input_;
  const std::vector<double>& target_;
  const std::vector<double>& initial_;
  const Names* names_;
  std::uint64_t key_;
  std::uint32_t op_;
  std::string stage_;
  std::vector<std::uint64_t> seen_;  // elements of each class
};

Spec with_class(const Spec& input, const std::string& component) {
  if (input.find(component) >= 0) {
    bad_stage(kResampleStage, "there is a component " + component + " already; give another name");
  }
  std::vector<ComponentSpec> components{{component, DType::i64, Shape()}};
  components.insert(components.end(), input.begin(), input.end());
  return Spec(std::move(components));
}

class ResampleNode final : public Node {
 public:
  ResampleNode(const NodePtr& source, WorkOpPtr class_of, std::vector<double> target,
               ResampleOptions options)
      : Node({source}, with_class(source->spec(), options.component),
             source->cardinality() == 0 ? 0 : kUnknown),
        class_of_(std::move(class_of)),
        target_(std::move(target)),
        options_(std::move(options)) {
    std::vector<std::string> names;
    for (const ComponentSpec& component : spec()) names.push_back(component.name);
    names_ = Names::intern(names);
  }

  std::string name() const override { return kResampleStage; }
  bool deterministic() const override { return false; }
  void describe(Description& description) const override {
    description.add("op", class_of_->name());
    for (const double share : target_) description.add("target", share);
    for (const double share : options_.initial) description.add("initial", share);
    if (options_.seed) description.add("seed", *options_.seed);
  }
  bool random() const override { return true; }
  Pending find_pending() const override { return Pending::none; }
  bool wants_values(std::size_t) const override { return true; }  // including their keys
  std::optional<Program::Step> step(RunServices& run) const override {
    return key_step(*this, run, class_of_, true);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    const std::uint64_t seed = options_.seed.value_or(context.run.seed());
    return std::make_unique<ResampleIterator>(
        open_keyed(*this, context), target_, options_.initial, names_,
        epoch_key(seed, context.epoch), context.run.rng_op(*this), context.run.stage_name(*this));
  }

 private:
  WorkOpPtr class_of_;
  std::vector<double> target_;
  ResampleOptions options_;
  const Names* names_;
};

/// Returns the shares scaled to a sum of 1.
std::vector<double> normalized(std::vector<double> shares, const char* what) {
  double total = 0;
  for (const double share : shares) {
    if (!std::isfinite(share) || share < 0) {
      bad_stage(kResampleStage, std::string("a share of ") + what +
                                    " must be a number of at least 0, not " +
                                    std::to_string(share));
    }
    total += share;
  }
  if (!(total > 0) || !std::isfinite(total)) {
    bad_stage(kResampleStage, std::string("the shares of ") + what + " must have a sum above 0");
  }
  for (double& share : shares) share /= total;
  return shares;
}

}  // namespace

NodePtr make_rejection_resample(NodePtr input, KeyFn class_of, std::vector<double> target,
                                ResampleOptions options) {
  target = normalized(std::move(target), "target");
  if (!options.initial.empty()) {
    if (options.initial.size() != target.size()) {
      bad_stage(kResampleStage, std::to_string(options.initial.size()) + " initial shares for " +
                                    std::to_string(target.size()) + " classes");
    }
    options.initial = normalized(std::move(options.initial), "initial");
    for (std::size_t i = 0; i < target.size(); ++i) {
      if (target[i] > 0 && options.initial[i] == 0) {
        bad_stage(kResampleStage, "class " + std::to_string(i) + " has a target and never occurs");
      }
    }
  }
  WorkOpPtr op = make_key_op(std::move(class_of), options.name);
  return std::make_shared<ResampleNode>(input, std::move(op), std::move(target),
                                        std::move(options));
}

}  // namespace penstock
