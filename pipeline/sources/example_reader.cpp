#include <penstock/example_reader.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include <penstock/error.h>

#include "pipeline/sources/feature_list.h"

namespace penstock {
namespace {

template <typename T>
void copy_default(const Tensor& from, std::vector<T>& values) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    for (std::int64_t i = 0; i < from.volume(); ++i) values.push_back(from.bytes_at(i));
  } else {
    const std::span<const T> all = from.values<T>();
    values.assign(all.begin(), all.end());
  }
}

/// A message in the form that all known writers use: fields of bytes, in order. wire::Fields reads
/// all other messages.
class Plain {
 public:
  Plain() = default;
  explicit Plain(std::span<const std::byte> bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const noexcept { return at_ == end_; }
  std::span<const std::byte> rest() const noexcept { return {at_, end_}; }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(at_), static_cast<std::size_t>(end_ - at_)};
  }
  /// Takes the next field's payload. Returns false unless the field holds bytes and has this
  /// number.
  bool take(unsigned number, Plain& payload) noexcept {
    if (end_ - at_ < 2 || std::to_integer<unsigned>(*at_) != (number << 3 | 2U)) return false;
    const std::byte* from = at_ + 1;
    std::size_t size = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (from == end_ || shift > 28) return false;
      const auto byte = std::to_integer<std::size_t>(*from++);
      size |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    if (size > static_cast<std::size_t>(end_ - from)) return false;
    payload.at_ = from;
    payload.end_ = at_ = from + size;
    return true;
  }

 private:
  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
};

bool take_texts(Plain list, std::vector<std::string_view>& texts) {
  for (Plain text; !list.done();) {
    if (!list.take(1, text)) return false;
    texts.push_back(text.text());
  }
  return true;
}

bool take_floats(Plain list, std::vector<float>& floats) {
  Plain packed;
  if (!list.take(1, packed) || !list.done()) return false;
  const std::span<const std::byte> bytes = packed.rest();
  if (bytes.empty() || bytes.size() % sizeof(float) != 0) return false;
  floats.resize(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());  // little-endian, as the wire is
  return true;
}

bool take_integers(Plain list, std::vector<std::int64_t>& integers) {
  Plain packed;
  if (!list.take(1, packed) || !list.done()) return false;
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const std::byte byte : packed.rest()) {
    if (shift > 63) return false;
    value |= std::to_integer<std::uint64_t>(byte & std::byte{0x7f}) << shift;
    shift += 7;
    if ((byte & std::byte{0x80}) != std::byte{0}) continue;
    integers.push_back(static_cast<std::int64_t>(value));
    value = shift = 0;
  }
  return shift == 0;  // else the last one is not complete
}

}  // namespace

ExampleReader::ExampleReader(std::vector<FeatureSpec> features, const Limits& limits)
    : features_(std::move(features)), limits_(limits), found_(features_.size()) {
  for (FeatureSpec& feature : features_) example::check(feature);
  for (std::size_t i = 0; i < features_.size(); ++i) {
    by_key_.push_back(i);
    counts_.push_back(features_[i].shape.is_static() ? features_[i].shape.volume() : -1);
  }
  std::ranges::sort(by_key_, {},
                    [&](std::size_t i) -> const std::string& { return features_[i].key; });
  for (const std::size_t i : by_key_) keys_.push_back(features_[i].key);
}

// The examples of a file mostly have the same keys, in the same order.
std::size_t ExampleReader::find(std::string_view key, std::size_t entry) {
  if (entry >= guesses_.size()) guesses_.resize(entry + 1, keys_.size());
  std::size_t& guess = guesses_[entry];
  if (guess < keys_.size() && keys_[guess] == key) return guess;
  const auto found = std::ranges::lower_bound(keys_, key);
  if (found == keys_.end() || *found != key) return keys_.size();
  return guess = static_cast<std::size_t>(found - keys_.begin());
}

void ExampleReader::note(std::string_view key, std::size_t entry,
                         std::span<const std::byte> feature) {
  constexpr std::size_t kMostGuesses = 4096;
  for (std::size_t at = find(key, std::min(entry, kMostGuesses));
       at < keys_.size() && keys_[at] == key; ++at)
    found_[by_key_[at]].feature = feature;
}

bool ExampleReader::find_plain(std::string_view record) {
  Plain example(std::as_bytes(std::span(record)));
  Plain features, entry, key, feature;
  if (!example.take(1, features) || !example.done()) return false;
  for (std::size_t n = 0; !features.done(); ++n) {
    if (!features.take(1, entry) || !entry.take(1, key)) return false;
    if (!entry.take(2, feature) || !entry.done()) return false;
    note(key.text(), n, feature.rest());
  }
  return true;
}

void ExampleReader::forget() noexcept {
  for (Found& found : found_) {
    found.feature.reset();
    found.texts.clear();
    found.floats.clear();
    found.integers.clear();
  }
}

void ExampleReader::read(std::string_view record) {
  forget();
  if (!find_plain(record)) {
    forget();
    std::size_t n = 0;
    example::for_each_feature(
        std::as_bytes(std::span(record)), limits_.max_nesting,
        [&](std::string_view key, std::span<const std::byte> feature) { note(key, n++, feature); });
  }
  for (std::size_t i = 0; i < features_.size(); ++i)
    if (!read_plain(i)) read(features_[i], found_[i], record);
}

bool ExampleReader::read_plain(std::size_t i) {
  Found& found = found_[i];
  if (!found.feature) return false;
  const DType dtype = features_[i].dtype;
  Plain feature(*found.feature);
  Plain list;
  const unsigned kind = dtype == DType::bytes ? 1 : dtype == DType::f32 ? 2 : 3;  // see feature.h
  if (!feature.take(kind, list) || !feature.done()) return false;
  std::size_t count = 0;
  bool plain = false;
  if (dtype == DType::bytes) {
    plain = take_texts(list, found.texts);
    count = found.texts.size();
  } else if (dtype == DType::f32) {
    plain = take_floats(list, found.floats);
    count = found.floats.size();
  } else {
    plain = take_integers(list, found.integers);
    count = found.integers.size();
  }
  const Shape& shape = features_[i].shape;
  const bool fits =
      counts_[i] >= 0 ? count == static_cast<std::size_t>(counts_[i]) : shape.rank() == 1;
  if (plain && fits) return true;
  found.texts.clear();
  found.floats.clear();
  found.integers.clear();
  return false;
}

void ExampleReader::read(const FeatureSpec& wanted, Found& found, std::string_view record) try {
  if (found.feature) {
    const example::Values values(*found.feature, limits_.max_nesting);
    if (values.present()) return values.read(wanted, found.texts, found.floats, found.integers);
  }
  if (!wanted.default_value)
    throw Error(ErrorCode::data_loss,
                example::missing_text(record, wanted.key, limits_.max_nesting));
  if (wanted.dtype == DType::bytes) return copy_default(*wanted.default_value, found.texts);
  if (wanted.dtype == DType::f32) return copy_default(*wanted.default_value, found.floats);
  copy_default(*wanted.default_value, found.integers);
} catch (const Error& error) {
  throw Error(error.code(), "feature '" + wanted.key + "': " + error.cause());
}

}  // namespace penstock
