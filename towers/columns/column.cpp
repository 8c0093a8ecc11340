#include <penstock/towers/columns/column.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include <penstock/error.h>

#include "towers/columns/features.h"
#include "towers/columns/vocabulary.h"

namespace penstock::towers {
namespace {

using Kind = Column::Kind;

void require_column(bool holds, const std::string& column, const std::string& why) {
  if (!holds) refuse_column(column, why);
}

void require_hash(const std::string& column) {
  require_column(has_fingerprint64(), column, "needs libfarmhash, which this build does not have");
}

std::shared_ptr<Column> categorical(Kind kind, const std::string& key, std::int64_t buckets,
                                    const CategoricalOptions& options) {
  require_column(!key.empty(), "without a name", "the key of a feature is empty");
  require_column(
      options.dtype == DType::bytes || options.dtype == DType::i64, key,
      "feature " + key + " must be of bytes or i64, not " + std::string(name_of(options.dtype)));
  require_column(options.values >= 0, key, "the number of values is negative");
  require_column(buckets > 0, key, "needs at least one bucket");
  auto column = std::make_shared<Column>();
  column->kind = kind;
  column->name = key;
  column->sequence = options.sequence;
  column->buckets = buckets;
  column->values = options.values;
  column->feature = values_feature(key, options.dtype, options.values);
  return column;
}

}  // namespace

Combiner parse_combiner(const std::string& text) {
  if (text == "sum") return Combiner::sum;
  if (text == "mean") return Combiner::mean;
  if (text == "sqrtn") return Combiner::sqrtn;
  throw Error(ErrorCode::invalid_argument, "expected sum, mean or sqrtn, got " + text);
}

void Normalizer::apply(std::span<float> values) const {
  for (float& value : values) {
    if (log1p) value = std::log1p(value);
    value = (value - subtract) / divide;
  }
  if (function) function(values);
}

std::int64_t Column::width() const {
  switch (kind) {
    case Kind::numeric:
      return feature.shape.volume();
    case Kind::embedding:
      return embedding.dimension;
    default:
      return kind == Kind::indicator ? source->buckets : buckets;
  }
}

ColumnPtr numeric_column(const std::string& key, NumericOptions options) {
  require_column(!key.empty(), "without a name", "the key of a feature is empty");
  const DType dtype = options.dtype;
  require_column(
      dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i64, key,
      "feature " + key + " must be of f32, f64 or i64, not " + std::string(name_of(dtype)));
  require_column(options.shape.is_static() && options.shape.volume() > 0, key,
                 "its shape must be known and not empty, got " + options.shape.to_string());
  require_column(options.normalizer.divide != 0, key, "a normaliser can't divide by 0");
  auto column = std::make_shared<Column>();
  column->name = key;
  column->sequence = options.sequence;
  column->normalizer = std::move(options.normalizer);
  column->feature = {.key = key, .dtype = dtype, .shape = options.shape};
  const auto values = static_cast<std::size_t>(options.shape.volume());
  if (options.sequence) {
    require_column(options.shape.rank() == 1, key,
                   "the shape of a sequence's step has one dimension");
    require_column(options.default_value.empty(), key, "a sequence that is missing has no steps");
    column->feature.shape = {Shape::kUnknown};
    if (values > 1) column->feature.shape = {Shape::kUnknown, options.shape[0]};
    column->feature.default_value =
        nothing(dtype, values > 1 ? Shape{0, options.shape[0]} : Shape{0});
    column->values = options.shape[0];
    return column;
  }
  if (options.default_value.empty()) return column;
  require_column(options.default_value.size() == 1 || options.default_value.size() == values, key,
                 "has " + std::to_string(options.default_value.size()) +
                     " defaults for the shape " + options.shape.to_string());
  for (const double value : options.default_value)
    require_column(dtype != DType::i64 || value == std::trunc(value), key,
                   "the default of a feature of i64 must be a whole number");
  column->feature.default_value = filled(dtype, options.shape, options.default_value);
  return column;
}

ColumnPtr bucketized_column(const ColumnPtr& source, std::vector<float> boundaries) {
  require_column(source != nullptr && source->kind == Kind::numeric && !source->sequence,
                 source == nullptr ? "bucketized" : source->name, "buckets need a numeric column");
  const std::string name = source->name + "_bucketized";
  require_column(!boundaries.empty(), name, "needs boundaries");
  require_column(
      std::ranges::adjacent_find(boundaries, std::greater_equal<>()) == boundaries.end() &&
          std::ranges::none_of(boundaries, [](float b) { return std::isnan(b); }),
      name, "boundaries must increase");
  auto column = std::make_shared<Column>();
  column->kind = Kind::bucketized;
  column->name = name;
  column->source = source;
  column->values = source->feature.shape.volume();
  column->buckets = column->values * static_cast<std::int64_t>(boundaries.size() + 1);
  column->boundaries = std::move(boundaries);
  return column;
}

ColumnPtr identity_column(const std::string& key, std::int64_t buckets,
                          CategoricalOptions options) {
  options.dtype = DType::i64;
  require_column(options.oov_buckets == 0, key,
                 "only a vocabulary has buckets for what is out of it");
  const auto column = categorical(Kind::identity, key, buckets, options);
  require_column(
      !options.default_value || (*options.default_value >= 0 && *options.default_value < buckets),
      key, "its default is not one of its buckets");
  column->default_value = options.default_value;
  return column;
}

ColumnPtr hash_bucket_column(const std::string& key, std::int64_t buckets,
                             CategoricalOptions options) {
  require_column(!options.default_value && options.oov_buckets == 0, key,
                 "every value has a hash bucket: there is no default");
  require_hash(key);
  return categorical(Kind::hash_bucket, key, buckets, options);
}

ColumnPtr vocabulary_column(const std::string& key, const std::vector<std::string>& words,
                            CategoricalOptions options) {
  require_column(!words.empty(), key, "its vocabulary is empty");
  require_column(options.oov_buckets >= 0, key, "the number of buckets is negative");
  require_column(!options.default_value || options.oov_buckets == 0, key,
                 "can have a default or out-of-vocabulary buckets, not both");
  if (options.oov_buckets > 0) require_hash(key);
  const auto size = static_cast<std::int64_t>(words.size());
  const auto column = categorical(Kind::vocabulary, key, size + options.oov_buckets, options);
  require_column(
      !options.default_value || (*options.default_value >= -1 && *options.default_value < size),
      key, "its default is not one of its words");
  column->default_value = options.default_value;
  column->oov_buckets = options.oov_buckets;
  auto vocabulary = std::make_shared<Column::Vocabulary>();
  std::uint64_t& digest = vocabulary->digest;
  for (const std::string& word : words) {
    const auto id =
        static_cast<std::int64_t>(vocabulary->words.size() + vocabulary->numbers.size());
    for (const char c : word) digest = fingerprint_cat64(digest, static_cast<unsigned char>(c));
    digest = fingerprint_cat64(digest, word.size());
    bool is_new = false;
    if (options.dtype == DType::i64) {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      require_column(error == std::errc() && end == word.data() + word.size(), key,
                     "\"" + word + "\" in its vocabulary is not an i64");
      is_new = vocabulary->numbers.emplace(number, id).second;
    } else {
      is_new = vocabulary->words.emplace(word, id).second;
    }
    require_column(is_new, key, "\"" + word + "\" is in its vocabulary twice");
  }
  column->vocabulary = vocabulary;
  return column;
}

ColumnPtr weighted_column(const ColumnPtr& source, const std::string& key, DType dtype) {
  require_column(source != nullptr && source->is_categorical() && source->kind != Kind::weighted,
                 source == nullptr ? key : source->name, "weights need a categorical column");
  const std::string name = source->name + "_weighted_by_" + key;
  require_column(source->kind != Kind::bucketized && source->kind != Kind::crossed, name,
                 "weights need a column that reads a feature");
  require_column(!key.empty(), name, "the key of the weights is empty");
  require_column(dtype == DType::f32 || dtype == DType::i64, name,
                 "weights " + key + " must be of f32 or i64, not " + std::string(name_of(dtype)));
  auto column = std::make_shared<Column>();
  column->kind = Kind::weighted;
  column->name = name;
  column->sequence = source->sequence;
  column->source = source;
  column->buckets = source->buckets;
  column->feature = values_feature(key, dtype, source->values);
  if (source->values > 0) column->feature.default_value = filled(dtype, column->feature.shape, {0});
  return column;
}

ColumnPtr crossed_column(const std::vector<CrossKey>& keys, std::int64_t buckets,
                         std::uint64_t hash_key) {
  auto column = std::make_shared<Column>();
  column->kind = Kind::crossed;
  std::vector<std::string> names;
  for (const CrossKey& key : keys) {
    if (key.column != nullptr && key.column->kind == Kind::crossed) {
      column->keys.insert(column->keys.end(), key.column->keys.begin(), key.column->keys.end());
    } else {
      column->keys.push_back(key);
    }
  }
  for (const CrossKey& key : column->keys)
    names.push_back(key.column != nullptr ? key.column->name : key.key);
  std::ranges::sort(names);
  for (const std::string& name : names) column->name += (column->name.empty() ? "" : "_X_") + name;
  require_column(keys.size() >= 2, column->name.empty() ? "crossed" : column->name,
                 "a cross needs at least two keys");
  require_column(buckets > 0, column->name, "needs at least one bucket");
  for (const CrossKey& key : column->keys) {
    if (key.column == nullptr) {
      require_column(!key.key.empty(), column->name, "the key of a feature is empty");
      require_column(
          key.dtype == DType::bytes || key.dtype == DType::i64, column->name,
          "feature " + key.key + " must be of bytes or i64: a float goes into buckets first");
      continue;
    }
    const std::string& name = key.column->name;
    require_column(key.column->is_categorical(), column->name,
                   name + " has no ids: put it into buckets");
    require_column(key.column->kind != Kind::hash_bucket, column->name,
                   name + " is already hashed: cross the feature itself");
    require_column(key.column->kind != Kind::weighted, column->name, name + " has weights");
    require_column(!key.column->sequence, column->name, name + " is a sequence");
  }
  require_hash(column->name);
  column->buckets = buckets;
  column->hash_key = hash_key;
  return column;
}

ColumnPtr indicator_column(const ColumnPtr& source) {
  require_column(source != nullptr && source->is_categorical(),
                 source == nullptr ? "indicator" : source->name,
                 "an indicator needs a categorical column");
  auto column = std::make_shared<Column>();
  column->kind = Kind::indicator;
  column->name = source->name + "_indicator";
  column->sequence = source->sequence;
  column->source = source;
  return column;
}

ColumnPtr embedding_column(const ColumnPtr& source, EmbeddingOptions options) {
  require_column(source != nullptr && source->is_categorical(),
                 source == nullptr ? "embedding" : source->name,
                 "an embedding needs a categorical column");
  auto column = std::make_shared<Column>();
  column->kind = Kind::embedding;
  column->name = source->name + "_embedding";
  require_column(options.dimension > 0, column->name, "needs a dimension of at least 1");
  column->sequence = source->sequence;
  column->source = source;
  column->embedding = options;
  column->table = column->name;
  return column;
}

std::vector<ColumnPtr> shared_embedding_columns(const std::vector<ColumnPtr>& categoricals,
                                                EmbeddingOptions options) {
  require_column(categoricals.size() >= 2, "shared embedding",
                 "a shared table needs at least two columns");
  std::vector<std::string> names;
  for (const ColumnPtr& column : categoricals) {
    require_column(column != nullptr && column->is_categorical(),
                   column == nullptr ? "shared embedding" : column->name,
                   "an embedding needs a categorical column");
    require_column(column->buckets == categoricals[0]->buckets, column->name,
                   "has " + std::to_string(column->buckets) + " ids, and " + categoricals[0]->name +
                       " " + std::to_string(categoricals[0]->buckets) +
                       ": they can't share a table");
    names.push_back(column->name);
  }
  std::ranges::sort(names);
  std::string table;
  for (const std::string& name : names) table += name + "_";
  std::vector<ColumnPtr> columns;
  for (const ColumnPtr& source : categoricals) {
    auto column = std::make_shared<Column>(*embedding_column(source, options));
    column->name = source->name + "_shared_embedding";
    column->table = table + "shared_embedding";
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace penstock::towers
