// The source that reads image files in folders.
#include <penstock/sources.h>

#include "pipeline/io/read_count.h"
#include "pipeline/sources/image_list.h"
#include "pipeline/sources/parallel.h"
#include "pipeline/sources/shards.h"

namespace penstock {
namespace {

/// An image that can't be opened becomes the error of its record, when the record is read.
bool may_block(FileSystem& files, const std::string& path) {
  try {
    return files.open(path)->blocking();
  } catch (const Error&) {
    return true;
  }
}

class ImagesSource final : public Source {
 public:
  ImagesSource(const std::string& folder_or_pattern, const ImagesOptions& options)
      : files_(options.files ? options.files : default_file_system()),
        limit_(options.limits.max_record_bytes),
        list_(*files_, folder_or_pattern,
              {.label_regex = options.label_regex,
               .label_depth = options.label_depth,
               .hidden = options.hidden}),
        label_regex_(options.label_regex),
        blocking_(may_block(*files_, list_.path(0))),
        names_(Names::intern(std::vector<std::string>{"image", "label", "key"})) {}

  std::string name() const override { return "images"; }
  void describe(Description& description) const override {
    description.add("files", std::uint64_t{list_.size()});
    description.add("checksum", list_.checksum());
    description.add("label_regex", label_regex_);
    // Otherwise the labels are those of the parent folders, as they were before there was a depth.
    if (list_.label_depth() > 0)
      description.add("label_depth", static_cast<std::uint64_t>(list_.label_depth()));
    if (description.wants_contents()) list_.describe_contents(*files_, description);
  }
  Spec spec() const override {
    return Spec(
        {{"image", DType::bytes, {}}, {"label", DType::i64, {}}, {"key", DType::bytes, {}}});
  }
  std::vector<std::string> class_names() const override { return list_.class_names(); }
  std::optional<std::uint64_t> size() const override { return list_.size(); }
  bool blocking() const override { return blocking_; }
  std::uint64_t record_bytes(std::uint64_t index) const override { return list_.info(index).size; }
  Provenance locate(std::uint64_t index) const override {
    return {.shard = list_.path(index),
            .offset = 0,
            .index = static_cast<std::int64_t>(index),
            .stage = {},
            .length = static_cast<std::int64_t>(list_.info(index).size)};
  }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    for (ReadItem& item : items) {
      try {
        read_one(item, context);
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }

 private:
  std::optional<FileInfo> read_listed(const std::string& path, const FileInfo& info,
                                      std::byte* out) const {
    try {
      return files_->read_whole(path, info, out);
    } catch (const Error& error) {
      // It was there when the folder was listed.
      if (error.code() == ErrorCode::not_found) throw removed_error(path);
      throw;
    }
  }

  void read_one(ReadItem& item, ReadContext& context) const {
    const std::size_t i = item.index;
    const FileInfo& info = list_.info(i);
    if (info.size > limit_) {
      throw Error(ErrorCode::out_of_range, "the file has " + std::to_string(info.size) +
                                               " bytes, more than the limit of " +
                                               std::to_string(limit_));
    }
    thread_local std::string path;  // keeps its memory
    list_.assign_path(path, i);
    BufferPtr buffer = context.allocate(info.size);
    reads_asked().add(1, 1);
    check_unchanged(path, info, read_listed(path, info, buffer->data()), context.trust_data());
    item.element.reset(names_);
    const std::string_view bytes(reinterpret_cast<const char*>(buffer->data()), info.size);
    item.element[0] = Tensor::bytes(bytes, std::move(buffer));
    item.element[1] = Tensor::scalar<std::int64_t>(list_.label(i));
    item.element[2] = Tensor::bytes(list_.key(i), list_.keys());
  }

  FileSystemPtr files_;
  std::uint64_t limit_;
  ImageList list_;
  std::string label_regex_;
  bool blocking_;
  const Names* names_;
};

}  // namespace

SourcePtr make_images_source(const std::string& folder_or_pattern, const ImagesOptions& options) {
  return made_patiently(
      [&] { return std::make_shared<const ImagesSource>(folder_or_pattern, options); });
}

}  // namespace penstock
