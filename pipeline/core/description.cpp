#include <penstock/description.h>

#include <array>
#include <charconv>

namespace penstock {
namespace {

constexpr std::string_view kShard = "shard";

}  // namespace

void Description::add(std::string_view key, std::string_view value) {
  entries_.emplace_back(key, value);
}

void Description::add(std::string_view key, std::int64_t value) {
  add(key, std::to_string(value));
}

void Description::add(std::string_view key, std::uint64_t value) {
  add(key, std::to_string(value));
}

void Description::add(std::string_view key, double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  add(key, std::string_view(text.data(), end));
}

void Description::add(std::string_view key, bool value) {
  add(key, value ? "true" : "false");
}

void Description::add_shard(std::string_view name, std::uint64_t size,
                            std::uint64_t index_checksum) {
  std::string value = std::to_string(size);
  if (index_checksum != 0) {
    std::array<char, 16> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), index_checksum, 16).ptr;
    value.append(":").append(text.data(), end);
  }
  add(kShard, value.append(" ").append(name));
  ++shards_;
}

std::string Description::to_string() const {
  std::string text;
  for (const auto& [key, value] : entries_) {
    if (shards_ > 0 && key == kShard) continue;
    if (!text.empty()) text += ", ";
    text += key + "=" + value;
  }
  if (shards_ > 0) text += (text.empty() ? "shards=" : ", shards=") + std::to_string(shards_);
  return text;
}

}  // namespace penstock
