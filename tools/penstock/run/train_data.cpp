#include "tools/penstock/run/train_data.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <penstock/element.h>
#include <penstock/image_records.h>
#include <penstock/internal/contents.h>
#include <penstock/internal/crc32c.h>
#include <penstock/internal/find_files.h>
#include <penstock/iterator.h>
#include <penstock/map.h>
#include <penstock/plan.h>
#include <penstock/sources.h>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/run/train_weights.h"
#include "tools/penstock/shards/format.h"
#include "tools/penstock/shards/open.h"
#include "towers/one_number.h"

namespace penstock::tool {
namespace {

bool is_image_name(const std::string& name) {
  return name.ends_with(".jpg") || name.ends_with(".jpeg") || name.ends_with(".png");
}

const ComponentSpec kLabel{"label", DType::i64, {}};

/// Renames the components `second` to `first`. They replace components that already have these
/// names.
Dataset renamed(const Dataset& data,
                const std::vector<std::pair<std::string, std::string>>& names) {
  std::vector<ComponentSpec> output;
  std::vector<std::size_t> places;  // in the input
  for (std::size_t i = 0; i < data.spec().size(); ++i) {
    ComponentSpec component = data.spec()[i];
    bool replaced = false;
    for (const auto& [own, theirs] : names) {
      if (theirs == component.name) {
        component.name = own;
        replaced = false;
        break;
      }
      replaced = replaced || own == component.name;
    }
    if (replaced) continue;
    output.push_back(component);
    places.push_back(i);
  }
  const Spec result(std::move(output));
  return data.map(
      [called = result.names(), places = std::move(places)](Element in) {
        Element out(called);
        for (std::size_t i = 0; i < places.size(); ++i) out[i] = std::move(in[places[i]]);
        return out;
      },
      {.name = "rename", .output = result});
}

/// Returns the data with label 0 for each element, for prediction.
Dataset without_labels(const Dataset& data) {
  return data.map([](const Element& /*in*/) { return std::int64_t{0}; },
                  {.name = "no_label", .adds = {kLabel}});
}

/// One array for each component of the model, in its order.
Dataset open_arrays(const std::vector<std::string>& paths, const TrainDataOptions& options) {
  std::string order;
  for (const towers::TakenComponent& taken : options.takes)
    order += (order.empty() ? "" : ",") + taken.name;
  if (order.empty())
    throw UsageError("this model does not name its arrays; use --pipeline to read them");
  if (paths.size() > options.takes.size() ||
      (paths.size() < options.takes.size() && options.labels))
    throw UsageError("expected one array file for each of " + order + ", got " +
                     std::to_string(paths.size()));
  std::vector<Dataset> columns;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Dataset rows = npy(Paths{paths[i]});
    if (rows.cardinality() != (i == 0 ? rows : columns.front()).cardinality())
      throw UsageError(paths[i] + " has " + std::to_string(rows.cardinality()) + " rows, " +
                       paths.front() + " has " + std::to_string(columns.front().cardinality()));
    columns.push_back(renamed(rows, {{options.takes[i].name, "value"}}));
  }
  return columns.size() == 1 ? columns.front() : zip(columns);
}

/// Throws Error or UsageError that names the format of the files if the first ones are no images.
/// Does nothing if there are no files: the source reports it.
void refuse_no_images(const std::vector<std::string>& paths, bool hidden) {
  constexpr std::size_t kMostOpened = 16;
  const FileSystemPtr files = default_file_system();
  std::vector<std::string> found;
  try {
    for (const std::string& path : paths)
      for (std::string& file : find_files(*files, path, hidden)) found.push_back(std::move(file));
  } catch (const Error&) {
    return;
  }
  found.resize(std::min(found.size(), kMostOpened));
  const auto may_be_image = [&](const std::string& file) {
    if (is_image_name(lower(file)) || files->is_directory(file)) return true;
    const Format format = detect_format(file);
    return format == Format::jpeg || format == Format::png;
  };
  if (found.empty() || std::ranges::any_of(found, may_be_image)) return;
  const Format format = detect_format(found.front());
  if (format == Format::unknown) refuse_unknown(found.front());
  throw UsageError("by its bytes, this is " + std::string(name_of(format)) +
                       ", but its name does not say so; --data needs a name in .tar, .tfrecord, "
                       ".csv, .npy, .pnr or .bin, and --pipeline takes any name",
                   printable(found.front()));
}

/// Returns a pattern for the files of one kind: "f/*.tar", "f/train-*-of-00008" of one of them.
std::string pattern_beside(const std::string& path) {
  const std::filesystem::path file(path);
  std::string name = file.filename().string();
  const std::size_t of = name.find("-of-");
  const std::size_t dash = of == name.npos || of == 0 ? name.npos : name.rfind('-', of - 1);
  if (dash != name.npos) {
    name.replace(dash + 1, of - dash - 1, "*");
  } else if (const std::size_t dot = name.find('.', 1); dot != name.npos) {
    name.replace(0, dot, "*");
  }
  return (file.parent_path() / name).string();
}

std::string digits_of(const std::string& path) {
  const std::string labels = labels_beside(path);
  return labels.empty() ? path : path + "," + labels;
}

/// Opens a folder of images. Throws UsageError that says how to name other data in the folder.
Dataset open_folder(const std::string& folder, const ImagesOptions& options) {
  try {
    return images(folder, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    for (const Shard& shard : find_shards(folder, options.hidden).found) {
      if (shard.format == Format::lines || shard.format == Format::tokens ||
          shard.format == Format::unknown)
        continue;
      const std::string files = shard.format == Format::idx
                                    ? digits_of(shard.path)
                                    : "'" + pattern_beside(shard.path) + "'";
      throw UsageError("this folder holds no images, but " + std::string(name_of(shard.format)) +
                       ": give its files, such as " + printable(files));
    }
    throw;
  }
}

/// Opens CSV as text, and as numbers where the model takes numbers.
Dataset open_csv(const std::vector<std::string>& paths, const TrainDataOptions& options) {
  const Dataset text = csv(paths);
  CsvOptions typed;
  bool numbers = false;
  for (const ComponentSpec& column : text.spec()) {
    CsvOptions::Column one{column.name};
    for (const towers::TakenComponent& taken : options.takes) {
      const std::string named = options.name_of(taken.name);
      if (column.name != (named.empty() ? taken.name : named)) continue;
      for (const auto& form : taken.forms)
        if (one.dtype == DType::bytes && form.shape.rank() == 0 &&
            (form.dtype == DType::i64 || form.dtype == DType::f32))
          one.dtype = form.dtype;
      for (const auto& form : taken.forms)
        if (form.dtype == DType::bytes) one.dtype = DType::bytes;
    }
    numbers = numbers || one.dtype != DType::bytes;
    typed.columns.push_back(one);
  }
  return numbers ? csv(paths, typed) : text;
}

}  // namespace

std::string TrainDataOptions::name_of(const std::string& component) const {
  for (const auto& [own, theirs] : names)
    if (own == component) return theirs;
  return {};
}

Dataset open_train_data(const std::string& path, const TrainDataOptions& options) {
  const std::string& label_regex = options.label_regex;
  ImagesOptions of_images;
  of_images.label_regex = label_regex;
  of_images.label_depth = options.label_depth;
  of_images.hidden = options.hidden;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_folder(path, of_images);
  const std::vector<std::string> parts = split_paths(*default_file_system(), path);
  const std::string name =
      lower(std::filesystem::path(expand_braces(parts.front()).front()).filename().string());
  if (name.ends_with(".tar")) {
    if (options.label_depth)
      throw UsageError("the data are tar shards: --label-depth applies to folders only");
    TarOptions of_tar;
    of_tar.label_regex = label_regex;
    of_tar.hidden = options.hidden;
    return tar(parts, of_tar);
  }
  const bool is_idx = name.find("idx") != name.npos && !is_image_name(name);
  const bool is_csv = name.ends_with(".csv");
  const bool is_npy = name.ends_with(".npy");
  // TensorFlow's own scripts use names such as train-00000-of-01024.
  const bool is_examples = name.find("tfrecord") != name.npos ||
                           (name.find("-of-") != name.npos && !is_image_name(name));
  const bool has_labels =
      is_csv || is_npy || is_examples || name.ends_with(".pnr") || name.ends_with(".bin") || is_idx;
  if (has_labels && !label_regex.empty())
    throw UsageError(
        "the data have their own labels: --label-regex applies to images and tar shards only");
  if (has_labels && options.label_depth)
    throw UsageError("the data have their own labels: --label-depth applies to folders only");
  if (has_labels && options.hidden)
    throw UsageError(
        "the data are neither a folder nor tar shards: --hidden applies to those only");
  if (is_csv) return open_csv(parts, options);
  if (is_npy) return open_arrays(parts, options);
  if (is_examples) return open_examples(parts, options);
  if (name.ends_with(".pnr")) return image_records(parts);
  if (name.ends_with(".bin")) return cifar10(parts);
  if (is_idx) {
    if (parts.size() == 1 && !options.labels) return idx(parts[0]);
    if (parts.size() != 2)
      throw UsageError("IDX data need two files, IMAGES,LABELS, not " + in_quotes(path));
    return idx(parts[0], parts[1]);
  }
  refuse_no_images(parts, options.hidden);
  return images(path, of_images);
}

Dataset fitted(const Dataset& stored, const TrainDataOptions& options) {
  Dataset data = stored;
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [own, theirs] : options.names) {
    const bool there = data.spec().find(theirs) >= 0;
    // It already has that name.
    if (own == theirs || (!there && data.spec().find(own) >= 0)) continue;
    if (!there)
      throw UsageError("the data have no component " + in_quotes(theirs) + ", but " +
                       data.spec().to_string());
    names.emplace_back(own, theirs);
  }
  if (!names.empty()) data = renamed(data, names);
  if (!options.labels) return without_labels(data);
  const int at = data.spec().find("label");
  if (at >= 0) {
    const ComponentSpec& label = data.spec()[static_cast<std::size_t>(at)];
    const bool single = label.shape == Shape{} || label.shape == Shape{1};
    if (single && towers::is_integer(label.dtype) && !(label == kLabel))
      data = data.map([](const Element& in) { return towers::integer_in(in["label"]); },
                      {.name = "label", .adds = {kLabel}});
  }
  return options.weight_column.empty() ? data : with_weight_column(data, options.weight_column);
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

std::string fingerprint_of(const Dataset& stored, bool trusted) {
  constexpr std::int64_t kFirst = 4;
  const std::int64_t count = stored.cardinality();
  std::uint32_t sum = 0;
  const auto add = [&sum](const void* data, std::size_t bytes) {
    sum = crc32c({static_cast<const std::byte*>(data), bytes}, sum);
  };
  try {
    for (Element& element : stored.take(kFirst).iterate({.threads = 1})) {
      for (std::size_t i = 0; i < element.size(); ++i) {
        const Tensor tensor = element[i].clone();
        if (tensor.dtype() != DType::bytes) {
          add(tensor.data(), tensor.nbytes());
          continue;
        }
        for (std::int64_t k = 0; k < tensor.volume(); ++k)
          add(tensor.bytes_at(k).data(), tensor.bytes_at(k).size());
      }
    }
  } catch (const Error& error) {  // training reports the error
    add(error.cause().data(), error.cause().size());
  }
  char text[48];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(sum));
  std::string all = (count < 0 ? "unknown" : std::to_string(count)) + " records, the first " + text;
  if (trusted) return all;
  try {
    std::snprintf(text, sizeof text, ", contents %016llx",
                  static_cast<unsigned long long>(contents_digest(stored)));
  } catch (const Error&) {  // likewise
    return all + ", contents that can't be read";
  }
  return all + text;
}

std::string graph_of(const Dataset& dataset) {
  const Plan plan = compile(dataset);
  std::string text;
  for (const PlannedStage& stage : plan.stages())
    text += stage.label + " " + stage.options + " " + std::to_string(stage.cardinality) + "; ";
  char hash[9];
  std::snprintf(hash, sizeof hash, "%08x",
                static_cast<unsigned>(crc32c(std::as_bytes(std::span(text)))));
  return std::to_string(plan.stages().size()) + " stages " + hash;
}

}  // namespace penstock::tool
