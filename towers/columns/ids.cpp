#include "towers/columns/ids.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <string_view>

#include <penstock/error.h>

#include "towers/columns/vocabulary.h"
#include "towers/numbers.h"

namespace penstock::towers {
namespace {

using Kind = Column::Kind;

[[noreturn]] void no_id(const Column& column, const std::string& value) {
  throw Error(ErrorCode::mismatch, "column " + column.name + ": " + value + " in feature " +
                                       column.feature.key + " is not one of its " +
                                       std::to_string(column.buckets) + " ids");
}

/// A value of a feature: its text or its number.
struct Value {
  std::string_view text;
  std::int64_t number = 0;
};

std::uint64_t fingerprint_of(const Column& column, const Value& value) {
  if (column.feature.dtype == DType::bytes) return fingerprint64(value.text);
  char text[24];
  const auto end = std::to_chars(std::begin(text), std::end(text), value.number).ptr;
  return fingerprint64({text, static_cast<std::size_t>(end - text)});
}

std::int64_t hashed(const Column& column, const Value& value, std::int64_t buckets) {
  return static_cast<std::int64_t>(fingerprint_of(column, value) %
                                   static_cast<std::uint64_t>(buckets));
}

std::int64_t look_up(const Column& column, const Value& value) {
  const Column::Vocabulary& all = *column.vocabulary;
  if (column.feature.dtype == DType::bytes) {
    if (const auto found = all.words.find(value.text); found != all.words.end())
      return found->second;
  } else if (const auto found = all.numbers.find(value.number); found != all.numbers.end()) {
    return found->second;
  }
  if (column.oov_buckets == 0) return column.default_value.value_or(kNoId);
  return column.buckets - column.oov_buckets + hashed(column, value, column.oov_buckets);
}

std::int64_t id_of(const Column& column, const Value& value) {
  if (column.kind == Kind::hash_bucket) return hashed(column, value, column.buckets);
  if (column.kind == Kind::vocabulary) return look_up(column, value);
  if (value.number >= 0 && value.number < column.buckets) return value.number;
  if (!column.default_value) no_id(column, std::to_string(value.number));
  return *column.default_value;
}

/// Calls `take(value, is_one)` for each value, in order.
template <typename Take>
void for_each_value(const FeatureValues& feature, bool fixed, const Take& take) {
  for (const std::string_view text : feature.texts) take(Value{text}, !fixed || !text.empty());
  for (const std::int64_t number : feature.integers)
    take(Value{{}, number}, !fixed || number != kNoId);
}

}  // namespace

void read_numbers(const FeatureValues& feature, std::vector<float>& numbers) {
  const auto take = [&](const auto& values) {
    numbers.resize(values.size());
    std::ranges::transform(values, numbers.begin(),
                           [](auto value) { return static_cast<float>(value); });
  };
  if (feature.dtype == DType::f32) {
    take(feature.floats);
  } else if (feature.dtype == DType::f64) {
    take(feature.doubles);
  } else {
    take(feature.integers);
  }
}

void find_buckets(const Column& bucketized, const std::vector<float>& numbers, Ids& ids) {
  const std::vector<float>& bounds = bucketized.boundaries;
  const auto each = static_cast<std::int64_t>(bounds.size() + 1);
  ids.clear();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ids.push_back(static_cast<std::int64_t>(i) * each +
                  (std::ranges::upper_bound(bounds, numbers[i]) - bounds.begin()));
}

void find_ids(const Column& column, const FeatureValues& feature, bool fixed, Ids& ids) {
  ids.clear();
  for_each_value(feature, fixed, [&](const Value& value, bool is_one) {
    ids.push_back(is_one ? id_of(column, value) : kNoValue);
  });
}

void find_crosses(const Column& crossed, const std::vector<CrossPart>& parts,
                  const std::vector<FeatureValues>& features, const std::vector<Ids>& of_steps,
                  CrossScratch& scratch, Ids& ids) {
  std::vector<std::uint64_t>& values = scratch.values;
  std::vector<std::uint64_t>& hashes = scratch.hashes;
  std::vector<std::uint64_t>& next = scratch.next;
  hashes.assign(1, crossed.hash_key);
  for (const CrossPart& part : parts) {
    values.clear();
    if (part.input < 0) {
      for (const std::int64_t id : of_steps[part.step])
        if (id != kNoValue) values.push_back(static_cast<std::uint64_t>(id));
    } else {
      for_each_value(
          features[static_cast<std::size_t>(part.input)], false, [&](const Value& value, bool) {
            values.push_back(part.dtype == DType::bytes ? fingerprint64(value.text)
                                                        : static_cast<std::uint64_t>(value.number));
          });
    }
    if (values.size() * hashes.size() > static_cast<std::size_t>(kMostCrosses))
      throw Error(ErrorCode::out_of_range, "column " + crossed.name + ": more than " +
                                               std::to_string(kMostCrosses) +
                                               " crosses in one example");
    next.clear();
    for (const std::uint64_t hash : hashes)
      for (const std::uint64_t value : values) next.push_back(fingerprint_cat64(hash, value));
    std::swap(hashes, next);
  }
  ids.clear();
  for (const std::uint64_t hash : hashes)
    ids.push_back(static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(crossed.buckets)));
}

std::string text_of(const Column& column) {
  std::string text = std::to_string(static_cast<int>(column.kind));
  const auto add = [&](const std::string& part) { text += " " + part; };
  if (!column.feature.key.empty()) add("of " + column.feature.key);
  if (column.sequence) add("sequence");
  if (column.buckets > 0) add("buckets " + std::to_string(column.buckets));
  if (column.default_value) add("default " + std::to_string(*column.default_value));
  if (column.oov_buckets > 0) add("oov " + std::to_string(column.oov_buckets));
  if (column.vocabulary != nullptr) add("words " + std::to_string(column.vocabulary->digest));
  for (const float bound : column.boundaries) add(exact_text(bound));
  for (const CrossKey& key : column.keys)
    add("x " + (key.column != nullptr ? "column " + key.column->name : key.key));
  if (column.kind == Kind::crossed) add("key " + std::to_string(column.hash_key));
  const Normalizer& normalizer = column.normalizer;
  if (normalizer.is_identity()) return text;
  if (normalizer.log1p) add("log1p");
  add("- " + exact_text(normalizer.subtract) + " / " + exact_text(normalizer.divide));
  if (normalizer.function) add("then " + normalizer.name);
  return text;
}

}  // namespace penstock::towers
