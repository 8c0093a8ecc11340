// Conversion of texts to numbers that stand for their words.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::towers {

/// True if this build recognises words beyond ASCII (with ICU).
bool has_unicode() noexcept;

/// Replaces the words of a text by the buckets of their hashes, with -1 after the last one. Words
/// beyond the size of `ids` are left out.
///
/// In ASCII texts, words are runs of letters and digits, in lower case. Other texts are normalised
/// and case-folded (NFKC_Casefold), so that full-width letters equal ordinary ones. Then they are
/// divided by ICU's boundary rules, which use its dictionaries for Chinese, Japanese, Thai, Lao,
/// Burmese and Khmer. Source: Unicode's UAX 29.
///
/// Throws Error{mismatch}, with the position, for bytes that are not UTF-8. Throws the same for a
/// text beyond ASCII in a build without ICU. Throws Error{out_of_range} for a text of more than 512
/// MiB.
void hash_words(std::string_view text, std::int64_t buckets, std::span<std::int64_t> ids);

}  // namespace penstock::towers
