// The source that reads tar shards.
#include <penstock/sources.h>

#include <algorithm>
#include <array>
#include <optional>

#include <penstock/log.h>

#include "pipeline/sources/indexed_read.h"
#include "pipeline/sources/labels.h"
#include "pipeline/sources/tar_layout.h"
#include "pipeline/sources/tar_samples.h"

namespace penstock {
namespace {

constexpr std::size_t kTarNotes = 2;  // in front of the classes

/// Adds the counts of layouts that several shards have.
std::vector<tar_file::SampleLayout> layouts_of(const OffsetIndex& index, std::size_t shards) {
  std::vector<tar_file::SampleLayout> all;
  for (std::size_t i = 0; i < shards; ++i) {
    for (tar_file::SampleLayout& layout : tar_file::layouts_in(index.shard(i).notes[0])) {
      const auto same =
          std::ranges::find(all, layout.extensions, &tar_file::SampleLayout::extensions);
      if (same == all.end()) {
        all.push_back(std::move(layout));
      } else {
        same->samples += layout.samples;
      }
    }
  }
  return all;
}

tar_file::Layout layout_of(const Shards& shards, const OffsetIndex& index,
                           const std::string& label_regex) {
  std::vector<std::string> classes;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::vector<std::string>& notes = index.shard(i).notes;
    classes.insert(classes.end(), notes.begin() + kTarNotes, notes.end());
  }
  const std::vector<tar_file::SampleLayout> layouts = layouts_of(index, shards.size());
  const std::vector<std::string> extensions = tar_file::usual_extensions(layouts);
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
  tar_file::Layout layout(extensions, !label_regex.empty(), std::move(classes));
  for (const tar_file::SampleLayout& other : layouts) {
    for (const std::string_view part : tar_file::parts_of(other.extensions, '/')) {
      const std::string extension(part);
      if (!layout.reads(extension))
        log_once(LogLevel::warning, "unread ." + extension + " of " + shards.path(0),
                 shards.path(0) + ": " + std::to_string(other.samples) +
                     (other.samples == 1 ? " sample has" : " samples have") + " a member ." +
                     extension + " (first \"" + other.first +
                     "\"), which is not read, because most samples have none");
    }
  }
  return layout;
}

/// One warning for each kind of fact, however many shards there are.
void say_facts(const Shards& shards, const OffsetIndex& index) {
  tar_file::ShardFacts all;
  std::uint64_t cut = 0;
  std::uint64_t joined = 0;
  std::string first_cut, first_joined;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const ShardIndex& shard = index.shard(i);
    const tar_file::ShardFacts facts = tar_file::facts_in(shard.notes[1]);
    if (shard.entries.empty() && facts.nameless > 0)
      throw Error(ErrorCode::invalid_argument,
                  "no sample: none of its " + std::to_string(facts.nameless) +
                      " members has a name with an extension, as \"" + facts.first_nameless +
                      "\" has not; the part before the extension is the sample's key",
                  {.shard = shards.path(i), .stage = {}});
    if (shard.entries.empty() && facts.hidden > 0)
      throw Error(ErrorCode::invalid_argument,
                  "no sample: its " + std::to_string(facts.hidden) +
                      " members are hidden; --hidden reads them",
                  {.shard = shards.path(i), .stage = {}});
    if (all.nameless == 0) all.first_nameless = facts.first_nameless;
    if (all.strange == 0) all.first_strange = facts.first_strange;
    all.nameless += facts.nameless;
    all.hidden += facts.hidden;
    all.unknown += facts.unknown;
    all.strange += facts.strange;
    if (facts.lacks_end && cut++ == 0) first_cut = shards.path(i);
    if (facts.another && joined++ == 0)
      first_joined = shards.path(i) + " at byte " + std::to_string(*facts.another);
  }
  const auto say = [&](std::uint64_t count, LogLevel level, const char* one, const char* many,
                       const std::string& rest) {
    if (count > 0)
      log(level, shards.path(0) + ": " + std::to_string(count) + (count == 1 ? one : many) + rest);
  };
  say(all.nameless, LogLevel::info, " member belongs to no sample and is",
      " members belong to no sample and are", " skipped (first \"" + all.first_nameless + "\")");
  say(all.hidden, LogLevel::warning, " hidden member is skipped (--hidden reads it)",
      " hidden members are skipped (--hidden reads them)", "");
  say(all.strange, LogLevel::warning, " sample has none of the usual members, and is",
      " samples have none of the usual members, and are",
      " skipped (first \"" + all.first_strange + "\")");
  say(all.unknown, LogLevel::warning, " header of a type that is no file is",
      " headers of a type that is no file are", " skipped, such as a volume's label");
  say(cut, LogLevel::warning, " shard has no end-of-archive marker, and may have been",
      " shards have no end-of-archive marker, and may have been",
      " cut between members (first " + first_cut + ")");
  say(joined, LogLevel::warning, " shard is", " shards are",
      " followed by another archive, which is not read (first " + first_joined +
          "); `tar --concatenate` joins archives, and cat does not");
}

bool is_sample(File& file, const IndexEntry& entry) {
  std::array<std::byte, tar_file::kBlock> block{};
  file.read_exactly(entry.offset, block);
  return tar_file::is_header(block);
}

class TarSource final : public Source {
 public:
  TarSource(const Paths& paths, const TarOptions& options)
      : shards_(options.files, paths, 0, options.hidden),
        limits_(options.limits),
        label_regex_(options.label_regex),
        hidden_(options.hidden),
        rule_(options.label_regex),
        index_(shards_,
               {.kind = std::string("tar 2 ") + (hidden_ ? "hidden " : "") +
                        std::to_string(limits_.max_record_bytes) + ' ' +
                        std::to_string(limits_.max_members) + ' ' +
                        std::to_string(limits_.max_name_bytes) + ' ' + label_regex_,
                .folder = options.index_folder,
                .least_entry_bytes = tar_file::kBlock,
                .most_entry_bytes = limits_.max_record_bytes,
                .least_notes = kTarNotes,
                .is_record = is_sample},
               [&](File& file) { return tar_file::scan_samples(file, limits_, rule_, hidden_); }),
        layout_(layout_of(shards_, index_, label_regex_)),
        blocking_(shards_.open(0).file->blocking()) {
    say_facts(shards_, index_);
    const std::vector<std::string> classes = layout_.class_names();
    if (classes.size() == 1 && index_.size() > 1)
      log_once(LogLevel::warning, "classes of " + shards_.path(0),
               shards_.path(0) + (shards_.size() == 1 ? "" : " and others") + ": all " +
                   std::to_string(index_.size()) + " samples have one class, \"" + classes.front() +
                   "\" (--label-regex chooses another)");
  }

  std::string name() const override { return "tar"; }
  void describe(Description& description) const override {
    description.add("label_regex", label_regex_);
    shards_.describe(description, [this](std::size_t i) { return index_.checksum(i); });
  }
  Spec spec() const override { return layout_.spec(); }
  std::vector<std::string> class_names() const override { return layout_.class_names(); }
  std::string label_extension() const override { return layout_.label_extension(); }
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
      layout_.fill(item.element, piece, context, rule_, limits_, hidden_);
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
  const bool hidden_;
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
