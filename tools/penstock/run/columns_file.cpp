#include "tools/penstock/run/columns_file.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <penstock/error.h>

#include "pipelines/toml.h"

namespace penstock::tool {
namespace {

using towers::ColumnPtr;

/// A table whose keys are taken one after the other. Keys that remain at the end are an error.
class Fields {
 public:
  Fields(const toml::table& table, TomlPlace place) : table_(table), place_(std::move(place)) {}

  const toml::table& table() const noexcept { return table_; }
  const TomlPlace& place() const noexcept { return place_; }
  bool has(std::string_view key) const { return table_.contains(key); }

  template <typename T>
  std::optional<T> find(const std::string& key) {
    taken_.insert(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    return value<T>(*node, place_.child(key));
  }
  template <typename T>
  T get(const std::string& key) {
    if (std::optional<T> found = find<T>(key)) return *std::move(found);
    throw UsageError("needs " + key, place_.at(table_));
  }
  template <typename T>
  T get(const std::string& key, T otherwise) {
    return find<T>(key).value_or(std::move(otherwise));
  }
  template <typename T>
  std::vector<T> list(const std::string& key) {
    taken_.insert(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr) return {};
    std::vector<T> values;
    const TomlPlace place = place_.child(key);
    const toml::array* array = node->as_array();
    if (array == nullptr) return {value<T>(*node, place)};
    for (std::size_t i = 0; i < array->size(); ++i)
      values.push_back(value<T>((*array)[i], place.item(i)));
    return values;
  }
  const toml::node* node(const std::string& key) {
    taken_.insert(key);
    return table_.get(key);
  }
  std::vector<std::string> left() const {
    std::vector<std::string> keys;
    for (const auto& [key, node] : table_)
      if (!taken_.contains(std::string(key.str()))) keys.emplace_back(key.str());
    return keys;
  }
  void end() const {
    for (const std::string& key : left())
      throw UsageError("unknown key " + in_quotes(key) + "; there are " +
                           join({taken_.begin(), taken_.end()}, ", "),
                       place_.child(key).at(*table_.get(key)));
  }

  template <typename T>
  static T value(const toml::node& node, const TomlPlace& place) {
    if constexpr (std::is_same_v<T, std::string>) {
      return as<std::string>(&node, "a string", place).get();
    } else if constexpr (std::is_same_v<T, bool>) {
      return as<bool>(&node, "true or false", place).get();
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      return as<std::int64_t>(&node, "an integer", place).get();
    } else {
      if (const auto* whole = node.as_integer()) return static_cast<T>(whole->get());
      const double number = as<double>(&node, "a number", place).get();
      if (!std::isfinite(number)) throw UsageError("expected a finite number", place.at(node));
      return static_cast<T>(number);
    }
  }

 private:
  template <typename T>
  static const toml::value<T>& as(const toml::node* node, std::string_view expected,
                                  const TomlPlace& place) {
    if (const toml::value<T>* value = node->as<T>()) return *value;
    throw UsageError("expected " + std::string(expected) + ", got " + std::string(toml_type(*node)),
                     place.at(*node));
  }

  const toml::table& table_;
  TomlPlace place_;
  std::set<std::string> taken_;
};

DType dtype_of_text(const std::string& text) {
  for (const DType dtype : {DType::bytes, DType::i64, DType::f32, DType::f64})
    if (text == name_of(dtype)) return dtype;
  throw UsageError("expected bytes, i64, f32 or f64, got " + in_quotes(text));
}

/// The columns of a file, made on request.
class Reader {
 public:
  Reader(const toml::table& tables, TomlPlace place, const WordsOf& words_of)
      : tables_(tables), place_(std::move(place)), words_of_(words_of) {}

  static constexpr int kDeepest = 64;

