#include "tools/penstock/run/train_data.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include <penstock/image_records.h>
#include <penstock/sources.h>

#include "tools/penstock/support/numbers.h"
#include "tools/penstock/support/text.h"
#include "tools/penstock/support/usage_error.h"

namespace penstock::tool {
namespace {

bool is_image_name(const std::string& name) {
  return name.ends_with(".jpg") || name.ends_with(".jpeg") || name.ends_with(".png");
}

}  // namespace

Dataset open_train_data(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return images(path);
  const std::vector<std::string> parts = split(path, ',');
  const std::string name = lower(std::filesystem::path(parts.front()).filename().string());
  if (name.ends_with(".tar")) return tar(parts);
  if (name.ends_with(".csv")) return csv(parts);
  if (name.ends_with(".pnr")) return image_records(parts);
  if (name.ends_with(".bin")) return cifar10(parts);
  if (name.find(".tfrecord") != name.npos)
    throw UsageError(
        "takes .tar, .pnr, .bin, .csv, a pair of IDX files or a folder of images, not " +
        in_quotes(path));
  if (name.find("idx") != name.npos && !is_image_name(name)) {
    if (parts.size() != 2)
      throw UsageError("IDX data are two files, IMAGES,LABELS, not " + in_quotes(path));
    return idx(parts[0], parts[1]);
  }
  return images(path);
}

Dataset records_in(const Dataset& dataset, const std::string& range) {
  if (range.empty()) return dataset;
  Dataset kept = dataset;
  const std::vector<std::string> ends = split(range, ':');
  if (ends.size() != 2) throw UsageError("expected A:B, got " + in_quotes(range));
  const std::int64_t first = ends[0].empty() ? 0 : parse_integer(ends[0]);
  if (first < 0) throw UsageError("a range can't begin below 0: " + in_quotes(range));
  const std::int64_t records = dataset.cardinality();
  const auto check_end = [&](std::int64_t end) {
    if (records >= 0 && end > records)
      throw UsageError("there are only " + std::to_string(records) + " records, got " +
                       in_quotes(range));
  };
  check_end(first);
  if (!ends[1].empty()) {
    const std::int64_t last = parse_integer(ends[1]);
    if (last < first) throw UsageError("a range can't end before it begins: " + in_quotes(range));
    check_end(last);
    kept = kept.take(last);
  }
  return first > 0 ? kept.skip(first) : kept;
}

}  // namespace penstock::tool
