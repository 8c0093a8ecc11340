// A network with three inputs: a query, a text that answers it, and one that does not. All use the
// same variables. The query's cosine to the first text must exceed that to the second by a margin.
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/embedding_bag.h>
#include <penstock/towers/layers/similarity.h>
#include <penstock/towers/model.h>
#include <penstock/towers/model_input.h>

#include "towers/gpu/gpu.h"
#include "towers/models/built_in.h"
#include "towers/text_words.h"

namespace penstock::towers {
namespace {

constexpr std::int64_t kBuckets = 1 << 14;
constexpr std::int64_t kWidth = 32;
constexpr std::int64_t kMostWords = 24;
constexpr std::array<const char*, 3> kTexts{"query", "positive", "negative"};

/// Encodes words as the mean of their rows, followed by a dense layer.
struct Encoder {
  explicit Encoder(const Scope& scope)
      : words(scope / "words", kBuckets, kWidth, Initializer::normal(1)),
        head(dense(scope / "head", {.in = kWidth,
                                    .out = kWidth,
                                    .bias = false,
                                    .initializer = Initializer::glorot(kWidth, kWidth)})) {}

  const Array& forward(std::span<const std::int64_t> ids, std::int64_t rows, const Pass& pass) {
    return head->forward(words.forward(ids, rows), pass);
  }
  void backward(const Array& gradient, const Pass& pass) {
    words.backward(head->backward(gradient, pass));
  }

  EmbeddingBag words;
  LayerPtr head;
};

class TextMatch final : public Model {
 public:
  explicit TextMatch(const Scope& scope)
      : query_(scope), positive_(scope.reuse()), negative_(scope.reuse()) {}

  Loss forward(const Batch& batch, const Pass& pass) override {
    const std::int64_t rows = batch.rows();
    vectors_ = {&query_.forward(batch.i64("query"), rows, pass),
                &positive_.forward(batch.i64("positive"), rows, pass),
                &negative_.forward(batch.i64("negative"), rows, pass)};
    const TripletLoss::Result result =
        loss_.forward(*vectors_[0], *vectors_[1], *vectors_[2], pass, batch.weights());
    return {result.loss_sum, 0, result.correct, batch.valid_rows()};
  }

  void backward(const Pass& pass) override {
    query_.backward(loss_.query_gradient(), pass);
    positive_.backward(loss_.positive_gradient(), pass);
    negative_.backward(loss_.negative_gradient(), pass);
  }

  Array scores(const Pass& pass) override {
    const Array query = f32_on_host(pass.gpu, *vectors_[0]);
    const std::vector<float> near = cosines(query, f32_on_host(pass.gpu, *vectors_[1]));
    const std::vector<float> far = cosines(query, f32_on_host(pass.gpu, *vectors_[2]));
    Array both({query.dim(0), 2});
    for (std::size_t row = 0; row < near.size(); ++row) {
      both.data()[2 * row] = near[row];
      both.data()[2 * row + 1] = far[row];
    }
    return both;
  }

 private:
  Encoder query_, positive_, negative_;
  std::array<const Array*, 3> vectors_{};  // of the three inputs in the last batch
  TripletLoss loss_{0.3F};
};

std::vector<TakenComponent> text_match_takes() {
  std::vector<TakenComponent> takes;
  for (const char* name : kTexts) takes.push_back({name, {{DType::bytes, {}}}});
  return takes;
}

Spec text_match_ready() {
  std::vector<ComponentSpec> components;
  for (const char* name : kTexts) components.push_back({name, DType::i64, {kMostWords}});
  return Spec(std::move(components));
}

/// Maps {query, positive, negative: bytes} to i64 [kMostWords] each, with -1 after the last word.
Dataset text_match_input(const Dataset& stored, bool /*training*/) {
  check_input("text_match", stored.spec(), text_match_takes());
  const Spec ready = text_match_ready();
  std::vector<ComponentSpec> components(ready.begin(), ready.end());
  for (const ComponentSpec& carried : carried_in("text_match", stored.spec()))
    components.push_back(carried);
  return stored.map(
      [](const Element& in, Element& out, Rng&) {
        for (const char* name : kTexts)
          hash_words(in[name].bytes_at(), kBuckets, out[name].mutable_values<std::int64_t>());
        carry(in, out);
      },
      {.name = "hash_words", .output = Spec(std::move(components))});
}

}  // namespace

ModelKind text_match_kind() {
  return {.name = "text_match",
          .help = "three texts (query, positive, negative) over hashed words, triplet loss",
          .make = [](const Scope& scope) -> ModelPtr { return std::make_unique<TextMatch>(scope); },
          .input = text_match_input,
          .optimizer = "adam",
          .schedule = "constant:0.003",
          .outputs = {"positive", "negative"},
          .takes = text_match_takes(),
          .ready = text_match_ready()};
}

}  // namespace penstock::towers
