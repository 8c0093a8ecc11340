// The ids of one example.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/towers/columns/column.h>
#include "towers/columns/feature_input.h"

namespace penstock::towers {

using Ids = std::vector<std::int64_t>;

/// The id of a value that has none.
inline constexpr std::int64_t kNoId = -1;
/// The id of a missing value, if the number of values is fixed.
inline constexpr std::int64_t kNoValue = -2;
inline constexpr std::int64_t kMostCrosses = 1 << 16;  ///< in one example

/// One key of a cross: a feature, or a step whose ids are known already.
struct CrossPart {
  int input = -1;
  bool fixed = false;  ///< the feature has a fixed shape
  DType dtype = DType::bytes;
  std::size_t step = 0;
};

struct CrossScratch {
  std::vector<std::uint64_t> values{}, hashes{}, next{};
};

/// Converts the numbers of a feature to f32. REQUIRES: f32, f64 or i64.
void read_numbers(const FeatureValues& feature, std::vector<float>& numbers);
void find_buckets(const Column& bucketized, const std::vector<float>& numbers, Ids& ids);
/// Finds the ids of an identity, hash bucket or vocabulary column. If the shape is fixed, "" and -1
/// are missing values. Throws Error{mismatch}, which names the column and the feature, for a value
/// that has no id.
void find_ids(const Column& column, const FeatureValues& feature, bool fixed, Ids& ids);
/// Finds every combination of values; the last part changes fastest. `of_steps` holds the ids of
/// columns. Throws Error{out_of_range} for more than kMostCrosses combinations.
void find_crosses(const Column& crossed, const std::vector<CrossPart>& parts,
                  const std::vector<FeatureValues>& features, const std::vector<Ids>& of_steps,
                  CrossScratch& scratch, Ids& ids);

/// Returns everything that ids and numbers depend on, for the fingerprint of a graph.
std::string text_of(const Column& column);

}  // namespace penstock::towers
