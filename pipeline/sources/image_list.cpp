#include "pipeline/sources/image_list.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <map>

#include <penstock/error.h>
#include <penstock/internal/find_files.h>
#include <penstock/internal/other_format.h>
#include <penstock/log.h>
#include <penstock/remote_files.h>

#include "pipeline/io/pattern.h"
#include "pipeline/io/posix.h"
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

/// Names the first of `count` texts.
std::string first_of(const std::vector<std::string>& texts, std::size_t count) {
  std::string list;
  for (std::size_t i = 0; i < std::min(texts.size(), kMostNamed); ++i) {
    list.append(i == 0 ? "" : ", ").append(texts[i]);
  }
  if (count > kMostNamed) list += " and " + std::to_string(count - kMostNamed) + " more";
  return list;
}

/// The hidden files of a folder.
class Hidden {
 public:
  void add(const std::string& path) {
    ++count_;
    const bool image = is_image_name(path);
    if (image == images_ ? count_ == 1 || path < first_ : image) first_ = path;
    images_ = images_ || image;
  }
  /// What a system or an editor leaves beside data is no news, unless it looks like data.
  void log(const std::string& folder) const {
    if (count_ == 0) return;
    const std::string first = first_.substr(std::min(folder.size(), first_.size()));
    log_once(
        images_ ? LogLevel::warning : LogLevel::info, "hidden in " + folder,
        folder + ": " + std::to_string(count_) +
            (count_ == 1 ? " hidden file is skipped, " : " hidden files are skipped, such as ") +
            first.substr(std::min(first.find_first_not_of('/'), first.size())) +
            " (--hidden reads " + (count_ == 1 ? "it)" : "them)"));
  }

 private:
  std::size_t count_ = 0;
  bool images_ = false;
  std::string first_;  // the first image, if there is one
};

/// Returns the files that match a pattern, in order. Throws Error{not_found} if there are none.
PathList matches_of(FileSystem& files, const std::string& pattern, bool hidden) {
  PathList found;
  files.glob_each(pattern, hidden, [&](const std::string& path) { found.add(path); });
  found.sort();
  if (found.empty()) throw Error(ErrorCode::not_found, "no file matches " + hide_secrets(pattern));
  return found;
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
  PathList paths;
  const bool is_folder = files.is_directory(folder_or_pattern);
  bool listed = is_folder;  // else all files were named
  if (is_folder) {
    root_ = folder_or_pattern;
    if (root_.empty() || root_.back() != '/') root_ += '/';
    paths = images_below(files, folder_or_pattern, options.hidden);
  } else {
    const std::vector<std::string> patterns = expand_pattern(files, folder_or_pattern);
    root_ = fixed_part(folder_or_pattern, patterns.front() != folder_or_pattern);
    for (const std::string& pattern : patterns) {
      const bool folder = pattern != folder_or_pattern && files.is_directory(pattern);
      listed = listed || folder || has_pattern(pattern);
      PathList found = folder ? images_below(files, pattern, options.hidden)
                              : matches_of(files, pattern, options.hidden);
      if (patterns.size() == 1) {
        paths = std::move(found);
      } else {
        for (std::size_t i = 0; i < found.size(); ++i) paths.add(found[i]);
      }
    }
  }
  const auto above = std::ranges::count(root_, '/');
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!paths[i].starts_with(root_)) root_.clear();
  }
  keep_keys(paths);
  paths = {};
  examine(files, listed);
  if (!options.label_regex.empty()) {
    label(options.label_regex, folder_or_pattern);
  } else {
    label_by_folders(options.label_depth, is_folder, above, folder_or_pattern);
  }
}