  /// Returns the columns of a table: one, or all that share an embedding.
  const std::vector<ColumnPtr>& columns(const std::string& name, const std::string& asked_at) {
    if (const auto made = made_.find(name); made != made_.end()) {
      if (made->second.empty())
        throw UsageError("column " + in_quotes(name) + " depends on itself", asked_at);
      return made->second;
    }
    const toml::node* node = tables_.get(name);
    if (node == nullptr || !node->is_table()) {
      std::vector<std::string> known;
      for (const auto& [key, value] : tables_) known.emplace_back(key.str());
      throw UsageError("there is no column " + in_quotes(name) + suggestion(name, known), asked_at);
    }
    if (++depth_ > kDeepest)
      throw UsageError("more than " + std::to_string(kDeepest) + " columns depend on each other",
                       asked_at);
    made_[name] = {};
    Fields fields(*node->as_table(), place_.child(name));
    std::vector<ColumnPtr> columns;
    try {
      columns = make(name, fields);
    } catch (const Error& error) {
      throw UsageError(error.what(), fields.place().at(fields.table()));
    } catch (const UsageError& error) {
      throw error.at(fields.place().at(fields.table()));
    }
    fields.end();
    --depth_;
    return made_[name] = std::move(columns);
  }

  /// Makes all columns. Returns those whose words are in files.
  std::map<std::string, ColumnPtr> make_all() {
    for (const auto& [key, node] : tables_)
      columns(std::string(key.str()), place_.child(key.str()).at(node));
    return std::move(vocabularies_);
  }

 private:
  ColumnPtr one(const std::string& name, const Fields& fields) {
    const std::vector<ColumnPtr>& all = columns(name, fields.place().at(fields.table()));
    if (all.size() != 1) throw UsageError(in_quotes(name) + " stands for several columns");
    return all.front();
  }

  std::vector<ColumnPtr> make(const std::string& name, Fields& fields) {
    using Make = std::function<std::vector<ColumnPtr>(Reader&, const std::string&, Fields&)>;
    const auto single = [](ColumnPtr (Reader::*one_of)(const std::string&, Fields&)) -> Make {
      return [one_of](Reader& reader, const std::string& of, Fields& its) {
        return std::vector{(reader.*one_of)(of, its)};
      };
    };
    static const std::map<std::string, Make, std::less<>> makers{
        {"numeric", single(&Reader::numeric)},
        {"bucketized", single(&Reader::bucketized)},
        {"identity", single(&Reader::identity)},
        {"hash_bucket", single(&Reader::hash_bucket)},
        {"vocabulary_list", single(&Reader::vocabulary_list)},
        {"vocabulary_file", single(&Reader::vocabulary_file)},
        {"weighted", single(&Reader::weighted)},
        {"crossed", single(&Reader::crossed)},
        {"indicator", single(&Reader::indicator)},
        {"embedding", single(&Reader::embedding)},
        {"shared_embedding", &Reader::shared}};
    const std::string kind = fields.get<std::string>("kind");
    if (const auto maker = makers.find(kind); maker != makers.end())
      return maker->second(*this, name, fields);
    std::vector<std::string> known;
    for (const auto& [one, make] : makers) known.push_back(one);
    throw UsageError("there is no kind " + in_quotes(kind) + "; there are " + join(known, ", ") +
                     suggestion(kind, known));
  }

  static DType dtype(Fields& fields, DType otherwise) {
    const auto text = fields.find<std::string>("dtype");
    return text ? dtype_of_text(*text) : otherwise;
  }

  static towers::CategoricalOptions categorical(Fields& fields, bool has_default = true) {
    towers::CategoricalOptions options;
    options.dtype = dtype(fields, DType::bytes);
    options.values = fields.get<std::int64_t>("values", 0);
    options.sequence = fields.get<bool>("sequence", false);
    if (has_default) options.default_value = fields.find<std::int64_t>("default");
    return options;
  }

