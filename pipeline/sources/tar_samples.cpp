#include "pipeline/sources/tar_samples.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "pipeline/sources/window.h"

namespace penstock::tar_file {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : "/") + word;
  return text;
}

class Scanner {
 public:
  Scanner(File& file, const Limits& limits, const LabelRule& rule)
      : window_(file), limits_(limits), rule_(rule), walker_(limits) {}

  ShardIndex run() {
    walker_.start(
        [this](std::uint64_t offset, std::size_t size, bool fresh) {
          return fresh ? window_.at_uncached(offset, size) : window_.at(offset, size);
        },
        window_.file_size(), true);
    try {
      while (const std::optional<Member> member = walker_.next()) add(*member);
      close();
    } catch (const Error& error) {
      close_at_damage();
      const std::uint64_t lost = window_.file_size() - walker_.where();
      fault_alone(walker_.where(), error.code(),
                  error.cause() + "; the shard's last " + std::to_string(lost) + " bytes are lost");
    }
    index_.notes.insert(index_.notes.begin(), joined(first_extensions_));
    index_.notes.insert(index_.notes.end(), classes_.begin(), classes_.end());
    for (auto& [at, fault] : faults_) index_.faults.push_back(std::move(fault));
    return std::move(index_);
  }

 private:
  void add(const Member& member) {
    if (++members_ > limits_.max_members)
      throw Error(ErrorCode::out_of_range,
                  "more than " + std::to_string(limits_.max_members) + " members");
    if (member.kind == Kind::folder) return;
    SplitName name = split_name(member.name);
    if (name.key.empty()) {
      if (member.kind == Kind::file) return;
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
            "the members of the sample \"" + key_ + "\" are apart: more of them at byte " +
                std::to_string(entry_.offset));
    } else {
      cause_.empty() ? accept() : fault(record(), code_, cause_);
      index_.entries.push_back(entry_);
    }
    cause_.clear();
    extensions_.clear();
  }

  void accept() {
    if (first_extensions_.empty()) first_extensions_.assign(extensions_.begin(), extensions_.end());
    if (std::optional<std::string> text = rule_.text(name_)) classes_.insert(*std::move(text));
  }

  /// Closes the open sample at damage, because it may lack members that were cut off.
  void close_at_damage() {
    if (!open_) return;
    const bool whole = std::includes(extensions_.begin(), extensions_.end(),
                                     first_extensions_.begin(), first_extensions_.end());
    if (whole || !cause_.empty()) return close();
    open_ = false;
  }

  void fault(std::uint64_t record, ErrorCode code, std::string cause) {
    faults_.try_emplace(record, IndexFault{record, code, std::move(cause)});
  }
  void fault_alone(std::uint64_t offset, ErrorCode code, std::string cause) {
    fault(record(), code, std::move(cause));
    index_.entries.push_back({offset, 0});
  }
  std::uint64_t record() const noexcept { return index_.entries.size(); }

  Window window_;
  const Limits& limits_;
  const LabelRule& rule_;
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
  std::vector<std::string> first_extensions_;
  std::set<std::string> classes_;
};

}  // namespace

SplitName split_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t start = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', start);
  if (dot == std::string_view::npos || dot == start || dot + 1 == name.size()) return {};
  const std::string_view last = name.substr(start);
  if (last.starts_with("__") && last.ends_with("__")) return {};
  SplitName split{name.substr(0, dot), std::string(name.substr(dot + 1))};
  for (char& c : split.extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return split;
}

bool is_image(std::string_view extension) noexcept {
  return extension == "jpg" || extension == "jpeg" || extension == "png";
}

ShardIndex scan_samples(File& file, const Limits& limits, const LabelRule& rule) {
  return Scanner(file, limits, rule).run();
}

}  // namespace penstock::tar_file
