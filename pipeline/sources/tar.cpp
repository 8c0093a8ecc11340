// The source that reads tar shards.
#include <penstock/sources.h>

#include <algorithm>
#include <array>
#include <optional>

#include "pipeline/sources/indexed_read.h"
#include "pipeline/sources/labels.h"
#include "pipeline/sources/tar_layout.h"
#include "pipeline/sources/tar_samples.h"

namespace penstock {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

tar_file::Layout layout_of(const OffsetIndex& index, std::size_t shards,
                           const std::string& label_regex) {
  std::vector<std::string> extensions, classes;
  for (std::size_t i = 0; i < shards; ++i) {
    const std::vector<std::string>& notes = index.shard(i).notes;
    if (extensions.empty()) extensions = split(notes[0], '/');
    classes.insert(classes.end(), notes.begin() + 1, notes.end());
  }
  // No scan notes so many. But the index file may come from anywhere.
  if (extensions.size() > tar_file::kMostMembers)
    throw Error(ErrorCode::out_of_range, "a kept index names more than " +
                                             std::to_string(tar_file::kMostMembers) +
                                             " members of a sample");
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  if (!label_regex.empty() && !extensions.empty() && classes.empty())
    throw Error(ErrorCode::invalid_argument,
                "the label expression '" + label_regex + "' matches no member's name" +
                    (label_regex.find('/') == label_regex.npos
                         ? " (only the last part is searched: add a / to match the path)"
                         : ""));
  return tar_file::Layout(extensions, !label_regex.empty(), std::move(classes));
}

bool is_sample(File& file, const IndexEntry& entry) {
  std::array<std::byte, tar_file::kBlock> block{};
  file.read_exactly(entry.offset, block);
  return tar_file::is_header(block);
}

class TarSource final : public Source {
 public:
  TarSource(const Paths& paths, const TarOptions& options)
      : shards_(options.files, paths),
        limits_(options.limits),
        label_regex_(options.label_regex),
        rule_(options.label_regex),
        index_(shards_,
               {.kind = "tar 1 " + std::to_string(limits_.max_record_bytes) + ' ' +
                        std::to_string(limits_.max_members) + ' ' +
                        std::to_string(limits_.max_name_bytes) + ' ' + label_regex_,
                .folder = options.index_folder,
                .least_entry_bytes = tar_file::kBlock,
                .most_entry_bytes = limits_.max_record_bytes,
                .least_notes = 1,
                .is_record = is_sample},
               [&](File& file) { return tar_file::scan_samples(file, limits_, rule_); }),
        layout_(layout_of(index_, shards_.size(), label_regex_)),
        blocking_(shards_.open(0).file->blocking()) {}

  std::string name() const override { return "tar"; }
  void describe(Description& description) const override {
    description.add("label_regex", label_regex_);
    shards_.describe(description, [this](std::size_t i) { return index_.checksum(i); });
  }
  Spec spec() const override { return layout_.spec(); }
  std::vector<std::string> class_names() const override { return layout_.class_names(); }
  std::optional<std::uint64_t> size() const override { return index_.size(); }
  bool blocking() const override { return blocking_; }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    return index_.entry(index_.find(index)).size + tar_file::kMostJoined;
  }
  Provenance locate(std::uint64_t index) const override {
    return locate_record(shards_, index_, index);
  }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    read_records(shards_, index_, items, context,
                 [&](ReadPiece& piece, ReadItem& item) { deliver(piece, item, context); });
  }

 private:
  void deliver(ReadPiece& piece, ReadItem& item, ReadContext& context) const {
    try {
      layout_.fill(item.element, piece, context, rule_, limits_);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::data_loss &&
          !tar_file::is_header(piece.bytes.first(tar_file::kBlock)))
        index_.distrust(piece.shard);
      item.status = Error(error.code(), error.cause(), locate(item.index));
    }
  }

  const Shards shards_;
  const Limits limits_;
  const std::string label_regex_;
  const LabelRule rule_;
  const OffsetIndex index_;
  const tar_file::Layout layout_;
  const bool blocking_;
};

}  // namespace

SourcePtr make_tar_source(const Paths& paths, const TarOptions& options) {
  return std::make_shared<TarSource>(paths, options);
}

}  // namespace penstock