PathList ImageList::images_below(FileSystem& files, const std::string& folder, bool hidden) {
  PathList paths;
  PathList others;
  Hidden skipped;
  files.list_each(folder, [&](const std::string& path) {
    if (!hidden && is_hidden(path, folder)) {
      skipped.add(path);
    } else {
      (is_image_name(path) ? paths : others).add(path);
    }
  });
  others.sort();
  // A link to nothing may be a folder of images on a disk that is not mounted. Examining it as an
  // image reports it.
  std::vector<char> dangling(others.size());
  if (!is_remote(folder))
    for_each_parallel(others.size(), [&](std::size_t i) {
      dangling[i] = dangling_target(std::string(others[i])) ? 1 : 0;
    });
  LeftOut left_out;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (dangling[i] != 0) {
      paths.add(others[i]);
    } else {
      left_out.add(std::string(others[i]));
    }
  }
  paths.sort();
  skipped.log(folder);
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

void ImageList::keep_keys(const PathList& paths) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) total += paths[i].size() - root_.size();
  keys_ = allocate_buffer(total);
  key_ends_.reserve(paths.size());
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (i % kKeysOfABase == 0) key_bases_.push_back(end);
    const std::string_view key = paths[i].substr(root_.size());
    std::memcpy(keys_->data() + end, key.data(), key.size());
    end += key.size();
    key_ends_.push_back(static_cast<std::uint32_t>(end - key_bases_.back()));
  }
}

void ImageList::examine(FileSystem& files, bool listed) {
  facts_.resize(key_ends_.size());
  std::vector<std::uint64_t> devices(size());
  const std::size_t chunks = (size() + kImagesAtOnce - 1) / kImagesAtOnce;
  std::vector<std::vector<std::string>> missing(chunks);
  for_each_parallel(chunks, [&](std::size_t chunk) {
    for (std::size_t i = chunk * kImagesAtOnce; i < std::min(size(), (chunk + 1) * kImagesAtOnce);
         ++i) {
      try {
        const FileInfo info = files.info(path(i));
        facts_[i] = {info.size, info.mtime_ns, info.inode, info.ctime_ns};
        devices[i] = info.device;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
        missing[chunk].push_back(path(i));
      }
    }
  });
  std::vector<std::string> all;
  for (const auto& part : missing) all.insert(all.end(), part.begin(), part.end());
  if (!all.empty()) refuse_missing(all, listed);
  device_ = devices.empty() ? 0 : devices.front();
  const auto is_same = [this](std::uint64_t device) { return device == device_; };
  if (!std::ranges::all_of(devices, is_same)) devices_ = std::move(devices);
}

void ImageList::refuse_missing(const std::vector<std::string>& paths, bool listed) const {
  if (!listed) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < std::min(paths.size(), kMostNamed); ++i)
      texts.push_back(missing_text(paths[i]));
    throw Error(ErrorCode::not_found, first_of(texts, paths.size()));
  }
  const bool one = paths.size() == 1;
  throw Error(ErrorCode::not_found,
              std::to_string(paths.size()) + " of " + std::to_string(size()) +
                  (size() == 1 ? " file" : " files") +
                  (one ? " is listed but does not exist, such as a dangling link: "
                       : " are listed but do not exist, such as dangling links: ") +
                  first_of(paths, paths.size()) + "; remove " + (one ? "it" : "them") + " (find " +
                  (root_.empty() ? "." : root_) + " -xtype l -delete)" +
                  (paths.size() < size() ? ", or name the others by a pattern" : ""));
}

void ImageList::label(const std::string& label_regex, const std::string& where) {
  const LabelRule rule(label_regex);
  ClassCounter classes;
  std::vector<std::string> unmatched;  // the first
  std::size_t unmatched_count = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::optional<std::string> text = rule.text(path(i));
    if (text) {
      classes.add(*text);
    } else if (++unmatched_count <= kMostNamed) {
      unmatched.push_back(path(i));
    }
  }
  if (unmatched_count > 0) {
    throw Error(ErrorCode::invalid_argument,
                "the label expression '" + label_regex + "' does not match " +
                    std::to_string(unmatched_count) + " of " + std::to_string(size()) +
                    " names: " + first_of(unmatched, unmatched_count) +
                    (label_regex.find('/') == label_regex.npos
                         ? " (only the file's name is searched: add a / to match the path)"
                         : ""));
  }
  keep_classes(classes.take(), where);
}

