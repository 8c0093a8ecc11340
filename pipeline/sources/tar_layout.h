// Which components the samples of tar shards have, and how they are filled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <penstock/element.h>
#include <penstock/limits.h>
#include <penstock/source.h>
#include <penstock/spec.h>

#include "pipeline/sources/group_read.h"
#include "pipeline/sources/labels.h"

namespace penstock::tar_file {

/// Decided by the extensions of one sample; see make_tar_source. Immutable and thread-safe.
class Layout {
 public:
  /// `classes`: every class that `rule` gave a sample, sorted.
  Layout(const std::vector<std::string>& extensions, bool has_regex,
         std::vector<std::string> classes);

  const Spec& spec() const noexcept { return spec_; }
  /// Empty unless labels come from names.
  std::vector<std::string> class_names() const;

  /// Makes an element of the bytes of a sample, which it views. Throws Error{data_loss} naming the
  /// sample and what it lacks.
  void fill(Element& element, const ReadPiece& piece, ReadContext& context, const LabelRule& rule,
            const Limits& limits) const;

 private:
  enum class Labels { none, number, name };

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };

  /// Component of a member with this extension, or -1.
  int component_of(std::string_view extension) const noexcept;
  std::int64_t label_of(std::string_view member, const LabelRule& rule) const;

  bool images_ = false;
  Labels labels_ = Labels::none;
  std::vector<std::string> parts_;  // extensions of the components that are members, in order
  std::vector<std::string> classes_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> label_of_class_;
  Spec spec_;
  const Names* names_ = nullptr;
};

}  // namespace penstock::tar_file
