// Feature columns: rules that turn the features of a table into a model's input.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/file_system.h>
#include <penstock/sources.h>
#include <penstock/towers/variables.h>

#include <penstock/towers/columns/fingerprint.h>

namespace penstock::towers {

struct Column;
/// Columns are immutable and thread-safe. Their meaning, names and numbers are those of
/// TensorFlow's tf.feature_column; docs/feature-columns.md says where they differ.
using ColumnPtr = std::shared_ptr<const Column>;

/// The way in which several table rows that one example names become one. `sum`: their sum,
/// weighted if there are weights. `mean`: that sum, divided by the sum of weights. `sqrtn`: that
/// sum, divided by the root of the sum of squared weights.
enum class Combiner : std::uint8_t { sum, mean, sqrtn };
/// Parses "sum", "mean" or "sqrtn". Throws Error{invalid_argument} for any other text.
Combiner parse_combiner(const std::string& text);

/// The operations on a number, in this order; computed in f32.
struct Normalizer {
  bool log1p = false;  ///< log(1 + x)
  float subtract = 0;  ///< from x, then
  float divide = 1;    ///< x by this
  /// Any other operation, on all values of a feature, after the ones above. `name` is its name in
  /// the graph's fingerprint.
  std::function<void(std::span<float>)> function{};
  std::string name{};  ///< of `function`

  /// Returns true if it changes no value.
  bool is_identity() const noexcept {
    return !log1p && subtract == 0 && divide == 1 && function == nullptr;
  }
  /// Applies all operations to the values of a feature.
  void apply(std::span<float> values) const;
};

/// The options of a numeric column.
struct NumericOptions {
  DType dtype = DType::f32;  ///< of the feature: f32, f64 (not in a tf.Example) or i64
  /// The shape of one example's feature; a sequence has any number of these.
  Shape shape{1};
  /// The values of a missing feature: one for all, or as many as the shape has. Empty: a missing
  /// feature is an error.
  std::vector<double> default_value{};
  Normalizer normalizer{};  ///< applied to each value
  bool sequence = false;    ///< each value, of shape `shape`, is a step
};

/// The options of a categorical column.
struct CategoricalOptions {
  DType dtype = DType::bytes;  ///< bytes or i64; identity columns are always of i64
  /// The number of values of one example; values that are empty or -1 then count as missing. 0: any
  /// number of values, each of which counts. Data of a fixed shape have as many values as the shape
  /// says, whatever is set here.
  std::int64_t values = 0;
  /// For identity and vocabulary columns: the id of a value outside their range. Nothing: such a
  /// value is an error in an identity column. In a vocabulary column it is -1, which stands for no
  /// id.
  std::optional<std::int64_t> default_value{};
  /// For vocabulary columns: words outside the vocabulary get one of this many ids after it, by
  /// their fingerprint.
  std::int64_t oov_buckets = 0;
  bool sequence = false;  ///< each value is a step
};

/// The options of an embedding.
struct EmbeddingOptions {
  std::int64_t dimension = 0;          ///< numbers in a row of the table
  Combiner combiner = Combiner::mean;  ///< of the rows of an example
  /// Nothing: a truncated normal distribution with a standard deviation of 1 / sqrt(dimension).
  std::optional<Initializer> initializer{};
  bool trainable = true;  ///< false: training leaves the table as it is
};

/// A part of a cross: the values of a feature as they are, or the ids of a column.
struct CrossKey {
  // NOLINTBEGIN(google-explicit-constructor)
  /// The values of a feature.
  CrossKey(std::string feature, DType type = DType::bytes) : key(std::move(feature)), dtype(type) {}
  CrossKey(const char* feature, DType type = DType::bytes) : key(feature), dtype(type) {}
  /// The ids of a column.
  CrossKey(ColumnPtr ids) : column(std::move(ids)) {}
  // NOLINTEND(google-explicit-constructor)
  std::string key{};           ///< of the feature; empty: `column` is set
  DType dtype = DType::bytes;  ///< of the feature: bytes or i64
  ColumnPtr column{};          ///< whose ids are the values; null: `key` is set
};

/// A column, as the functions below make it. Immutable.
struct Column {
  /// The kinds of columns.
  enum class Kind : std::uint8_t {
    numeric,
    bucketized,
    identity,
    hash_bucket,
    vocabulary,
    weighted,
    crossed,
    indicator,
    embedding
  };
  struct Vocabulary;

