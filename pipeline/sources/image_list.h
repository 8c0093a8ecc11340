// The list of files that the images source reads.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/description.h>
#include <penstock/file_system.h>
#include <penstock/sources.h>

#include "pipeline/io/path_list.h"
#include "pipeline/sources/labels.h"

namespace penstock {

/// The options of an ImageList, see ImagesOptions.
struct ImageListOptions {
  std::string label_regex;
  std::optional<std::int64_t> label_depth;
  bool hidden = false;
};

/// Paths, facts and labels of image files. Lists of millions are normal, so a file takes 40 bytes
/// beyond the text of its key. Immutable and thread-safe.
class ImageList {
 public:
  /// Lists the files. Throws as make_images_source says.
  ImageList(FileSystem& files, const std::string& folder_or_pattern,
            const ImageListOptions& options);

  std::size_t size() const noexcept { return facts_.size(); }
  std::string path(std::size_t i) const { return root_ + std::string(key(i)); }
  /// Writes the path to a string, which keeps its memory.
  void assign_path(std::string& path, std::size_t i) const { path.assign(root_).append(key(i)); }
  /// Returns the part of the path behind the common root, as a view into `keys()`.
  std::string_view key(std::size_t i) const noexcept;
  const BufferPtr& keys() const noexcept { return keys_; }
  /// Returns the file's facts as they were when the list was made.
  FileInfo info(std::size_t i) const noexcept;
  std::int32_t label(std::size_t i) const noexcept { return labels_[i]; }
  const std::vector<std::string>& class_names() const noexcept { return class_names_; }
  /// Returns the depth of the folders that name the classes; 0 if all of these are the files'
  /// parent folders, or if an expression names them.
  std::int64_t label_depth() const noexcept { return label_depth_; }
  /// Returns a checksum of all keys and sizes, and of versions that servers report, for
  /// fingerprints.
  std::uint64_t checksum() const noexcept;
  /// Adds the contents of the files (see hash_contents), which are read at the first call.
  void describe_contents(FileSystem& files, Description& description) const;

 private:
  static PathList images_below(FileSystem& files, const std::string& folder, bool hidden);
  void keep_keys(const PathList& paths);
  /// `listed`: true if folders or patterns gave the names.
  void examine(FileSystem& files, bool listed);
  [[noreturn]] void refuse_missing(const std::vector<std::string>& paths, bool listed) const;
  void label(const std::string& label_regex, const std::string& where);
  /// `above`: number of slashes in front of the keys. `where`: the folder or pattern.
  void label_by_folders(std::optional<std::int64_t> depth, bool is_folder, std::int64_t above,
                        const std::string& where);
  void keep_classes(Classes classes, const std::string& where);

  /// A FileInfo without its device, which most files share.
  struct Facts {
    std::uint64_t size = 0;
    std::int64_t mtime_ns = 0;
    std::uint64_t inode = 0;
    std::int64_t ctime_ns = 0;
  };
  /// The keys of so many files have a common base for their ends.
  static constexpr std::size_t kKeysOfABase = 256;
  std::uint64_t end_of_key(std::size_t i) const noexcept {
    return key_bases_[i / kKeysOfABase] + key_ends_[i];
  }

  std::string root_;  // in front of every key
  BufferPtr keys_;    // one key after the other
  std::vector<std::uint64_t> key_bases_;
  std::vector<std::uint32_t> key_ends_;
  std::vector<Facts> facts_;
  std::uint64_t device_ = 0;
  std::vector<std::uint64_t> devices_;  // if the files have several
  std::vector<std::int32_t> labels_;
  std::vector<std::string> class_names_;
  std::int64_t label_depth_ = 0;

  mutable std::once_flag contents_once_;
  mutable std::vector<Description::Contents> contents_;  // constant once it was made
};

}  // namespace penstock
