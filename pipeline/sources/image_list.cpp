#include "pipeline/sources/image_list.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <map>

#include <penstock/error.h>
#include <penstock/find_files.h>
#include <penstock/log.h>
#include <penstock/other_format.h>
#include <penstock/remote_files.h>

#include "pipeline/sources/contents.h"
#include "pipeline/sources/labels.h"
#include "pipeline/sources/parallel.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace {

constexpr std::size_t kMostNamed = 20;
constexpr std::size_t kImagesAtOnce = 256;

bool is_image_name(std::string_view path) {
  static constexpr std::array<std::string_view, 3> kExtensions = {".jpg", ".jpeg", ".png"};
  const auto ends_with = [path](std::string_view extension) {
    return path.size() >= extension.size() &&
           std::ranges::equal(
               path.substr(path.size() - extension.size()), extension,
               [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
  };
  return std::ranges::any_of(kExtensions, ends_with);
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The other files in a folder of images, counted by extension.
class LeftOut {
 public:
  void add(const std::string& path) {
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::size_t dot = name.rfind('.');
    ++count_;
    ++by_extension_[dot == name.npos ? "no extension" : lower(name.substr(dot))];
  }
  std::size_t count() const noexcept { return count_; }
  /// True if one of them is probably an image.
  bool images() const {
    static constexpr std::array<const char*, 15> kImages = {
        ".webp", ".jfif", ".jpe", ".gif", ".bmp", ".tif", ".tiff", ".avif",
        ".heic", ".heif", ".jxl", ".jp2", ".ppm", ".pgm", ".ico"};
    return std::ranges::any_of(
        kImages, [this](const char* extension) { return by_extension_.contains(extension); });
  }
  /// Returns a text such as "2 of 4 files: .jfif (1), .webp (1) are not read".
  std::string text(std::size_t read) const {
    std::string list;
    std::size_t named = 0;
    for (const auto& [extension, count] : by_extension_) {
      if (++named > kMostNamed) break;
      list += (list.empty() ? "" : ", ") + extension + " (" + std::to_string(count) + ")";
    }
    if (named > kMostNamed) list += " and others";
    return std::to_string(count_) + " of " + std::to_string(read + count_) + " files: " + list +
           (count_ == 1 ? " is not read" : " are not read");
  }

 private:
  std::size_t count_ = 0;
  std::map<std::string, std::size_t> by_extension_;
};

/// Returns "; there is an LMDB database: …" if one of the first files has a format that is known.
std::string other_format_in(FileSystem& files, const std::string& folder) {
  constexpr std::size_t kMostOpened = 16;
  std::vector<std::string> paths = files.list(folder);
  paths.resize(std::min(paths.size(), kMostOpened));
  for (const std::string& path : paths) {
    try {
      if (const OtherFormat* const format = find_other_format(*files.open(path)))
        return "; there is " + format->text();
    } catch (const Error&) {  // it can't be opened
      continue;
    }
  }
  return "";
}

std::string first_of(const std::vector<std::string>& texts) {
  std::string list;
  for (std::size_t i = 0; i < std::min(texts.size(), kMostNamed); ++i) {
    list.append(i == 0 ? "" : ", ").append(texts[i]);
  }
  if (texts.size() > kMostNamed) {
    list += " and " + std::to_string(texts.size() - kMostNamed) + " more";
  }
  return list;
}

void log_hidden(const std::string& folder, const std::vector<std::string>& hidden) {
  if (hidden.empty()) return;
  const bool one = hidden.size() == 1;
  // What a system or an editor leaves beside data is no news, unless it looks like data.
  const auto image = std::ranges::find_if(hidden, is_image_name);
  const bool images = image != hidden.end();
  const std::string& shown = images ? *image : hidden.front();
  const std::string first = shown.substr(std::min(folder.size(), shown.size()));
  log_once(images ? LogLevel::warning : LogLevel::info, "hidden in " + folder,
           folder + ": " + std::to_string(hidden.size()) +
               (one ? " hidden file is skipped, " : " hidden files are skipped, such as ") +
               first.substr(std::min(first.find_first_not_of('/'), first.size())) +
               " (--hidden reads " + (one ? "it)" : "them)"));
}

// Returns the folders of a pattern in front of its first wildcard, with their '/'.
std::string fixed_part(const std::string& pattern, bool braces) {
  const std::string fixed = pattern.substr(0, pattern.find_first_of(braces ? "*?[\\{" : "*?[\\"));
  return fixed.substr(0, fixed.rfind('/') + 1);
}

}  // namespace

ImageList::ImageList(FileSystem& files, const std::string& folder_or_pattern,
                     const ImageListOptions& options) {
  if (options.label_depth && !options.label_regex.empty())
    throw Error(ErrorCode::invalid_argument,
                "a label expression and a depth of folders are both given (label_depth)");
  if (options.label_depth && *options.label_depth < 0)
    throw Error(ErrorCode::invalid_argument, "a depth of folders can't be negative (label_depth)");
  std::vector<std::string> paths;
  const bool is_folder = files.is_directory(folder_or_pattern);
  if (is_folder) {
    root_ = folder_or_pattern;
    if (root_.empty() || root_.back() != '/') root_ += '/';
    paths = images_below(files, folder_or_pattern, options.hidden);
  } else {
    const std::vector<std::string> patterns = expand_pattern(files, folder_or_pattern);
    root_ = fixed_part(folder_or_pattern, patterns.front() != folder_or_pattern);
    for (const std::string& pattern : patterns) {
      const bool folder = pattern != folder_or_pattern && files.is_directory(pattern);
      const std::vector<std::string> found = folder ? images_below(files, pattern, options.hidden)
                                                    : find_files(files, pattern, options.hidden);
      paths.insert(paths.end(), found.begin(), found.end());
    }
  }
  const auto above = std::ranges::count(root_, '/');
  if (!std::ranges::all_of(paths, [&](const auto& path) { return path.starts_with(root_); })) {
    root_.clear();
  }
  keep_keys(paths);
  infos_.resize(paths.size());
  paths = {};
  examine(files);
  if (!options.label_regex.empty()) {
    label(options.label_regex, folder_or_pattern);
  } else {
    label_by_folders(options.label_depth, is_folder, above, folder_or_pattern);
  }
}

std::vector<std::string> ImageList::images_below(FileSystem& files, const std::string& folder,
                                                 bool hidden) {
  std::vector<std::string> paths = files.list(folder);
  std::vector<std::string> skipped;
  if (!hidden) skipped = take_hidden(paths, folder);
  LeftOut left_out;
  std::erase_if(paths, [&](const std::string& path) {
    const bool image = is_image_name(path);
    if (!image) left_out.add(path);
    return !image;
  });
  log_hidden(folder, skipped);
  if (paths.empty()) {
    throw Error(ErrorCode::not_found,
                "no .jpg, .jpeg or .png below this folder" +
                    (left_out.count() == 0 ? "" : "; " + left_out.text(0)) +
                    other_format_in(files, folder),
                {.shard = folder, .stage = {}});
  }
  if (left_out.count() > 0) {
    log_once(left_out.images() ? LogLevel::warning : LogLevel::info, "left out of " + folder,
             folder + ": " + left_out.text(paths.size()));
  }
  return paths;
}

void ImageList::keep_keys(const std::vector<std::string>& paths) {
  std::uint64_t total = 0;
  for (const std::string& path : paths) {
    total += path.size() - root_.size();
    key_ends_.push_back(total);
  }
  keys_ = allocate_buffer(total);
  std::byte* out = keys_->data();
  for (const std::string& path : paths) {
    const std::size_t size = path.size() - root_.size();
    std::memcpy(out, path.data() + root_.size(), size);
    out += size;
  }
}

void ImageList::examine(FileSystem& files) {
  const std::size_t chunks = (size() + kImagesAtOnce - 1) / kImagesAtOnce;
  std::vector<std::vector<std::string>> missing(chunks);
  for_each_parallel(chunks, [&](std::size_t chunk) {
    for (std::size_t i = chunk * kImagesAtOnce; i < std::min(size(), (chunk + 1) * kImagesAtOnce);
         ++i) {
      try {
        infos_[i] = files.info(path(i));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
        missing[chunk].push_back(path(i));
      }
    }
  });
  std::vector<std::string> all;
  for (const auto& part : missing) all.insert(all.end(), part.begin(), part.end());
  if (all.empty()) return;
  throw Error(ErrorCode::not_found,
              std::to_string(all.size()) + " of " + std::to_string(size()) +
                  " files are listed and not there, as links to nothing are: " + first_of(all) +
                  "; remove them (find " + (root_.empty() ? "." : root_) +
                  " -xtype l -delete), or name the others by a pattern");
}

void ImageList::label(const std::string& label_regex, const std::string& where) {
  const LabelRule rule(label_regex);
  std::vector<std::string> texts;
  std::vector<std::string> unmatched;
  texts.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) {
    std::optional<std::string> text = rule.text(path(i));
    if (!text) unmatched.push_back(path(i));
    texts.push_back(text ? *std::move(text) : std::string());
  }
  if (!unmatched.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "the label expression '" + label_regex + "' does not match " +
                    std::to_string(unmatched.size()) + " of " + std::to_string(size()) +
                    " names: " + first_of(unmatched) +
                    (label_regex.find('/') == label_regex.npos
                         ? " (only the file's name is searched: add a / to match the path)"
                         : ""));
  }
  keep_classes(texts, where);
}

