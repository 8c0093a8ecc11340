// A linear model and a network whose logits are added. Source: Cheng et al., "Wide & Deep Learning
// for Recommender Systems", 2016.
#include <cmath>
#include <memory>
#include <optional>
#include <span>

#include <penstock/error.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/softmax_loss.h>
#include <penstock/towers/model.h>

#include <penstock/towers/columns/column_model.h>
#include <penstock/towers/columns/input_layer.h>
#include "towers/evaluate/class_shares.h"
#include "towers/layers/sigmoid_loss.h"
#include "towers/models/built_in.h"

namespace penstock::towers {
namespace {

class WideDeep final : public Model {
 public:
  WideDeep(const Scope& scope, const ColumnModel& columns)
      : units_(columns.classes == 2 ? 1 : columns.classes) {
    if (const auto wide = columns.part("wide"); !wide.empty()) {
      Tables tables(scope / "linear_model");
      wide_.emplace(tables, wide, units_);
    }
    const auto deep = columns.part("deep");
    if (deep.empty()) return;
    Tables tables(scope / "input_layer");
    deep_.emplace(tables, deep);
    const std::int64_t in = add_hidden(layers_, scope / "dnn", deep_->width(), columns.hidden);
    layers_.add(dense(scope / "dnn" / "logits",
                      {.in = in, .out = units_, .initializer = Initializer::glorot(in, units_)}));
  }

  Loss forward(const Batch& batch, const Pass& pass) override {
    const Array* wide = wide_ ? &wide_->forward(batch) : nullptr;
    const Array* deep = deep_ ? &layers_.forward(deep_->forward(batch), pass) : nullptr;
    last_ = wide == nullptr ? deep : deep == nullptr ? wide : &sum(*wide, *deep);
    const std::span<const std::int64_t> labels = batch.i64("label");
    if (units_ == 1) return loss_of(sigmoid_.forward(*last_, labels, pass, batch.weights()), batch);
    return loss_of(softmax_.forward(*last_, labels, pass, batch.weights()), batch);
  }

  Array scores(const Pass& /*pass*/) override {
    if (units_ > 1) return shares_of(*last_);
    Array both({last_->dim(0), 2});
    for (std::size_t row = 0; row < last_->size(); ++row) {
      const double share = 1 / (1 + std::exp(-static_cast<double>(last_->data()[row])));
      both.data()[2 * row] = static_cast<float>(1 - share);
      both.data()[2 * row + 1] = static_cast<float>(share);
    }
    return both;
  }

  void backward(const Pass& pass) override {
    const Array& gradient = units_ == 1 ? sigmoid_.backward() : softmax_.backward();
    if (deep_) deep_->backward(layers_.backward(gradient, pass));
    if (wide_) wide_->backward(gradient);
  }

 private:
  template <typename Result>
  static Loss loss_of(const Result& result, const Batch& batch) {
    return {result.loss_sum, 0, result.correct, batch.valid_rows()};
  }

  const Array& sum(const Array& wide, const Array& deep) {
    logits_.resize(wide.shape());
    for (std::size_t i = 0; i < wide.size(); ++i)
      logits_.data()[i] = wide.data()[i] + deep.data()[i];
    return logits_;
  }

  const std::int64_t units_;
  std::optional<LinearModel> wide_;
  std::optional<InputLayer> deep_;
  Sequential layers_;
  Array logits_;
  const Array* last_ = nullptr;  // logits of the last batch
  SigmoidLoss sigmoid_;
  SoftmaxLoss softmax_;
};

void check_wide_deep(const ColumnModel& columns) {
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw Error(ErrorCode::invalid_argument, "wide_deep " + what);
  };
  columns.check_parts("wide_deep", {"wide", "deep"});
  require(!columns.columns().empty(), "takes columns as wide, as deep or as both; there are none");
  require(columns.label.has_value(), "needs a label");
  require(columns.classes >= 2, "tells at least 2 classes apart");
  const std::size_t named = columns.label->classes.size();
  require(named == 0 || static_cast<std::int64_t>(named) == columns.classes,
          "tells " + std::to_string(columns.classes) + " classes apart; the label names " +
              std::to_string(named));
}

}  // namespace

// Returns a kind without columns, which becomes a model once it is given some.
ModelKind wide_deep_kind() {
  ModelKind kind{.name = "wide_deep",
                 .help = "a linear model and a network side by side, over feature columns",
                 .make = {},
                 .input = {},
                 .optimizer = "adam",
                 .schedule = "constant:0.001"};
  kind.over = [kind](const ColumnModel& columns) {
    check_wide_deep(columns);
    ModelKind made = kind;
    made.make = [columns](const Scope& scope) -> ModelPtr {
      return std::make_unique<WideDeep>(scope, columns);
    };
    made.input = [columns](const Dataset& features, bool /*training*/) {
      Label label = *columns.label;
      label.count = columns.classes;
      return transform_columns(features, columns.columns(), label);
    };
    return made;
  };
  return kind;
}

}  // namespace penstock::towers
