// The components of samples in tar shards, and how they are filled.
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

/// The layout of samples, which the extensions of one sample decide; see make_tar_source. Immutable
/// and thread-safe.
class Layout {
 public:
  /// Makes a layout. `classes`: every class that the label rule gave a sample, sorted.
  Layout(const std::vector<std::string>& extensions, bool has_regex,
         std::vector<std::string> classes);

  const Spec& spec() const noexcept { return spec_; }
  /// Returns the class names. Empty unless labels come from names.
  std::vector<std::string> class_names() const;
  /// Returns ".cls" if that member holds the label.
  std::string label_extension() const { return labels_ == Labels::number ? ".cls" : ""; }

  /// Returns true if members with this extension become a component or the label.
  bool reads(std::string_view extension) const noexcept {
    return component_of(extension) >= 0 || (labels_ == Labels::number && extension == "cls");
  }

  /// Makes an element that views the bytes of a sample. Throws Error{data_loss} that names the
  /// sample and the component that it lacks.
  void fill(Element& element, const ReadPiece& piece, ReadContext& context, const LabelRule& rule,
            const Limits& limits, bool hidden) const;

 private:
  enum class Labels { none, number, name };

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };

  /// Returns the component of a member with this extension, or -1.
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