void ImageList::label_by_folders(std::optional<std::int64_t> depth, bool is_folder,
                                 std::int64_t above, const std::string& where) {
  const std::int64_t chosen = depth.value_or(is_folder ? 1 : 0);
  const LabelRule of_parent("");
  std::vector<std::string> texts;
  texts.reserve(size());
  bool differs = false;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::string whole = path(i);
    std::string parent = *of_parent.text(whole);
    const auto folder = chosen == 0 ? std::nullopt : folder_at(whole, above + chosen);
    differs = differs || (folder && *folder != parent);
    texts.push_back(folder ? std::string(*folder) : std::move(parent));
  }
  keep_classes(texts, where);
  if (!differs) return;
  label_depth_ = chosen;
  if (depth) return;  // it was chosen
  for (std::size_t i = 0; i < size(); ++i) texts[i] = *of_parent.text(path(i));
  const auto classes = [](std::size_t count) {
    return std::to_string(count) + (count == 1 ? " class" : " classes");
  };
  log_once(LogLevel::warning, "labels of " + where,
           where + ": the first folder below it is the class of an image, which makes " +
               classes(class_names_.size()) + "; by its parent folder there would be " +
               classes(count_classes(texts).names.size()) +
               " (choose by --label-depth 1, --label-depth 0 or --label-regex)");
}

