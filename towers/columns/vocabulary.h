// The words of a vocabulary column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include <penstock/towers/columns/column.h>

namespace penstock::towers {

struct Column::Vocabulary {
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> words{};  // of bytes
  std::unordered_map<std::int64_t, std::int64_t> numbers{};                      // of i64
  std::uint64_t digest = 0;  // of all words, in order
};

}  // namespace penstock::towers
