#include "tools/penstock/shards/open.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include <penstock/image_records.h>
#include <penstock/internal/find_files.h>
#include <penstock/internal/other_format.h>
#include <penstock/remote_files.h>
#include <penstock/sources.h>

#include "pipelines/kinds.h"
#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "tools/penstock/shards/example_view.h"

namespace penstock::tool {
namespace {

/// Writes no files next to data that is only inspected.
template <typename Options>
Options without_index() {
  Options options;
  options.index_folder = "-";
  return options;
}
template <typename Options>
Options without_index(bool hidden) {
  Options options = without_index<Options>();
  options.hidden = hidden;
  return options;
}

bool is_image_name(const std::string& path) {
  const std::string name = lower(path);
  return name.ends_with(".jpg") || name.ends_with(".jpeg") || name.ends_with(".png");
}

/// True for Penstock's own files.
bool is_no_data(const std::string& path) {
  return std::filesystem::path(path).filename() == "manifest.jsonl";
}

bool is_shard_name(const std::string& path) {
  const std::string name = lower(std::filesystem::path(path).filename().string());
  const auto ends = [&](const char* ending) { return name.ends_with(ending); };
  return name.find(".tfrecord") != name.npos || ends(".tar") || ends(".npy") || ends(".csv") ||
         ends(".pnr") || ends("-ubyte") || ends("-ubyte.gz") || ends("-idx2-int") ||
         ends("-idx2-int.gz");
}

/// Next to images, a text is more likely a note than data, unless its name says that it is data.
bool is_shard_beside_images(const std::string& path) {
  if (is_shard_name(path)) return true;
  try {
    const Format format = detect_format(path);
    return format != Format::unknown && format != Format::lines && format != Format::csv;
  } catch (const Error&) {
    return false;
  }
}

Shard shard_at(const std::string& path) {
  Shard shard{path, detect_format(path), 0};
  std::error_code error;
  if (shard.format == Format::folder) return shard;
  shard.bytes = is_remote(path) ? default_file_system()->info(path).size
                                : std::filesystem::file_size(path, error);
  return shard;
}

/// Returns the features of a tf.Example that hold an image or a label.
std::vector<std::string> telling_among(const std::vector<FeatureView>& example) {
  std::vector<std::string> features;
  bool image = false;
  for (const FeatureView& feature : example) {
    const bool encoded = feature.kind == 'b' && feature.count == 1 &&
                         (feature.key.ends_with("encoded") || feature.key == "image");
    if (encoded && !image) features.push_back(feature.key);
    image = image || encoded;
    if (feature.kind == 'i' && feature.count == 1 && feature.key.ends_with("label"))
      features.push_back(feature.key);
  }
  return features;
}

/// Returns those of the first tf.Example among the records. Records before it may be damaged.
std::vector<std::string> telling_features(const Dataset& records) {
  constexpr std::int64_t kMost = 1000;
  Iterator iterator = records.take(kMost).iterate({});
  while (Next next = iterator.next()) {
    if (next.is_error()) continue;
    const auto example = view_example((*next)["record"].bytes_at());
    if (example) return telling_among(*example);
  }
  return {};
}

bool exists(const std::string& path) {
  if (!is_remote(path)) return std::filesystem::exists(path);
  try {
    default_file_system()->info(path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string labels_beside(const std::string& images) {
  const std::pair<std::string_view, std::string_view> kNames[] = {
      {"images-idx3", "labels-idx1"}, {"images-idx3-ubyte", "labels-idx2-int"}};  // then QMNIST's
  for (const auto& [of_images, of_labels] : kNames) {
    std::string path = images;
    const std::size_t at = path.rfind(of_images);
    if (at == path.npos) continue;
    path.replace(at, of_images.size(), of_labels);
    if (exists(path)) return path;
  }
  return "";
}

void PassedOver::add(const std::string& path) {
  const std::string extension = lower(std::filesystem::path(path).extension().string());
  ++by_extension_[extension.empty() ? "no extension" : extension];
}

void PassedOver::add(const PassedOver& others) {
  hidden_ += others.hidden_;
  for (const auto& [extension, count] : others.by_extension_) by_extension_[extension] += count;
}

std::uint64_t PassedOver::count() const noexcept {
  std::uint64_t all = hidden_;
  for (const auto& [extension, count] : by_extension_) all += count;
  return all;
}

std::string PassedOver::text() const {
  constexpr std::size_t kMostNamed = 20;
  List parts;
  for (const auto& [extension, count] : by_extension_)
    if (parts.size() < kMostNamed)
      parts.push_back(printable(extension) + " (" + grouped(count) + ")");
  const std::uint64_t others = count() - hidden_;
  List texts;
  if (others > 0)
    texts.push_back(plural(others, "other file", "other files") + " beside images, not read: " +
                    join(parts, ", ") + (by_extension_.size() > kMostNamed ? " and others" : ""));
  if (hidden_ > 0)
    texts.push_back(plural(hidden_, "hidden file is", "hidden files are") +
                    " skipped (--hidden reads " + (hidden_ == 1 ? "it)" : "them)"));
  return join(texts, "; ");
}

Shards find_shards(const std::string& path, bool hidden) {
  const FileSystemPtr files = default_file_system();
  Shards shards;
  for (const std::string& found : find_files(*files, path, hidden)) {
    if (!files->is_directory(found)) {
      shards.found.push_back(shard_at(found));
      continue;
    }
    std::vector<std::string> others;  // the files that are no images
    std::size_t skipped = 0;
    bool images = false;
    bool hidden_images = false;
    files->list_each(found, [&](const std::string& file) {
      const bool image = is_image_name(file);
      if (!hidden && is_hidden(file, found)) {
        ++skipped;
        hidden_images = hidden_images || image;
      } else if (image) {
        images = true;
      } else {
        others.push_back(file);
      }
    });
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    // The source of images reports hidden images itself.
    if (!images || !hidden_images) shards.skipped.add_hidden(skipped);
    if (images) shards.found.push_back(shard_at(found));
    for (const std::string& file : others) {
      if (is_no_data(file)) continue;
      if (!images || is_shard_beside_images(file)) {
        shards.found.push_back(shard_at(file));
      } else {
        shards.skipped.add(file);
      }
    }
  }
  if (shards.found.empty())
    throw Error(ErrorCode::not_found,
                shards.skipped.count() == 0
                    ? "there are no files here"
                    : "there are only hidden files here (--hidden reads them)",
                Provenance{path});
  return shards;
}

Dataset open_shard(const Shard& shard, bool hidden) {
  switch (shard.format) {
    case Format::folder:
    case Format::jpeg:
    case Format::png:
      return images(shard.path, without_index<ImagesOptions>(hidden));
    case Format::tar:
      return tar({shard.path}, without_index<TarOptions>(hidden));
    case Format::tfrecord:
      return tfrecord({shard.path}, without_index<TFRecordOptions>());
    case Format::idx:
      return idx(shard.path, labels_beside(shard.path), without_index<FileOptions>());
    case Format::cifar10:
      return cifar10({shard.path}, without_index<FileOptions>());
    case Format::npy:
      return npy({shard.path}, without_index<FileOptions>());
    case Format::csv:
      return csv({shard.path}, without_index<CsvOptions>());
    case Format::lines:
      return text_lines({shard.path}, without_index<FileOptions>());
    case Format::records:
      return image_records({shard.path}, without_index<FileOptions>());
    case Format::tokens: {
      auto options = without_index<TokenShardsOptions>();
      options.keep_remainder = true;  // all tokens
      options.dtype = DType::i64;     // of any id
      try {
        return token_shards({shard.path}, 1024, options);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument) throw;
        // There are too few tokens for a window.
        return tensors({{"tokens", Tensor::of<std::int64_t>({0, 1}, {})}});
      }
    }
    case Format::unknown:
      break;
  }
  refuse_unknown(shard.path);
}

void refuse_unknown(const std::string& path) {
  refuse_other_format(*default_file_system()->open(path));
  throw Error(ErrorCode::data_loss, "unknown file format", Provenance{path});
}

Dataset open_samples(const Shard& shard, bool hidden) {
  Dataset records = open_shard(shard, hidden);
  if (shard.format != Format::tfrecord) return records;
  const std::vector<std::string> features = telling_features(records);
  return features.empty() ? records : records.map_op(parse_example(parse_features(features)));
}

std::optional<std::string> encoded_component(const Spec& spec) {
  for (const char* name : {"image", "jpg", "jpeg", "png"}) {
    const int at = spec.find(name);
    if (at >= 0 && spec[static_cast<std::size_t>(at)].dtype == DType::bytes) return name;
  }
  return std::nullopt;
}

}  // namespace penstock::tool
