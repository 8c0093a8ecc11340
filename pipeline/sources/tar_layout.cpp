#include "pipeline/sources/tar_layout.h"

#include <algorithm>
#include <charconv>

#include "pipeline/sources/mapping.h"
#include "pipeline/sources/tar_samples.h"

namespace penstock::tar_file {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::int64_t parse_class(std::string_view text) {
  constexpr std::string_view kBlanks(" \t\r\n\0", 5);
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(first);
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  std::int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end.ec != std::errc() || end.ptr != text.data() + text.size())
    throw Error(ErrorCode::data_loss, "the member .cls is not an integer");
  return value;
}

}  // namespace

Layout::Layout(const std::vector<std::string>& extensions, bool has_regex,
               std::vector<std::string> classes)
    : classes_(std::move(classes)) {
  const bool has_class = std::find(extensions.begin(), extensions.end(), "cls") != extensions.end();
  images_ = extensions.empty() || (extensions.size() == (has_class ? 2u : 1u) &&
                                   std::any_of(extensions.begin(), extensions.end(), is_image));
  labels_ = has_regex   ? Labels::name
            : has_class ? Labels::number
            : images_   ? Labels::name
                        : Labels::none;
  std::vector<ComponentSpec> components;
  if (images_) {
    parts_ = {"image"};
  } else {
    parts_ = extensions;
    if (labels_ == Labels::number) std::erase(parts_, "cls");
  }
  for (const std::string& part : parts_) components.push_back({part, DType::bytes, Shape()});
  if (labels_ != Labels::none) components.push_back({"label", DType::i64, Shape()});
  components.push_back({"key", DType::bytes, Shape()});
  std::vector<std::string> names;
  for (const ComponentSpec& component : components) names.push_back(component.name);
  spec_ = Spec(std::move(components));
  names_ = Names::intern(names);
  for (std::size_t i = 0; i < classes_.size(); ++i)
    label_of_class_.emplace(classes_[i], static_cast<std::int64_t>(i));
}

std::vector<std::string> Layout::class_names() const {
  return labels_ == Labels::name ? classes_ : std::vector<std::string>();
}

int Layout::component_of(std::string_view extension) const noexcept {
  if (images_) return is_image(extension) ? 0 : -1;
  const auto found = std::find(parts_.begin(), parts_.end(), extension);
  return found == parts_.end() ? -1 : static_cast<int>(found - parts_.begin());
}

std::int64_t Layout::label_of(std::string_view member, const LabelRule& rule) const {
  const std::optional<std::string> text = rule.text(member);
  const auto found = text ? label_of_class_.find(*text) : label_of_class_.end();
  if (found == label_of_class_.end())
    throw Error(ErrorCode::data_loss,
                "the label expression does not match \"" + std::string(member) + "\"");
  return found->second;
}

void Layout::fill(Element& element, const ReadPiece& piece, ReadContext& context,
                  const LabelRule& rule, const Limits& limits, bool hidden) const {
  const bool has_label = labels_ != Labels::none;
  const std::size_t label = parts_.size(), key = label + (has_label ? 1 : 0);
  element.reset(names_);
  std::string_view sample;
  Walker walker(limits);
  walker.start(
      [&](std::uint64_t offset, std::size_t size, bool) {
        if (offset >= piece.bytes.size()) return std::span<const std::byte>();
        return piece.bytes.subspan(offset, std::min(size, piece.bytes.size() - offset));
      },
      piece.bytes.size(), false);
  while (const std::optional<Member> member = walker.next()) {
    const SplitName name = split_name(member->name, hidden);
    if (member->kind != Kind::file || name.key.empty()) continue;
    if (sample.empty()) {
      element[key] = key_tensor(name.key, piece.owner, context);
      sample = element[key].bytes_at();
      if (labels_ == Labels::name) element[label] = Tensor::scalar(label_of(member->name, rule));
    }
    const std::span<const std::byte> data = piece.bytes.subspan(member->data, member->size);
    if (labels_ == Labels::number && name.extension == "cls") {
      element[label] = Tensor::scalar(parse_class(text_of(data)));
    } else if (const int i = component_of(name.extension); i >= 0) {
      Tensor& part = element[static_cast<std::size_t>(i)];
      if (part.dtype() == DType::bytes)
        throw Error(ErrorCode::data_loss,
                    "the sample \"" + std::string(sample) + "\" has two images");
      part = Tensor::bytes(text_of(data), piece.owner);
    }
  }
  // A component that was not filled is still the empty tensor of reset().
  const auto lacks = [&](const std::string& what) {
    return Error(ErrorCode::data_loss, "the sample \"" + std::string(sample) + "\" has no " + what);
  };
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (element[i].dtype() != DType::bytes)
      throw lacks(images_ ? "image (.jpg, .jpeg or .png)" : "member ." + parts_[i]);
  }
  if (has_label && element[label].dtype() != DType::i64) throw lacks("member .cls");
}

}  // namespace penstock::tar_file
