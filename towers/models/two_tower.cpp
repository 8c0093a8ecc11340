// Retrieval: a query and an item each become a vector. A query must be closer to its own item than
// to the other items of the batch. Source: Yi et al., "Sampling-Bias-Corrected Neural Modeling for
// Large Corpus Item Recommendations", 2019; the loss is that of Henderson et al., 2017.
#include <algorithm>
#include <memory>
#include <vector>

#include <penstock/error.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/similarity.h>
#include <penstock/towers/model.h>

#include <penstock/towers/columns/column_model.h>
#include <penstock/towers/columns/input_layer.h>
#include "towers/models/built_in.h"

namespace penstock::towers {
namespace {

struct ColumnTower {
  ColumnTower(Tables& tables, const Scope& scope, const ColumnModel& columns, const char* part)
      : input(tables, columns.part(part)) {
    const std::int64_t in = add_hidden(layers, scope, input.width(), columns.hidden);
    layers.add(
        dense(scope / "vector", {.in = in,
                                 .out = columns.dimension,
                                 .initializer = Initializer::glorot(in, columns.dimension)}));
  }
  const Array& forward(const Batch& batch, const Pass& pass) {
    return layers.forward(input.forward(batch), pass);
  }
  void backward(const Array& gradient, const Pass& pass) {
    input.backward(layers.backward(gradient, pass));
  }

  InputLayer input;
  Sequential layers{};
};

class TwoTower final : public Model {
 public:
  TwoTower(const Scope& scope, const ColumnModel& columns)
      : tables_(scope / "input_layer"),
        query_(tables_, scope / "query", columns, "query"),
        item_(tables_, scope / "item", columns, "item"),
        loss_(columns.scale) {}

  Loss forward(const Batch& batch, const Pass& pass) override {
    query_vectors_ = &query_.forward(batch, pass);
    item_vectors_ = &item_.forward(batch, pass);
    const auto result = loss_.forward(*query_vectors_, *item_vectors_, pass);
    return {result.loss_sum, 0, result.correct, batch.valid_rows()};
  }
  /// Returns the scores of each row's query and its own item.
  Array scores(const Pass& /*pass*/) override {
    const std::vector<float> found = cosines(*query_vectors_, *item_vectors_);
    Array column({static_cast<std::int64_t>(found.size()), 1});
    std::ranges::copy(found, column.data());
    return column;
  }
  void backward(const Pass& pass) override {
    item_.backward(loss_.positive_gradient(), pass);
    query_.backward(loss_.query_gradient(), pass);
  }

 private:
  Tables tables_;  // both may share some
  ColumnTower query_, item_;
  const Array* query_vectors_ = nullptr;  // of the last batch
  const Array* item_vectors_ = nullptr;
  InBatchNegativesLoss loss_;
};

void check_two_tower(const ColumnModel& columns) {
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw Error(ErrorCode::invalid_argument, "two_tower " + what);
  };
  columns.check_parts("two_tower", {"query", "item"});
  require(!columns.part("query").empty(), "needs columns of a query");
  require(!columns.part("item").empty(), "needs columns of an item");
  require(columns.dimension > 0, "needs a dimension of at least 1");
  require(columns.scale > 0, "needs a scale above 0");
}

}  // namespace

// Returns a kind without columns, which becomes a model once it is given some.
ModelKind two_tower_kind() {
  ModelKind kind{.name = "two_tower",
                 .help = "retrieval: a query and its item, over feature columns",
                 .make = {},
                 .input = {},
                 .optimizer = "adam",
                 .schedule = "constant:0.001",
                 .outputs = {"cosine"}};
  kind.over = [kind](const ColumnModel& columns) {
    check_two_tower(columns);
    ModelKind made = kind;
    made.make = [columns](const Scope& scope) -> ModelPtr {
      return std::make_unique<TwoTower>(scope, columns);
    };
    made.input = [columns](const Dataset& features, bool /*training*/) {
      if (features.spec().find(kWeight) >= 0)
        throw Error(ErrorCode::invalid_argument,
                    "two_tower: rows have no weights: each is also a "
                    "negative of the others");
      return transform_columns(features, columns.columns());
    };
    return made;
  };
  return kind;
}

}  // namespace penstock::towers