  ColumnPtr numeric(const std::string& name, Fields& fields) {
    towers::NumericOptions options;
    options.dtype = dtype(fields, DType::f32);
    if (const auto shape = fields.list<std::int64_t>("shape"); !shape.empty())
      options.shape = Shape(shape);
    options.default_value = fields.list<double>("default");
    options.sequence = fields.get<bool>("sequence", false);
    options.normalizer.log1p = fields.get<bool>("log1p", false);
    options.normalizer.subtract = fields.get<float>("subtract", 0);
    options.normalizer.divide = fields.get<float>("divide", 1);
    return towers::numeric_column(fields.get<std::string>("key", name), std::move(options));
  }
  ColumnPtr bucketized(const std::string&, Fields& fields) {
    return towers::bucketized_column(one(fields.get<std::string>("source"), fields),
                                     fields.list<float>("boundaries"));
  }
  ColumnPtr identity(const std::string& name, Fields& fields) {
    towers::CategoricalOptions options = categorical(fields);
    return towers::identity_column(fields.get<std::string>("key", name),
                                   fields.get<std::int64_t>("buckets"), options);
  }
  ColumnPtr hash_bucket(const std::string& name, Fields& fields) {
    return towers::hash_bucket_column(fields.get<std::string>("key", name),
                                      fields.get<std::int64_t>("buckets"),
                                      categorical(fields, false));
  }
  ColumnPtr vocabulary(const std::string& name, Fields& fields,
                       const std::vector<std::string>& words) {
    towers::CategoricalOptions options = categorical(fields);
    options.oov_buckets = fields.get<std::int64_t>("oov_buckets", 0);
    return towers::vocabulary_column(fields.get<std::string>("key", name), words, options);
  }
  ColumnPtr vocabulary_list(const std::string& name, Fields& fields) {
    const toml::node* node = fields.table().get("words");
    const toml::array* words = node != nullptr ? node->as_array() : nullptr;
    std::vector<std::string> texts;
    if (words != nullptr && !words->empty() && (*words)[0].is_integer()) {
      for (const std::int64_t word : fields.list<std::int64_t>("words"))
        texts.push_back(std::to_string(word));
    } else {
      texts = fields.list<std::string>("words");
    }
    return vocabulary(name, fields, texts);
  }
  ColumnPtr vocabulary_file(const std::string& name, Fields& fields) {
    const auto file = fields.get<std::string>("file");
    const auto words = words_of_(name, file, fields.get<std::int64_t>("size", 0));
    return vocabularies_[name] = vocabulary(name, fields, words);
  }
  ColumnPtr weighted(const std::string&, Fields& fields) {
    const std::string source = fields.get<std::string>("source");
    const std::string weights = fields.get<std::string>("weights");
    return towers::weighted_column(one(source, fields), weights, dtype(fields, DType::f32));
  }
  ColumnPtr crossed(const std::string&, Fields& fields) {
    std::vector<towers::CrossKey> keys;
    const toml::node* node = fields.node("keys");
    const toml::array* array = node != nullptr ? node->as_array() : nullptr;
    if (array == nullptr) throw UsageError("needs an array of keys");
    for (std::size_t i = 0; i < array->size(); ++i) {
      const TomlPlace place = fields.place().child("keys").item(i);
      const toml::table* table = (*array)[i].as_table();
      if (table == nullptr) {
        keys.emplace_back(Fields::value<std::string>((*array)[i], place));
        continue;
      }
      Fields key(*table, place);
      if (const auto column = key.find<std::string>("column")) {
        keys.emplace_back(one(*column, key));
      } else {
        const std::string feature = key.get<std::string>("key");
        keys.emplace_back(feature, dtype(key, DType::bytes));
      }
      key.end();
    }
    const auto buckets = fields.get<std::int64_t>("buckets");
    const auto hash_key = fields.find<std::int64_t>("hash_key");
    return towers::crossed_column(
        keys, buckets, hash_key ? static_cast<std::uint64_t>(*hash_key) : towers::kCrossKey);
  }
  ColumnPtr indicator(const std::string&, Fields& fields) {
    return towers::indicator_column(one(fields.get<std::string>("source"), fields));
  }
  static towers::EmbeddingOptions embedding_options(Fields& fields) {
    towers::EmbeddingOptions options;
    options.dimension = fields.get<std::int64_t>("dimension");
    options.combiner = towers::parse_combiner(fields.get<std::string>("combiner", "mean"));
    options.trainable = fields.get<bool>("trainable", true);
    if (const auto deviation = fields.find<float>("deviation"))
      options.initializer = towers::Initializer::truncated_normal(*deviation);
    return options;
  }
  ColumnPtr embedding(const std::string&, Fields& fields) {
    const ColumnPtr source = one(fields.get<std::string>("source"), fields);
    return towers::embedding_column(source, embedding_options(fields));
  }
  std::vector<ColumnPtr> shared(const std::string&, Fields& fields) {
    std::vector<ColumnPtr> sources;
    for (const std::string& source : fields.list<std::string>("sources"))
      sources.push_back(one(source, fields));
    return towers::shared_embedding_columns(sources, embedding_options(fields));
  }

