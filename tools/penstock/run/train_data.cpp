#include "tools/penstock/run/train_data.h"

#include <vector>

#include <penstock/sources.h>

#include "tools/penstock/support/numbers.h"
#include "tools/penstock/support/text.h"
#include "tools/penstock/support/usage_error.h"

namespace penstock::tool {
namespace {

Dataset open(const std::string& path) {
  const std::vector<std::string> parts = split(path, ',');
  const std::string name = lower(parts.front());
  if (name.ends_with(".tar")) return tar(parts);
  if (name.ends_with(".csv")) return csv(parts);
  if (name.ends_with(".bin")) return cifar10(parts);
  if (name.find("idx") != std::string::npos && !name.ends_with("/")) {
    if (parts.size() != 2)
      throw UsageError("IDX data are two files, IMAGES,LABELS, not " + in_quotes(path));
    return idx(parts[0], parts[1]);
  }
  return images(path);
}

}  // namespace

Dataset open_train_data(const std::string& path, const std::string& range) {
  Dataset dataset = open(path);
  if (range.empty()) return dataset;
  const std::vector<std::string> ends = split(range, ':');
  if (ends.size() != 2) throw UsageError("expected A:B, got " + in_quotes(range));
  const std::int64_t first = ends[0].empty() ? 0 : parse_integer(ends[0]);
  if (first < 0) throw UsageError("a range can't begin below 0: " + in_quotes(range));
  if (!ends[1].empty()) {
    const std::int64_t last = parse_integer(ends[1]);
    if (last < first) throw UsageError("a range can't end before it begins: " + in_quotes(range));
    dataset = dataset.take(last);
  }
  return first > 0 ? dataset.skip(first) : dataset;
}

}  // namespace penstock::tool