void ImageList::label_by_folders(std::optional<std::int64_t> depth, bool is_folder,
                                 std::int64_t above, const std::string& where) {
  const std::int64_t chosen = depth.value_or(is_folder ? 1 : 0);
  const LabelRule of_parent("");
  ClassCounter classes;
  bool differs = false;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::string whole = path(i);
    const std::string parent = *of_parent.text(whole);
    const auto folder = chosen == 0 ? std::nullopt : folder_at(whole, above + chosen);
    differs = differs || (folder && *folder != parent);
    classes.add(folder ? *folder : parent);
  }
  keep_classes(classes.take(), where);
  if (!differs) return;
  label_depth_ = chosen;
  if (depth) return;  // it was chosen
  ClassCounter parents;
  for (std::size_t i = 0; i < size(); ++i) parents.add(*of_parent.text(path(i)));
  const auto count = [](std::size_t number) {
    return std::to_string(number) + (number == 1 ? " class" : " classes");
  };
  log_once(LogLevel::warning, "labels of " + where,
           where + ": the first folder below it is the class of an image, which makes " +
               count(class_names_.size()) + "; by its parent folder there would be " +
               count(parents.size()) +
               " (choose by --label-depth 1, --label-depth 0 or --label-regex)");
}

void ImageList::keep_classes(Classes classes, const std::string& where) {
  class_names_ = std::move(classes.names);
  labels_ = std::move(classes.labels);
  if (class_names_.size() == 1 && size() > 1)
    log_once(LogLevel::warning, "classes of " + where,
             where + ": all " + std::to_string(size()) + " images have one class, \"" +
                 class_names_.front() + "\" (--label-depth and --label-regex choose another)");
}

FileInfo ImageList::info(std::size_t i) const noexcept {
  const Facts& facts = facts_[i];
  return {facts.size, facts.mtime_ns, facts.inode, facts.ctime_ns,
          devices_.empty() ? device_ : devices_[i]};
}

std::string_view ImageList::key(std::size_t i) const noexcept {
  const std::uint64_t begin = i == 0 ? 0 : end_of_key(i - 1);
  return {reinterpret_cast<const char*>(keys_->data()) + begin, end_of_key(i) - begin};
}

std::uint64_t ImageList::checksum() const noexcept {
  std::uint64_t hash = XXH3_64bits(keys_->data(), keys_->size());
  for (std::size_t i = 0; i < size(); ++i) {
    const std::string_view begin = root_.empty() ? key(i) : root_;  // of the path
    const FileInfo file = info(i);
    const std::uint64_t numbers[3] = {end_of_key(i), file.size, version_of(begin, file)};
    // Without a version the checksum is as before, so that saved positions stay valid.
    const std::size_t known = numbers[2] == 0 ? 2 : 3;
    hash = XXH3_64bits_withSeed(numbers, known * sizeof(numbers[0]), hash);
  }
  return hash;
}

void ImageList::describe_contents(FileSystem& files, Description& description) const {
  const ListedFiles all{.count = size(),
                        .path = [this](std::size_t i) { return path(i); },
                        .info = [this](std::size_t i) { return info(i); }};
  const auto name = [this](std::size_t i) { return std::string(key(i)); };
  if (size() > description.most_files())
    return describe_some_contents(description, files, all, name);
  std::call_once(contents_once_, [&] {
    const std::vector<std::uint64_t> hashes = hash_contents(files, all);
    Description of_files;
    penstock::describe_contents(of_files, size(), name, [&](std::size_t i) { return hashes[i]; });
    contents_ = of_files.contents();
  });
  for (const auto& [first, last, hash] : contents_) description.add_contents(first, last, hash);
}

}  // namespace penstock