  Kind kind = Kind::numeric;  ///< of the column
  std::string name;           ///< of the column, as TensorFlow makes it
  bool sequence = false;      ///< each value is a step
  /// The feature that it reads; for weighted columns, the feature with the weights.
  FeatureSpec feature{};
  /// Set for bucketized, weighted, indicator and embedding columns.
  ColumnPtr source{};
  Normalizer normalizer{};          ///< numeric
  std::vector<float> boundaries{};  ///< bucketized
  /// The number of ids of a categorical column.
  std::int64_t buckets = 0;
  std::int64_t values = 0;                         ///< see CategoricalOptions
  std::optional<std::int64_t> default_value{};     ///< see CategoricalOptions
  std::int64_t oov_buckets = 0;                    ///< see CategoricalOptions
  std::shared_ptr<const Vocabulary> vocabulary{};  ///< the words of a vocabulary
  /// For crossed columns: the parts. Crosses among them were replaced by their own parts.
  std::vector<CrossKey> keys{};
  std::uint64_t hash_key = kCrossKey;  ///< of crossed columns: starts the hash
  EmbeddingOptions embedding{};        ///< of embedding columns
  /// For embedding columns: the name of its variable, which other columns may share.
  std::string table{};

  /// True if it has ids, which are below `buckets`.
  bool is_categorical() const noexcept {
    return kind != Kind::numeric && kind != Kind::indicator && kind != Kind::embedding;
  }
  /// True if a dense layer can take it: numeric, bucketized, indicator and embedding columns.
  bool is_dense() const noexcept { return !is_categorical() || kind == Kind::bucketized; }
  /// Returns how many numbers one example has in a dense layer. REQUIRES: is_dense().
  std::int64_t width() const;
};

// Each of these throws Error{invalid_argument} that names the column.

/// Makes a column of the numbers of the feature `key`.
ColumnPtr numeric_column(const std::string& key, NumericOptions options = {});
/// Makes a column of n + 1 buckets. Bucket b holds values from boundaries[b - 1] up to, but not
/// including, boundaries[b]. If there are several values, the ids of value i begin at i * (n + 1).
/// Named "<source>_bucketized".
ColumnPtr bucketized_column(const ColumnPtr& source, std::vector<float> boundaries);
/// Makes a column whose ids are the integers of the feature `key`; they are below `buckets`.
ColumnPtr identity_column(const std::string& key, std::int64_t buckets,
                          CategoricalOptions options = {});
/// Makes a column whose ids are fingerprints mod `buckets`. The fingerprint of an integer is that
/// of its decimal text.
ColumnPtr hash_bucket_column(const std::string& key, std::int64_t buckets,
                             CategoricalOptions options = {});
/// Makes a column whose ids are places in a list of different words, or of integers in decimal.
ColumnPtr vocabulary_column(const std::string& key, const std::vector<std::string>& words,
                            CategoricalOptions options = {});
/// Returns the lines of a file, at most `size` of them (0: all). Throws Error{not_found}, and
/// Error{invalid_argument} if the file has fewer lines than `size`.
std::vector<std::string> read_vocabulary(const std::string& path, std::int64_t size = 0,
                                         const FileSystemPtr& files = default_file_system());
/// Returns the words of a vocabulary column in the order of their ids, integers in decimal; empty
/// for any other column.
std::vector<std::string> words_of(const Column& vocabulary);
/// Makes a column that gives each id of `categorical` a weight. The feature `key` holds as many
/// weights.
ColumnPtr weighted_column(const ColumnPtr& categorical, const std::string& key,
                          DType dtype = DType::f32);
/// Makes a column of all combinations of one value of each key: the fingerprint of the combination,
/// mod `buckets`. Keys that are features are taken from the data unchanged. Keys that are columns
/// must not be hashed or weighted. Fixed-size features come after all others, as in TensorFlow.
ColumnPtr crossed_column(const std::vector<CrossKey>& keys, std::int64_t buckets,
                         std::uint64_t hash_key = kCrossKey);
/// Makes a column that counts how often an example has each id, or sums up its weights.
ColumnPtr indicator_column(const ColumnPtr& categorical);
/// Makes a column that looks up the rows of a table by the ids of `categorical`, and combines them.
ColumnPtr embedding_column(const ColumnPtr& categorical, EmbeddingOptions options);
/// Makes columns that share one table; all must have as many ids.
std::vector<ColumnPtr> shared_embedding_columns(const std::vector<ColumnPtr>& categoricals,
                                                EmbeddingOptions options);

/// Returns the features that these columns read, by key. Throws Error{invalid_argument}, which
/// names the feature and both columns, if two columns need it in different forms.
std::vector<FeatureSpec> parse_spec(const std::vector<ColumnPtr>& columns);

}  // namespace penstock::towers
