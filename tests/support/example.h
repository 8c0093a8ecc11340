// tf.Example messages, written field by field.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace penstock::test {

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

inline std::string tag(std::uint32_t number, unsigned type) {
  return varint(std::uint64_t{number} << 3 | type);
}

/// Returns a field with a length: a text or a message.
inline std::string field(std::uint32_t number, const std::string& payload) {
  return tag(number, 2) + varint(payload.size()) + payload;
}

inline std::string float_bytes(float value) {
  std::string out(sizeof(value), '\0');
  std::memcpy(out.data(), &value, sizeof(value));
  return out;
}

/// Return a Feature of each kind.
inline std::string bytes_feature(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += field(1, value);
  return field(1, list);
}
inline std::string float_feature(const std::vector<float>& values, bool packed = true) {
  std::string numbers, fields;
  for (const float value : values) {
    numbers += float_bytes(value);
    fields += tag(1, 5) + float_bytes(value);
  }
  return field(2, packed ? field(1, numbers) : fields);
}
inline std::string int_feature(const std::vector<std::int64_t>& values, bool packed = true) {
  std::string numbers, fields;
  for (const std::int64_t value : values) {
    numbers += varint(static_cast<std::uint64_t>(value));
    fields += tag(1, 0) + varint(static_cast<std::uint64_t>(value));
  }
  return field(3, packed ? field(1, numbers) : fields);
}

/// Return an entry of the map, and an Example of such entries.
inline std::string feature(const std::string& name, const std::string& value) {
  return field(1, field(1, name) + field(2, value));
}
inline std::string example_of(const std::string& entries) {
  return field(1, entries);
}

}  // namespace penstock::test
