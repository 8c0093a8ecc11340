// Tar shards that are cut or damaged: FAULTS F3-F5.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/io/fault.h"
#include "tests/sources/tar_shards.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/records.h"
#include "tests/support/sanitizer.h"
#include "tests/support/tar.h"

namespace penstock {
namespace tar_damage_test {

using test::gnu_long_member;
using test::read;
using test::read_source;
using test::ReadOutcome;
using test::tar_end;
using test::tar_member;
using test::tar_source;
using test::TarHeader;
using test::texts_of;
using ::testing::HasSubstr;

std::string three_samples() {
  return tar_member("d/1.jpg", "first") + tar_member("d/1.cls", "1") +
         gnu_long_member("d/" + std::string(150, '2') + ".cls", "2") +
         gnu_long_member("d/" + std::string(150, '2') + ".jpg", "") +
         tar_member("d/3.jpg", test::noise(600)) + tar_member("d/3.cls", "3") + tar_end();
}

TEST(TarDamage, TruncationAtEveryByte) {
  const std::string sound = three_samples();
  const std::vector<std::string> texts = texts_of(read_source(*tar_source({sound})));
  ASSERT_EQ(texts.size(), 3u);
  const std::size_t data_end[] = {1024 + 512 + 1, 2048 + 2 * 1024 + 512 + 1024 + 512, 0};
  // Behind a whole member only the end-of-archive marker is missing, which loses nothing.
  const auto is_behind_a_member = [](std::size_t cut) {
    constexpr std::pair<std::size_t, std::size_t> kRanges[] = {
        {517, 1024},  {1537, 2048}, {3585, 4096},  // with padding
        {5632, 5632}, {6744, 7168}, {7681, 8192}};
    return std::ranges::any_of(
        kRanges, [cut](const auto& range) { return range.first <= cut && cut <= range.second; });
  };
  constexpr std::size_t kStep = test::kAddressSanitizer ? 3 : 1;
  for (std::size_t cut = 0; cut < sound.size() - 1024 + 1; cut += kStep) {
    const SourcePtr source =
        tar_source({sound.substr(0, cut),
                    tar_member("d/9.jpg", "next") + tar_member("d/9.cls", "9") + tar_end()});
    const std::vector<ReadOutcome> got = read_source(*source);
    ASSERT_GE(got.size(), 2u) << cut;
    ASSERT_EQ(got.back().text(), "next");
    if (is_behind_a_member(cut)) {
      for (std::size_t i = 0; i + 1 < got.size(); ++i) {
        const bool cut_sample = i + 2 == got.size() && got[i].text() == "!data_loss";
        ASSERT_TRUE(cut_sample || got[i].text() == texts[i]) << cut;
      }
      continue;
    }
    const ReadOutcome& error = got[got.size() - 2];
    ASSERT_EQ(error.text(), "!data_loss") << cut;
    ASSERT_THAT(error.error->cause(), HasSubstr("truncated at byte " + std::to_string(cut)));
    for (std::size_t i = 0; i + 2 < got.size(); ++i) {
      // The first sample can't be known to be whole before there is another.
      if (i == 0 && cut <= 1024 + 512) continue;
      ASSERT_EQ(got[i].text(), texts[i]) << cut;
    }
    if (cut >= data_end[0]) {
      ASSERT_GE(got.size(), 3u) << cut;
    }
    if (cut >= data_end[1]) {
      ASSERT_GE(got.size(), 4u) << cut;
    }
  }
  // Zeros of the marker may be missing as long as there is one block.
  for (std::size_t cut = sound.size() - 512; cut <= sound.size(); ++cut)
    ASSERT_EQ(texts_of(read_source(*tar_source({sound.substr(0, cut)}))), texts);
}

TEST(TarDamage, FlippedBitsOfAHeader) {
  const std::string sound = three_samples();
  const auto values = read(*tar_source({sound}));
  const std::size_t header_at = 1024;
  std::size_t harmless = 0;
  for (std::size_t bit = header_at * 8; bit < (header_at + 512) * 8; ++bit) {
    std::string shard = sound;
    shard[bit / 8] = static_cast<char>(shard[bit / 8] ^ (1 << (bit % 8)));
    const auto got = read(*tar_source({shard}));
    if (got == values) {
      ++harmless;  // blanks and NULs around the checksum's digits
      continue;
    }
    ASSERT_EQ(got.size(), 2u) << bit;
    ASSERT_THAT(got.back().at(0), HasSubstr("corrupt header at byte 1024")) << bit;
  }
  EXPECT_LE(harmless, 8u);
}

TEST(TarDamage, RandomDamage) {
  const std::string sound = three_samples();
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    std::string shard = sound;
    const std::string dice = test::noise(64, seed + 1);
    for (std::size_t i = 0; i < 1 + seed % 8; ++i) {
      const std::size_t block = static_cast<unsigned char>(dice[i]) % (shard.size() / 512);
      const std::size_t at = block * 512 + static_cast<unsigned char>(dice[i + 8]) * 2u;
      shard[at] = dice[i + 16];
      // Most damage would end at the checksum: make it right again.
      if (seed % 3 != 0)
        shard.replace(block * 512, 512, TarHeader::with_checksum(shard.substr(block * 512, 512)));
    }
    EXPECT_LE(read(*tar_source({shard})).size(), 10u);
  }
}

}  // namespace tar_damage_test
}  // namespace penstock
