// The fuzzers' targets without libFuzzer: every seed, and damage to it, in every build.
// PENSTOCK_FUZZ_ROUNDS sets how often each seed is damaged.
#include <cstdlib>

#include <gtest/gtest.h>

#include <penstock/rng.h>

#include "tests/fuzz/targets.h"
#include "tests/support/figure.h"

namespace penstock::fuzz {
namespace {

Bytes bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

int rounds() {
  const char* text = std::getenv("PENSTOCK_FUZZ_ROUNDS");
  return text == nullptr ? 20 : std::atoi(text);
}

/// Cuts, flips, repeats or replaces parts.
std::string damaged(std::string text, Rng& rng) {
  for (std::uint64_t change = 1 + rng.below(3); change > 0 && !text.empty(); --change) {
    const std::size_t at = rng.below(text.size());
    const std::size_t size = 1 + rng.below(std::min<std::size_t>(text.size() - at, 64));
    switch (rng.below(6)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ 1 << rng.below(8));
        break;
      case 2:
        text.insert(at, text.substr(at, size));
        break;
      case 3:
        text.erase(at, size);
        break;
      case 4:
        text.replace(at, size, size, rng.coin(0.5) ? '\xff' : '\0');
        break;
      default:
        text[at] = static_cast<char>(rng.next_u32());
    }
  }
  return text;
}

class Corpora : public testing::TestWithParam<Target> {};

TEST_P(Corpora, EveryInput) {
  GetParam().run({});
  std::uint64_t number = 0;
  for (const std::string& seed : GetParam().seeds()) {
    GetParam().run(bytes_of(seed));
    Rng rng(23, number++, 0);
    for (int round = 0; round < rounds(); ++round) GetParam().run(bytes_of(damaged(seed, rng)));
  }
  test::figure("F28", "%s: %llu inputs, 0 crashes", GetParam().name,
               static_cast<unsigned long long>(number * (1 + static_cast<unsigned>(rounds()))));
}

INSTANTIATE_TEST_SUITE_P(Targets, Corpora, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace penstock::fuzz
