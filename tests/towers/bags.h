// A model with a table of which each step reads only a few rows, and data to train it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/rng.h>
#include <penstock/sources.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/embedding_bag.h>
#include <penstock/towers/layers/softmax_loss.h>
#include <penstock/towers/trainer.h>

namespace penstock::towers::test {

constexpr std::int64_t kMostIds = 4;

/// Returns {first, second: i64 [kMostIds], label}. The ids are rows of a table of `rows`. There are
/// 3 classes, and the first id of each list tells the class.
inline Dataset bags(std::int64_t count, std::int64_t rows) {
  std::vector<std::int64_t> first, second, labels;
  Rng rng(7, 0, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<std::int64_t>(rng.below(3)));
    for (std::vector<std::int64_t>* ids : {&first, &second}) {
      const auto many = static_cast<std::int64_t>(rng.below(kMostIds + 1));
      for (std::int64_t j = 0; j < kMostIds; ++j) {
        const auto drawn = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(rows)));
        ids->push_back(j < many ? drawn / 3 * 3 % (rows - 2) + labels.back() : -1);
      }
    }
  }
  return tensors({{"first", Tensor::of<std::int64_t>({count, kMostIds}, first)},
                  {"second", Tensor::of<std::int64_t>({count, kMostIds}, second)},
                  {"label", Tensor::of<std::int64_t>({count}, labels)}});
}

/// Two bags of one table, one of them followed by a dense layer. Each has its own loss.
class Bags final : public Model {
 public:
  Bags(const Scope& scope, std::int64_t rows)
      : first_(scope, rows, 3, Initializer::normal(0.5F)),
        second_(scope.reuse(), rows, 3, Initializer::normal(0.5F)),
        head_(dense(scope / "head", {.in = 3, .out = 3, .initializer = Initializer::he(3)})) {}

  Loss forward(const Batch& batch, const Pass& pass) override {
    const auto labels = batch.i64("label");
    const Array& logits = head_->forward(first_.forward(batch.i64("first"), batch.rows()), pass);
    const SoftmaxLoss::Result first = first_loss_.forward(logits, labels, pass);
    const SoftmaxLoss::Result second =
        second_loss_.forward(second_.forward(batch.i64("second"), batch.rows()), labels, pass);
    return {first.loss_sum + second.loss_sum, 0, first.correct, batch.valid_rows()};
  }
  void backward(const Pass& pass) override {
    first_.backward(head_->backward(first_loss_.backward(), pass));
    second_.backward(second_loss_.backward());
  }

 private:
  EmbeddingBag first_, second_;
  LayerPtr head_;
  SoftmaxLoss first_loss_, second_loss_;
};

inline ModelMaker bags_maker(std::int64_t rows) {
  return [rows](const Scope& scope) -> ModelPtr { return std::make_unique<Bags>(scope, rows); };
}

}  // namespace penstock::towers::test