void ImageList::keep_classes(const std::vector<std::string>& texts, const std::string& where) {
  Classes classes = count_classes(texts);
  class_names_ = std::move(classes.names);
  labels_ = std::move(classes.labels);
  if (class_names_.size() == 1 && size() > 1)
    log_once(LogLevel::warning, "classes of " + where,
             where + ": all " + std::to_string(size()) + " images have one class, \"" +
                 class_names_.front() + "\" (--label-depth and --label-regex choose another)");
}

std::string_view ImageList::key(std::size_t i) const noexcept {
  const std::uint64_t begin = i == 0 ? 0 : key_ends_[i - 1];
  return {reinterpret_cast<const char*>(keys_->data()) + begin, key_ends_[i] - begin};
}

std::uint64_t ImageList::checksum() const noexcept {
  std::uint64_t hash = XXH3_64bits(keys_->data(), keys_->size());
  for (std::size_t i = 0; i < size(); ++i) {
    const std::string_view begin = root_.empty() ? key(i) : root_;  // of the path
    const std::uint64_t numbers[3] = {key_ends_[i], infos_[i].size, version_of(begin, infos_[i])};
    // Without a version the checksum is as before, so that saved positions stay valid.
    const std::size_t known = numbers[2] == 0 ? 2 : 3;
    hash = XXH3_64bits_withSeed(numbers, known * sizeof(numbers[0]), hash);
  }
  return hash;
}

void ImageList::describe_contents(FileSystem& files, Description& description) const {
  std::call_once(contents_once_, [&] {
    contents_ = hash_contents(files, {.count = size(),
                                      .path = [this](std::size_t i) { return path(i); },
                                      .info = [this](std::size_t i) { return info(i); }});
  });
  penstock::describe_contents(
      description, size(), [this](std::size_t i) { return std::string(key(i)); },
      [this](std::size_t i) { return contents_[i]; });
}

}  // namespace penstock
