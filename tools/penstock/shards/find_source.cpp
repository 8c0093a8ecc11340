#include "tools/penstock/shards/find_source.h"

#include <algorithm>
#include <array>
#include <map>

#include <penstock/file_system.h>
#include <penstock/internal/find_files.h>
#include <penstock/internal/other_format.h>
#include <penstock/remote_files.h>

#include "pipelines/kinds.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/shards/open.h"

namespace penstock::tool {
namespace {

/// Returns the name for several files, in the order of the enumeration.
std::string_view plural_of(Format format) noexcept {
  constexpr std::array<std::string_view, 13> kNames{
      "folders of images", "JPEGs",      "PNGs",           "tar archives",
      "TFRecord files",    "IDX files",  "CIFAR-10 files", ".npy arrays",
      "CSV files",         "text files", "image records",  "shards of tokens",
      "unknown files"};
  return kNames[static_cast<std::size_t>(format)];
}

/// Returns the kind made for such files, or else the first that reads them; null if there is none.
const Kind* kind_for(Format format) {
  const Kind* found = nullptr;
  for (const Kind& kind : source_kinds()) {
    if (!kind.reads(format)) continue;
    if (kind.formats.front() == format) return &kind;
    if (found == nullptr) found = &kind;
  }
  return found;
}

/// Returns text such as "2 tar archives (--tar), 1 of CSV files (--csv)".
std::string list_of(const std::vector<Shard>& shards) {
  std::map<Format, std::size_t> counts;
  for (const Shard& shard : shards) ++counts[shard.format];
  List parts;
  for (const auto& [format, count] : counts) {
    const Kind* const kind = kind_for(format);
    const std::string what =
        format == Format::folder && count == 1
            ? std::string(name_of(format))
            : std::to_string(count) + " " +
                  std::string(count == 1 ? name_of(format) : plural_of(format));
    parts.push_back(what + (kind != nullptr ? " (" + kind->flag() + ")" : ""));
  }
  return join(parts, ", ");
}

/// True if the bytes of the format distinguish it from all others. Those of CIFAR-10 do not, and
/// the first bytes of an IDX file may be those of a dark picture.
bool is_plain(Format format) {
  constexpr std::array kPlain{Format::jpeg,     Format::png,     Format::tar,   Format::npy,
                              Format::tfrecord, Format::records, Format::tokens};
  return std::ranges::find(kPlain, format) != kPlain.end();
}

/// Throws Error{data_loss} that names the first file of a format that is not read, unless
/// there are data beside it. Texts are not: other formats come with an index.json, or a list.
void refuse_other_formats(const std::vector<Shard>& shards) {
  const auto may_be_note = [](const Shard& shard) {
    return shard.format == Format::lines || shard.format == Format::csv ||
           shard.format == Format::unknown;
  };
  if (!std::ranges::all_of(shards, may_be_note)) return;
  constexpr std::size_t kMostOpened = 16;
  std::size_t opened = 0;
  for (const Shard& shard : shards)
    if (shard.format == Format::unknown && ++opened <= kMostOpened)
      refuse_other_format(*default_file_system()->open(shard.path));
}

/// Returns the error for files that no source reads, or not one alone.
UsageError unclear(const std::vector<Shard>& shards) {
  const bool unknown = std::ranges::all_of(
      shards, [](const Shard& shard) { return kind_for(shard.format) == nullptr; });
  const std::string first = printable(shards.front().path);
  const std::string more =
      shards.size() > 1 ? " and " + std::to_string(shards.size() - 1) + " more" : "";
  return UsageError((unknown ? "the format of " + first + more + " is not known"
                             : "no source reads all of these: " + list_of(shards)) +
                    "; name the source by its flag, with a pattern of the files: one of " +
                    source_flags());
}

void set_paths(Settings& source, const std::vector<std::string>& given,
               const std::vector<Shard>& shards) {
  const Kind& kind = source.kind();
  if (kind.form == FlagForm::paths) {
    List paths;
    for (const Shard& shard : shards) paths.push_back(shard.path);
    source.set(kind.parameters.front().name, std::move(paths));
    return;
  }
  if (given.size() > 1)
    throw UsageError("these are " + list_of(shards) +
                     ", and are named one by one; give one folder, or a pattern in quotes");
  if (kind.form == FlagForm::parts && shards.size() > 1)
    throw UsageError("these are " + list_of(shards) + "; say which: " + kind.flag() +
                     " IMAGES,LABELS");
  const bool parts = kind.form == FlagForm::parts;
  source.set(kind.parameters.front().name, parts ? shards.front().path : given.front());
  if (!parts) return;
  const std::string labels = labels_beside(shards.front().path);
  if (!labels.empty()) source.set(kind.parameters[1].name, labels);
}

}  // namespace

Settings find_source(const std::vector<std::string>& paths, bool hidden) {
  std::vector<Shard> shards;
  for (const std::string& path : paths) {
    std::vector<Shard> found = find_shards(path, hidden).found;
    refuse_other_formats(found);
    // Next to data in a folder, a text is a note, such as the names of CIFAR-10's classes.
    const auto is_note = [](const Shard& shard) {
      return shard.format == Format::lines || shard.format == Format::unknown;
    };
    if (!std::ranges::all_of(found, is_note) && default_file_system()->is_directory(path))
      std::erase_if(found, is_note);
    shards.insert(shards.end(), found.begin(), found.end());
  }
  const Kind* const kind = kind_for(shards.front().format);
  const auto fits = [kind](const Shard& shard) { return kind->reads(shard.format); };
  if (kind == nullptr || !std::ranges::all_of(shards, fits)) throw unclear(shards);
  Settings source(*kind);
  set_paths(source, paths, shards);
  return source;
}

void check_content(const Settings& source) {
  const Kind& kind = source.kind();
  if (kind.packed_images && source.has("record_bytes")) return;  // with any content
  for (const std::string& pattern : source.paths()) {
    std::vector<std::string> files;
    Format format = Format::unknown;
    try {
      files = find_files(*default_file_system(), pattern);
      format = detect_format(files.front());
    } catch (const Error& error) {
      // The source reports it. But a server that gives nothing would take its time once more.
      if (error.code() == ErrorCode::unavailable && is_remote(pattern)) throw;
      return;
    }
    if (kind.reads(format)) continue;
    const std::string where = kind.flag() + " " + printable(files.front());
    if (format == Format::folder) {
      const std::vector<Shard> found = find_shards(files.front()).found;
      const bool suits =
          std::ranges::any_of(found, [&](const Shard& shard) { return kind.reads(shard.format); });
      if (found.size() == 1 && found.front().format == Format::folder)
        throw UsageError("this is a folder of images: " + kind_for(Format::folder)->flag(), where);
      throw UsageError(
          "this is a folder that holds " + list_of(found) +
              (suits ? ": give a pattern in quotes, such as '" + printable(files.front()) + "/*'"
                     : ""),
          where);
    }
    if (!is_plain(format)) return;
    const Kind* const other = kind_for(format);
    throw UsageError("these are " + std::string(plural_of(format)) + ": " + other->flag(), where);
  }
}

}  // namespace penstock::tool
