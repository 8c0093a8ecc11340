#include "tools/penstock/shards/example_view.h"

#include <algorithm>
#include <cstring>

namespace penstock::tool {
namespace {

constexpr std::size_t kMostFeatures = 1000;

/// Walks over the fields of a protobuf message. Source: protobuf's "Encoding".
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  /// Reads the next field. False at the end, or at malformed bytes (then `bad`).
  bool next() {
    if (rest_.empty() || bad_) return false;
    const std::uint64_t tag = varint();
    number_ = static_cast<int>(tag >> 3);
    wire_ = static_cast<int>(tag & 7);
    if (wire_ == 0) {
      value_ = varint();
    } else if (wire_ == 1) {
      bytes_ = take(8);
    } else if (wire_ == 2) {
      bytes_ = take(varint());
    } else if (wire_ == 5) {
      bytes_ = take(4);
    } else {
      bad_ = true;
    }
    return !bad_;
  }

  bool bad() const noexcept { return bad_; }
  int number() const noexcept { return number_; }
  /// 0: a number in value(); 1, 5: 8 or 4 bytes; 2: any number of bytes.
  int wire() const noexcept { return wire_; }
  std::uint64_t value() const noexcept { return value_; }
  std::string_view bytes() const noexcept { return bytes_; }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      if (shift < 64) value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    bad_ = true;
    return 0;
  }
  bool empty() const noexcept { return rest_.empty(); }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) bad_ = true;
    const std::string_view taken = bad_ ? std::string_view() : rest_.substr(0, count);
    if (!bad_) rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  bool bad_ = false;
  int number_ = 0;
  int wire_ = 0;
  std::uint64_t value_ = 0;
  std::string_view bytes_;
};

double float_of(std::string_view bytes) {
  float value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

bool read_bytes_list(std::string_view list, FeatureView& out) {
  Fields fields(list);
  while (fields.next()) {
    if (fields.number() != 1 || fields.wire() != 2) continue;
    if (out.count++ == 0) out.bytes = fields.bytes();
  }
  return !fields.bad();
}

bool read_float_list(std::string_view list, FeatureView& out) {
  Fields fields(list);
  while (fields.next()) {
    const bool packed = fields.wire() == 2;
    if (fields.number() != 1 || (!packed && fields.wire() != 5)) continue;
    if (fields.bytes().size() % 4 != 0) return false;
    if (out.count == 0 && !fields.bytes().empty()) out.number = float_of(fields.bytes());
    out.count += fields.bytes().size() / 4;
  }
  return !fields.bad();
}

bool read_int_list(std::string_view list, FeatureView& out) {
  const auto add = [&out](std::uint64_t value) {
    if (out.count++ == 0) out.number = static_cast<double>(static_cast<std::int64_t>(value));
  };
  Fields fields(list);
  while (fields.next()) {
    if (fields.number() != 1) continue;
    if (fields.wire() == 0) add(fields.value());
    if (fields.wire() != 2) continue;
    Fields packed(fields.bytes());
    while (!packed.empty() && !packed.bad()) add(packed.varint());
    if (packed.bad()) return false;
  }
  return !fields.bad();
}

bool read_feature(std::string_view feature, FeatureView& out) {
  Fields fields(feature);
  while (fields.next()) {
    if (fields.wire() != 2 || fields.number() < 1 || fields.number() > 3) return false;
    constexpr std::string_view kKinds = "bfi";
    out.kind = kKinds[static_cast<std::size_t>(fields.number() - 1)];
    const std::string_view list = fields.bytes();
    if (!(out.kind == 'b'   ? read_bytes_list(list, out)
          : out.kind == 'f' ? read_float_list(list, out)
                            : read_int_list(list, out)))
      return false;
  }
  return !fields.bad();
}

bool read_entry(std::string_view entry, FeatureView& out) {
  Fields fields(entry);
  while (fields.next()) {
    if (fields.wire() != 2) return false;
    if (fields.number() == 1) out.key = fields.bytes();
    if (fields.number() == 2 && !read_feature(fields.bytes(), out)) return false;
  }
  return !fields.bad();
}

bool read_features(std::string_view map, std::vector<FeatureView>& out) {
  Fields entries(map);
  while (entries.next() && out.size() < kMostFeatures) {
    if (entries.number() != 1 || entries.wire() != 2) return false;
    if (!read_entry(entries.bytes(), out.emplace_back())) return false;
  }
  return !entries.bad();
}

bool read_steps(std::string_view list, SequenceView& out) {
  Fields steps(list);
  while (steps.next()) {
    FeatureView step;
    if (steps.number() != 1 || steps.wire() != 2 || !read_feature(steps.bytes(), step))
      return false;
    ++out.steps;
    out.count += step.count;
    if (out.kind == '?') out.kind = step.kind;
  }
  return !steps.bad();
}

bool read_sequence(std::string_view entry, SequenceView& out) {
  Fields fields(entry);
  while (fields.next()) {
    if (fields.wire() != 2) return false;
    if (fields.number() == 1) out.key = fields.bytes();
    if (fields.number() == 2 && !read_steps(fields.bytes(), out)) return false;
  }
  return !fields.bad();
}

bool read_sequences(std::string_view map, std::vector<SequenceView>& out) {
  Fields entries(map);
  while (entries.next() && out.size() < kMostFeatures) {
    if (entries.number() != 1 || entries.wire() != 2) return false;
    if (!read_sequence(entries.bytes(), out.emplace_back())) return false;
  }
  return !entries.bad();
}

}  // namespace

std::optional<SequenceExampleView> view_sequence_example(std::string_view record) {
  SequenceExampleView view;
  Fields fields(record);
  while (fields.next()) {
    const bool context = fields.number() == 1;
    if (fields.wire() != 2 || (!context && fields.number() != 2)) return std::nullopt;
    if (!(context ? read_features(fields.bytes(), view.context)
                  : read_sequences(fields.bytes(), view.sequences)))
      return std::nullopt;
  }
  if (fields.bad() || view.sequences.empty()) return std::nullopt;
  std::ranges::sort(view.context, {}, &FeatureView::key);
  std::ranges::sort(view.sequences, {}, &SequenceView::key);
  return view;
}

std::optional<std::vector<FeatureView>> view_example(std::string_view record) {
  std::vector<FeatureView> features;
  Fields example(record);
  while (example.next()) {
    if (example.number() != 1 || example.wire() != 2) return std::nullopt;
    if (!read_features(example.bytes(), features)) return std::nullopt;
  }
  if (example.bad() || features.empty()) return std::nullopt;
  std::ranges::sort(features, {}, &FeatureView::key);
  return features;
}

}  // namespace penstock::tool
