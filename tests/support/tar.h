// Tar archives, written byte by byte, including malformed ones.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace penstock::test {

/// A header block. Fields that are not given have the values of a plain file in a ustar archive.
struct TarHeader {
  std::string name;
  char type = '0';
  std::uint64_t size = 0;
  std::string prefix{};
  std::string magic{
      "ustar\0"
      "00",
      8};
  std::string link{};
  std::string size_field{};  ///< 12 bytes in place of `size` in octal

  std::string bytes() const {
    std::string block(512, '\0');
    const auto put = [&](std::size_t at, std::size_t most, std::string_view text) {
      block.replace(at, std::min(most, text.size()), text.substr(0, most));
    };
    char octal[24];
    std::snprintf(octal, sizeof(octal), "%011llo", static_cast<unsigned long long>(size));
    put(0, 100, name);
    put(100, 8, "0000644");
    put(108, 8, "0000000");
    put(116, 8, "0000000");
    put(124, 12, size_field.empty() ? std::string(octal) : size_field);
    put(136, 12, "00000000000");
    block[156] = type;
    put(157, 100, link);
    put(257, 8, magic);
    put(345, 155, prefix);
    return with_checksum(block);
  }

  static std::string with_checksum(std::string block) {
    block.replace(148, 8, "        ");
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    char octal[16];
    std::snprintf(octal, sizeof(octal), "%06o", sum);
    block.replace(148, 7, std::string(octal, 7));
    return block;
  }
};

inline std::string tar_padded(std::string data) {
  data.resize((data.size() + 511) / 512 * 512);
  return data;
}

/// Returns a member: header and data.
inline std::string tar_member(const std::string& name, const std::string& data, char type = '0') {
  return TarHeader{.name = name, .type = type, .size = data.size()}.bytes() + tar_padded(data);
}

/// Returns a pax record, whose length includes the digits of the length itself.
inline std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

/// Returns a member whose extended header holds `records`.
inline std::string pax_member(const std::string& records, const std::string& name,
                              const std::string& data) {
  return tar_member("PaxHeaders/x", records, 'x') + tar_member(name, data);
}

/// Returns a member with a GNU long name.
inline std::string gnu_long_member(const std::string& name, const std::string& data) {
  return tar_member("././@LongLink", name + '\0', 'L') + tar_member(name.substr(0, 100), data);
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace penstock::test
