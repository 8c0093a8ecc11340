// The source that reads IDX files.
#include <penstock/log.h>
#include <penstock/sources.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "pipeline/sources/fixed_rows.h"
#include "pipeline/sources/idx_format.h"
#include "pipeline/sources/parallel.h"
#include "pipeline/sources/shards.h"

namespace penstock {
namespace {

/// Returns a big-endian integer.
std::int64_t integer_at(const std::byte* bytes, DType dtype) noexcept {
  const std::size_t size = size_of(dtype);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  const auto unused = static_cast<int>(64 - 8 * size);
  return dtype == DType::u8 ? static_cast<std::int64_t>(value)
                            : static_cast<std::int64_t>(value << unused) >> unused;
}

/// True for labels in QMNIST's form: a matrix of i32 with the class, the series, the writer, the
/// digit's number, its code, its number at NIST, and two more for each image. Source:
/// https://github.com/facebookresearch/qmnist.
bool is_qmnist(const IdxHeader& header) noexcept {
  constexpr std::int64_t kColumns = 8;
  return header.dtype == DType::i32 && header.shape.rank() == 2 && header.shape[1] == kColumns;
}

std::vector<std::int64_t> load_labels(const std::shared_ptr<File>& file, std::uint64_t images,
                                      const std::string& images_path, const Limits& limits) {
  const IdxContents contents = load_idx(file, limits);
  const IdxHeader& header = contents.header;
  const bool vector =
      header.shape.rank() == 1 && header.dtype != DType::f32 && header.dtype != DType::f64;
  const bool qmnist = is_qmnist(header);
  if (!vector && !qmnist) {
    throw refused(file->path(), "labels must be a vector of integers, not " +
                                    std::string(name_of(header.dtype)) + " " +
                                    header.shape.to_string() +
                                    "; the only matrix allowed is QMNIST's, i32 with 8 columns");
  }
  if (header.rows() != images) {
    throw refused(file->path(), std::to_string(header.rows()) + " labels, but " +
                                    std::to_string(images) + " images in " + images_path);
  }
  const std::uint64_t row = row_bytes_of(header.dtype, header.shape.drop_front());
  std::vector<std::int64_t> labels;
  labels.reserve(contents.bytes / row);
  for (std::uint64_t at = 0; at + row <= contents.bytes; at += row) {
    labels.push_back(integer_at(contents.data->data() + at, header.dtype));
    if (qmnist && (labels.back() < 0 || labels.back() > 9))
      throw refused(file->path(),
                    "the first of 8 columns of labels is the class in QMNIST, but row " +
                        std::to_string(labels.size() - 1) + " has " +
                        std::to_string(labels.back()));
  }
  if (qmnist)
    log_once(LogLevel::info, "qmnist " + file->path(),
             file->path() + ": these are QMNIST's labels; their first column is the class");
  return labels;
}

IdxHeader read_plain_header(File& file) {
  std::uint64_t offset = 0;
  const ReadFront read = [&](std::span<std::byte> out) {
    const std::size_t size = std::min<std::uint64_t>(out.size(), file.info().size - offset);
    file.read_exactly(offset, out.first(size));
    offset += size;
    return size;
  };
  return read_idx_header(read, file);
}

class IdxSource final : public Source {
 public:
  IdxSource(std::shared_ptr<const Shards> shards, const Limits& limits)
      : loaded_(is_compressed(*shards->open(0).file)
                    ? std::make_optional(load_idx(shards->open(0).file, limits))
                    : std::nullopt),
        header_(loaded_ ? loaded_->header : read_plain_header(*shards->open(0).file)),
        component_{"image", header_.dtype, header_.shape.drop_front()},
        rows_(shards, row_bytes_of(component_.dtype, component_.shape), limits.max_record_bytes) {
    const std::uint64_t end = loaded_ ? header_.data_offset + loaded_->bytes : shards->info(0).size;
    rows_.add(header_.data_offset, end, header_.rows(), limits.max_members);
    size_ = rows_.size();
    std::vector<std::string> names = {component_.name};
    if (shards->size() > 1) {
      labels_ = load_labels(shards->open(1).file, header_.rows(), shards->path(0), limits);
      size_ = std::min<std::uint64_t>(size_, std::min(header_.rows(), labels_->size() + 1));
      names.emplace_back("label");
    }
    names_ = Names::intern(names);
    blocking_ = !loaded_ && rows_.blocking();
  }

  std::string name() const override { return "idx"; }
  void describe(Description& description) const override { rows_.describe(description); }
  Spec spec() const override {
    const Spec images({component_});
    return labels_ ? images.with({"label", DType::i64, {}}) : images;
  }
  std::optional<std::uint64_t> size() const override { return size_; }
  bool blocking() const override { return blocking_; }
  std::uint64_t record_bytes(std::uint64_t) const override { return 2 * rows_.row_bytes(); }
  Provenance locate(std::uint64_t index) const override { return rows_.locate(index); }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    if (labels_) fail_unlabelled(items);
    const FixedRows::Arrived arrived = [&](std::size_t i, const ReadPiece& piece) {
      items[i].element.reset(names_);
      place_row(items[i], 0, component_, piece, size_of(header_.dtype) > 1, context);
      if (labels_) items[i].element[1] = Tensor::scalar((*labels_)[items[i].index]);
    };
    if (!loaded_) return rows_.read(items, context, arrived);
    rows_.visit(items, {loaded_->data->data(), loaded_->bytes}, loaded_->data, arrived);
  }

 private:
  void fail_unlabelled(std::span<ReadItem> items) const {
    for (ReadItem& item : items) {
      if (item.status.ok() && item.index >= labels_->size()) {
        const Shards& shards = rows_.shards();
        item.status = Error(
            ErrorCode::data_loss,
            "truncated at byte " + std::to_string(shards.info(1).size) + ": the label is missing",
            {.shard = shards.path(1), .stage = {}});
      }
    }
  }

  std::optional<IdxContents> loaded_;
  IdxHeader header_;
  ComponentSpec component_;
  FixedRows rows_;
  std::optional<std::vector<std::int64_t>> labels_;
  std::uint64_t size_ = 0;
  const Names* names_ = nullptr;
  bool blocking_ = false;
};

}  // namespace

SourcePtr make_idx_source(const std::string& images_path, const std::string& labels_path,
                          const FileOptions& options) {
  Paths paths = {images_path};
  if (!labels_path.empty()) paths.push_back(labels_path);
  const auto shards = std::make_shared<const Shards>(options.files, paths);
  if (shards->size() != paths.size()) {
    throw refused(images_path, "idx takes one file of images and one of labels, not " +
                                   std::to_string(shards->size()) + " files");
  }
  return made_patiently([&] { return std::make_shared<const IdxSource>(shards, options.limits); });
}

}  // namespace penstock