  const toml::table& tables_;
  const TomlPlace place_;
  const WordsOf& words_of_;
  std::map<std::string, ColumnPtr> vocabularies_;
  std::map<std::string, std::vector<ColumnPtr>> made_;  // empty: in progress
  int depth_ = 0;                                       // of columns in progress
};

towers::Label read_label(const toml::node& node, const TomlPlace& place) {
  const toml::table* table = node.as_table();
  if (table == nullptr) throw UsageError("expected a table", place.at(node));
  Fields fields(*table, place);
  towers::Label label;
  label.key = fields.get<std::string>("key");
  label.classes = fields.list<std::string>("classes");
  const auto dtype = fields.find<std::string>("dtype");
  label.dtype = label.classes.empty() ? DType::i64 : DType::bytes;
  try {
    if (dtype) label.dtype = dtype_of_text(*dtype);
    static_cast<void>(towers::label_feature(label));
  } catch (const Error& error) {
    throw UsageError(error.what(), place.at(node));
  } catch (const UsageError& error) {
    throw error.at(place.at(node));
  }
  fields.end();
  return label;
}

WordsOf words_beside(const std::filesystem::path& folder) {
  return [folder](const std::string&, const std::filesystem::path& file, std::int64_t size) {
    return towers::read_vocabulary((folder / file).string(), size);
  };
}

}  // namespace

ColumnsFile read_columns(std::string text, const std::string& name, const WordsOf& words_of) {
  const toml::table root = parse_toml(text, name);
  Fields top(root, {name, ""});
  ColumnsFile file{.text = std::move(text)};
  towers::ColumnModel& made = file.model;
  const auto table_of = [&](const char* key) -> const toml::table& {
    const toml::node* node = top.node(key);
    if (node == nullptr || !node->is_table())
      throw UsageError("there is no table [" + std::string(key) + "]", printable(name));
    return *node->as_table();
  };
  Reader columns(table_of("columns"), top.place().child("columns"), words_of);
  file.vocabularies = columns.make_all();
  file.na_values = top.list<std::string>("na_values");
  if (const toml::node* node = top.node("label"))
    made.label = read_label(*node, top.place().child("label"));
  Fields model(table_of("model"), top.place().child("model"));
  if (made.label && !made.label->classes.empty())
    made.classes = static_cast<std::int64_t>(made.label->classes.size());
  made.classes = model.get<std::int64_t>("classes", made.classes);
  made.dimension = model.get<std::int64_t>("dimension", made.dimension);
  made.scale = model.get<float>("scale", made.scale);
  if (model.has("hidden")) made.hidden = model.list<std::int64_t>("hidden");
  static_cast<void>(model.node("hidden"));
  for (const std::string& part : model.left())
    for (const std::string& column : model.list<std::string>(part)) {
      const auto& all =
          columns.columns(column, model.place().child(part).at(*model.table().get(part)));
      made.parts[part].insert(made.parts[part].end(), all.begin(), all.end());
    }
  top.end();
  try {
    static_cast<void>(made.features());
  } catch (const Error& error) {
    throw UsageError(error.what(), printable(name));
  }
  return file;
}

ColumnsFile read_columns_file(const std::string& path) {
  return read_columns(read_toml_text(path, "the columns"), path,
                      words_beside(std::filesystem::path(path).parent_path().string()));
}

towers::ColumnModel columns_from_toml(const std::string& text, const std::string& name,
                                      const std::string& folder) {
  return read_columns(text, name, words_beside(folder)).model;
}

towers::ColumnModel load_columns(const std::string& path) {
  return read_columns_file(path).model;
}

}  // namespace penstock::tool
