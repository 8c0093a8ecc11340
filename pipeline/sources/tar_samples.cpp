#include "pipeline/sources/tar_samples.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include <penstock/internal/other_format.h>

#include "pipeline/sources/window.h"

namespace penstock::tar_file {

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : "/") + word;
  return text;
}

constexpr std::uint32_t kNoLayout = UINT32_MAX;
constexpr std::size_t kMostLayouts = 100;  // in one shard; the last counts for all others

/// Every extension of an image means the same component.
std::string_view component(std::string_view extension) {
  return is_image(extension) ? "jpg" : extension;
}

bool has(std::string_view extensions, std::string_view wanted) {
  return std::ranges::any_of(parts_of(extensions, '/'), [wanted](std::string_view extension) {
    return component(extension) == component(wanted);
  });
}

bool has_all(std::string_view extensions, std::span<const std::string> wanted) {
  return std::ranges::all_of(wanted, [&](const std::string& one) { return has(extensions, one); });
}

bool has_any(std::string_view extensions, std::span<const std::string> wanted) {
  return std::ranges::any_of(wanted, [&](const std::string& one) { return has(extensions, one); });
}

/// Names may hold anything.
std::string line(std::string text) {
  std::ranges::replace(text, '\n', '?');
  return text + '\n';
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

class Scanner {
 public:
  Scanner(File& file, const Limits& limits, const LabelRule& rule, bool hidden)
      : file_(file),
        window_(file),
        limits_(limits),
        rule_(rule),
        hidden_(hidden),
        walker_(limits) {}

  ShardIndex run() {
    walker_.start(
        [this](std::uint64_t offset, std::size_t size, bool fresh) {
          return fresh ? window_.at_uncached(offset, size) : window_.at(offset, size);
        },
        window_.file_size(), true);
    try {
      while (const std::optional<Member> member = walker_.next()) add(*member);
      close();
      facts_.lacks_end = walker_.lacks_end();
      facts_.another = walker_.another();
    } catch (const Error& error) {
      close_at_damage();
      const OtherFormat* const other = walker_.where() == 0 ? find_other_format(file_) : nullptr;
      const std::uint64_t lost = window_.file_size() - walker_.where();
      fault_alone(walker_.where(), error.code(),
                  other != nullptr ? "this is " + other->text()
                                   : error.cause() + "; the shard's last " + std::to_string(lost) +
                                         " bytes are lost");
    }
    leave_out_strangers();
    index_.notes = {text_of(layouts_), text_of(facts_)};
    for (const std::string& name : classes_) index_.notes.push_back(name);
    for (auto& [at, fault] : faults_) index_.faults.push_back(std::move(fault));
    return std::move(index_);
  }

 private:
  void add(const Member& member) {
    if (++members_ > limits_.max_members)
      throw Error(ErrorCode::out_of_range,
                  "more than " + std::to_string(limits_.max_members) + " members");
    if (member.kind == Kind::folder) return;
    if (member.kind == Kind::unknown) {
      ++facts_.unknown;
      return;
    }
    if (!hidden_ && is_hidden(member.name)) {
      ++facts_.hidden;
      return;
    }
    SplitName name = split_name(member.name, hidden_);
    if (name.key.empty()) {
      if (member.kind == Kind::file) {
        if (facts_.nameless++ == 0) facts_.first_nameless = member.name;
        return;
      }
      close();
      fault_alone(member.header, ErrorCode::data_loss, unusable(member));
      return;
    }
    if (!open_ || name.key != key_) begin(member, name.key);
    entry_.size = member.end - entry_.offset;
    if (!cause_.empty()) return;  // the first reason counts
    if (member.kind != Kind::file) fail(ErrorCode::data_loss, unusable(member));
    if (entry_.size > limits_.max_record_bytes)
      fail(ErrorCode::out_of_range, "the sample \"" + key_ + "\" exceeds max_record_bytes, " +
                                        std::to_string(limits_.max_record_bytes));
    if (extensions_.size() == kMostMembers)
      return fail(ErrorCode::out_of_range, "the sample \"" + key_ + "\" has more than " +
                                               std::to_string(kMostMembers) + " members");
    const auto [extension, is_new] = extensions_.insert(std::move(name.extension));
    if (!is_new)
      fail(ErrorCode::data_loss, "the sample \"" + key_ + "\" has two members ." + *extension);
  }

  static std::string unusable(const Member& member) {
    return "the member \"" + std::string(member.name) + "\" is " +
           std::string(text_of(member.kind)) + ", which is not read";
  }

  void begin(const Member& member, std::string_view key) {
    close();
    open_ = true;
    key_ = key;
    name_ = member.name;
    entry_ = {member.header, 0};
  }

  /// Marks the open sample as unusable. The first reason counts.
  void fail(ErrorCode code, std::string cause) {
    if (!cause_.empty()) return;
    code_ = code;
    cause_ = std::move(cause);
  }

  void close() {
    if (!open_) return;
    open_ = false;
    const auto [seen, is_new] = seen_.try_emplace(std::hash<std::string>()(key_), record());
    if (!is_new) {
      fault(seen->second, ErrorCode::data_loss,
            "the members of the sample \"" + key_ + "\" are not adjacent: more of them at byte " +
                std::to_string(entry_.offset));
    } else {
      cause_.empty() ? accept() : fault(record(), code_, cause_);
      index_.entries.push_back(entry_);
      layout_of_.resize(index_.entries.size(), kNoLayout);
    }
    cause_.clear();
    extensions_.clear();
  }

  void accept() {
    const std::string extensions = joined({extensions_.begin(), extensions_.end()});
    auto layout = std::ranges::find(layouts_, extensions, &SampleLayout::extensions);
    if (layout == layouts_.end() && layouts_.size() == kMostLayouts) --layout;
    if (layout == layouts_.end()) layout = layouts_.insert(layout, {extensions, 0, key_});
    ++layout->samples;
    layout_of_.resize(index_.entries.size(), kNoLayout);
    layout_of_.push_back(static_cast<std::uint32_t>(layout - layouts_.begin()));
    if (std::optional<std::string> text = rule_.text(name_)) {
      classes_.insert(*text);
      classes_of_[layout_of_.back()].insert(*std::move(text));
    }
  }

  /// A README is a sample by its name, and not one of the data set: no member of it is what most
  /// samples have.
  void leave_out_strangers() {
    const std::vector<std::string> usual = usual_extensions(layouts_);
    std::vector<bool> strange(layouts_.size());
    for (std::size_t i = 0; i < layouts_.size(); ++i)
      strange[i] = !has_any(layouts_[i].extensions, usual);
    if (std::ranges::find(strange, true) == strange.end()) return;
    std::vector<IndexEntry> entries;
    std::map<std::uint64_t, IndexFault> faults;
    for (std::uint64_t record = 0; record < index_.entries.size(); ++record) {
      if (layout_of_[record] != kNoLayout && strange[layout_of_[record]]) continue;
      if (const auto fault = faults_.find(record); fault != faults_.end()) {
        fault->second.record = entries.size();
        faults.emplace(entries.size(), std::move(fault->second));
      }
      entries.push_back(index_.entries[record]);
    }
    index_.entries = std::move(entries);
    faults_ = std::move(faults);
    classes_.clear();
    std::vector<SampleLayout> kept;
    for (std::uint32_t i = 0; i < layouts_.size(); ++i) {
      if (!strange[i]) {
        kept.push_back(layouts_[i]);
        classes_.insert(classes_of_[i].begin(), classes_of_[i].end());
      } else {
        if (facts_.strange == 0) facts_.first_strange = layouts_[i].first;
        facts_.strange += layouts_[i].samples;
      }
    }
    layouts_ = std::move(kept);
  }

  /// Closes the open sample at damage, because it may lack members that were cut off.
  void close_at_damage() {
    if (!open_) return;
    const bool whole =
        has_all(joined({extensions_.begin(), extensions_.end()}), usual_extensions(layouts_));
    if (whole || !cause_.empty()) return close();
    open_ = false;
  }

  void fault(std::uint64_t record, ErrorCode code, std::string cause) {
    faults_.try_emplace(record, IndexFault{record, code, std::move(cause)});
  }
  void fault_alone(std::uint64_t offset, ErrorCode code, std::string cause) {
    fault(record(), code, std::move(cause));
    index_.entries.push_back({offset, 0});
    layout_of_.resize(index_.entries.size(), kNoLayout);
  }
  std::uint64_t record() const noexcept { return index_.entries.size(); }

  File& file_;
  Window window_;
  const Limits& limits_;
  const LabelRule& rule_;
  const bool hidden_;
  Walker walker_;
  ShardIndex index_;
  std::uint64_t members_ = 0;

  bool open_ = false;  // the rest describes the open sample
  std::string key_;
  std::string name_;  // of its first member
  IndexEntry entry_;
  std::set<std::string> extensions_;  // of its members, as long as it is sound
  ErrorCode code_ = ErrorCode::data_loss;
  std::string cause_;  // empty: sound so far

  std::unordered_map<std::size_t, std::uint64_t> seen_;  // hash of key: its record
  std::map<std::uint64_t, IndexFault> faults_;           // by record; its first counts
  std::vector<SampleLayout> layouts_;
  std::vector<std::uint32_t> layout_of_;  // of each record
  std::set<std::string> classes_;
  std::map<std::uint32_t, std::set<std::string>> classes_of_;  // of each layout
  ShardFacts facts_;
};

}  // namespace

