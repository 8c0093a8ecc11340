// A network of three inputs: a query, a text that answers it and one that does not. All go through
// the same variables, and the cosine to the first shall exceed that to the second by a margin.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <memory>

#include <penstock/rng.h>

#include "towers/layers/dense.h"
#include "towers/layers/embedding_bag.h"
#include "towers/layers/similarity.h"
#include "towers/model.h"

namespace penstock::towers {
namespace {

constexpr std::int64_t kBuckets = 1 << 14;
constexpr std::int64_t kWidth = 32;
constexpr std::int64_t kMostWords = 24;
constexpr std::array<const char*, 3> kTexts{"query", "positive", "negative"};

/// Words as the mean of their rows, then a dense layer.
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
    const TripletLoss::Result result =
        loss_.forward(query_.forward(batch.i64("query"), rows, pass),
                      positive_.forward(batch.i64("positive"), rows, pass),
                      negative_.forward(batch.i64("negative"), rows, pass), pass);
    return {result.loss_sum, 0, result.correct, batch.valid_rows()};
  }

  void backward(const Pass& pass) override {
    query_.backward(loss_.query_gradient(), pass);
    positive_.backward(loss_.positive_gradient(), pass);
    negative_.backward(loss_.negative_gradient(), pass);
  }

 private:
  Encoder query_, positive_, negative_;
  TripletLoss loss_{0.3F};
};

/// The words of a text as buckets of their hashes, in lower case; -1 behind the last. Words beyond
/// kMostWords are left out.
void hash_words(std::string_view text, std::span<std::int64_t> ids) {
  std::ranges::fill(ids, -1);
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size() && count < ids.size();) {
    std::uint64_t hash = 0;
    const std::size_t begin = at;
    for (; at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0; ++at)
      hash = mix_path(
          hash, static_cast<std::uint64_t>(std::tolower(static_cast<unsigned char>(text[at]))));
    if (at > begin) ids[count++] = static_cast<std::int64_t>(hash % kBuckets);
    if (at < text.size()) ++at;
  }
}

/// {query, positive, negative: bytes} -> i64 [kMostWords] each.
Dataset text_match_input(const Dataset& stored, bool /*training*/) {
  std::vector<ComponentSpec> components;
  for (const char* name : kTexts) components.push_back({name, DType::i64, {kMostWords}});
  return stored.map(
      [](const Element& in, Element& out, Rng&) {
        for (const char* name : kTexts)
          hash_words(in[name].bytes_at(), out[name].mutable_values<std::int64_t>());
      },
      {.name = "hash_words", .output = Spec(std::move(components))});
}

const ModelRegistration text_match(
    {.name = "text_match",
     .help = "three texts (query, positive, negative) over hashed words, triplet loss",
     .make = [](const Scope& scope) -> ModelPtr { return std::make_unique<TextMatch>(scope); },
     .input = text_match_input,
     .optimizer = "adam",
     .schedule = "constant:0.003"});

}  // namespace
}  // namespace penstock::towers
