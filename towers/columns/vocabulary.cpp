#include "towers/columns/vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <penstock/error.h>

namespace penstock::towers {

std::vector<std::string> read_vocabulary(const std::string& path, std::int64_t size,
                                         const FileSystemPtr& files) {
  const std::vector<std::byte> bytes = files->open(path)->read_all(std::uint64_t{1} << 30);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::string> words;
  for (std::size_t at = 0;
       at < text.size() && (size == 0 || static_cast<std::int64_t>(words.size()) < size);) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    words.emplace_back(line);
    at = end + 1;
  }
  if (static_cast<std::int64_t>(words.size()) < size)
    throw Error(ErrorCode::invalid_argument,
                "a vocabulary of " + std::to_string(size) + " has " + std::to_string(words.size()) +
                    " lines",
                {.shard = path, .stage = {}});
  return words;
}

std::vector<std::string> words_of(const Column& vocabulary) {
  if (vocabulary.vocabulary == nullptr) return {};
  const Column::Vocabulary& all = *vocabulary.vocabulary;
  std::vector<std::string> words(all.words.size() + all.numbers.size());
  for (const auto& [word, id] : all.words) words[static_cast<std::size_t>(id)] = word;
  for (const auto& [number, id] : all.numbers)
    words[static_cast<std::size_t>(id)] = std::to_string(number);
  return words;
}

}  // namespace penstock::towers