SplitName split_name(std::string_view name, bool hidden) {
  const std::size_t slash = name.rfind('/');
  const std::size_t start = slash == std::string_view::npos ? 0 : slash + 1;
  if (!hidden && is_hidden(name)) return {};
  const std::size_t dot = name.find('.', start + 1);
  if (dot == std::string_view::npos || dot + 1 == name.size()) return {};
  const std::string_view last = name.substr(start);
  if (last.starts_with("__") && last.ends_with("__")) return {};
  SplitName split{name.substr(0, dot), std::string(name.substr(dot + 1))};
  for (char& c : split.extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return split;
}

bool is_hidden(std::string_view name) noexcept {
  return name.substr(name.rfind('/') + 1).starts_with('.');
}

bool is_image(std::string_view extension) noexcept {
  return extension == "jpg" || extension == "jpeg" || extension == "png";
}

std::vector<std::string> usual_extensions(const std::vector<SampleLayout>& layouts) {
  std::uint64_t samples = 0;
  std::uint64_t with_images = 0;
  std::uint64_t with_several = 0;  // images
  std::map<std::string, std::uint64_t, std::less<>> count;
  for (const SampleLayout& layout : layouts) {
    samples += layout.samples;
    std::size_t images = 0;
    for (const std::string_view extension : parts_of(layout.extensions, '/')) {
      count[std::string(extension)] += layout.samples;
      images += is_image(extension);
    }
    if (images > 0) with_images += layout.samples;
    if (images > 1) with_several += layout.samples;
  }
  const auto is_usual = [samples](std::uint64_t n) { return n >= samples - n; };
  std::vector<std::string> usual;
  const std::pair<const std::string, std::uint64_t>* image = nullptr;
  for (const auto& entry : count) {
    if (is_image(entry.first) && with_several <= samples - with_several) {
      // Samples have one image each, of whatever extension.
      if (image == nullptr || image->second < entry.second) image = &entry;
    } else if (is_usual(entry.second)) {
      usual.push_back(entry.first);
    }
  }
  if (image != nullptr && is_usual(with_images)) usual.push_back(image->first);
  if (usual.empty() && samples > 0) {
    const auto most = std::ranges::max_element(layouts, {}, &SampleLayout::samples);
    for (const std::string_view extension : parts_of(most->extensions, '/'))
      usual.emplace_back(extension);
  }
  std::ranges::sort(usual);
  return usual;
}

std::string text_of(const std::vector<SampleLayout>& layouts) {
  std::string text;
  for (const SampleLayout& layout : layouts)
    text += line(std::to_string(layout.samples)) + line(layout.extensions) + line(layout.first);
  return text;
}

std::vector<SampleLayout> layouts_in(std::string_view note) {
  const std::vector<std::string_view> lines = parts_of(note, '\n');
  std::vector<SampleLayout> layouts;
  for (std::size_t i = 0; i + 2 < lines.size(); i += 3)
    layouts.push_back({std::string(lines[i + 1]), number_of(lines[i]), std::string(lines[i + 2])});
  return layouts;
}

std::string text_of(const ShardFacts& facts) {
  std::string text;
  for (const std::uint64_t number : {facts.nameless, facts.hidden, facts.unknown, facts.strange,
                                     std::uint64_t{facts.lacks_end}, facts.another.value_or(0)})
    text += line(std::to_string(number));
  return text + line(facts.first_nameless) + line(facts.first_strange);
}

ShardFacts facts_in(std::string_view note) {
  const std::vector<std::string_view> lines = parts_of(note, '\n');
  ShardFacts facts;
  if (lines.size() < 8) return facts;
  facts.nameless = number_of(lines[0]);
  facts.hidden = number_of(lines[1]);
  facts.unknown = number_of(lines[2]);
  facts.strange = number_of(lines[3]);
  facts.lacks_end = lines[4] == "1";
  if (const std::uint64_t at = number_of(lines[5]); at > 0) facts.another = at;
  facts.first_nameless = lines[6];
  facts.first_strange = lines[7];
  return facts;
}

ShardIndex scan_samples(File& file, const Limits& limits, const LabelRule& rule, bool hidden) {
  return Scanner(file, limits, rule, hidden).run();
}

}  // namespace penstock::tar_file
