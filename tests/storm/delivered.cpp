#include "tests/storm/delivered.h"

#include <algorithm>

namespace penstock::storm {

std::uint64_t Delivered::mix(std::uint64_t digest, const void* data, std::size_t size) noexcept {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) digest = (digest ^ bytes[i]) * kPrime;
  return (digest ^ size) * kPrime;
}

void Delivered::element(const Element& element) noexcept {
  const bool batch = element.valid_rows >= 0;
  const std::int64_t rows = batch ? element.valid_rows : 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::uint64_t digest = 0xcbf29ce484222325;
    for (std::size_t c = 0; c < element.size(); ++c) {
      const Tensor& tensor = element[c];
      const std::int64_t values =
          batch && tensor.dim(0) > 0 ? tensor.volume() / tensor.dim(0) : tensor.volume();
      if (tensor.dtype() == DType::bytes) {
        for (std::int64_t i = r * values; i < (r + 1) * values; ++i) {
          const std::string_view text = tensor.bytes_at(i);
          digest = mix(digest, text.data(), text.size());
        }
        continue;
      }
      const std::size_t size = static_cast<std::size_t>(values) * size_of(tensor.dtype());
      digest = mix(digest, tensor.data() + static_cast<std::size_t>(r) * size, size);
    }
    row(digest);
  }
  end_of_batch();
}

long Delivered::errors() const noexcept {
  return std::ranges::count(entries(), kError);
}

const char* wrong(std::span<const std::uint64_t> expected, const Delivered& got) noexcept {
  const auto all = got.entries();
  if (got.full()) return "it continues for ever";
  const auto error = std::ranges::find(all, Delivered::kError);
  const auto good = static_cast<std::size_t>(error - all.begin());
  if (good > expected.size()) return "more was delivered than there is";
  if (!std::ranges::equal(all.first(good), expected.first(good)))
    return "a batch in front of the first error is not the clean run's";
  if (error == all.end()) return good == expected.size() ? "" : "it ended early, without an error";
  auto next = expected.begin() + static_cast<std::ptrdiff_t>(good);
  for (auto at = error; at != all.end(); ++at) {
    if (*at <= Delivered::kError) continue;
    next = std::find(next, expected.end(), *at);
    if (next == expected.end())
      return "a row behind an error is not the clean run's, or out of its order";
    ++next;
  }
  return "";
}

}  // namespace penstock::storm
