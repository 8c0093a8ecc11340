// Folders of malformed images: each is answered as the library answers it, none ends the run.
// PENSTOCK_MALFORMED=20000 makes them large.
#include <functional>
#include <set>

#include <gmock/gmock.h>

#include "tests/support/malformed.h"
#include "tests/support/odd_images.h"
#include "tests/support/program.h"

namespace penstock::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Kind {
  const char* name;
  std::vector<Malformed> (*make)(std::size_t count);
};

class MalformedImages : public testing::TestWithParam<Kind> {
 protected:
  MalformedImages() : images_(GetParam().make(malformed_count(kFew))) {
    for (const Malformed& image : images_) {
      const std::string path = folder_.write(image.name, as_text(image.bytes));
      if (!image.good) bad_.insert(path);
    }
  }

  static constexpr std::size_t kFew = 1200;
  TempFolder folder_;
  std::vector<Malformed> images_;
  std::set<std::string> bad_;
};

TEST_P(MalformedImages, ReasonsInVerify) {
  const Outcome outcome =
      run_program({"verify", folder_.path(), "--quiet", "--threads", "2", "--json", "-"});
  EXPECT_EQ(outcome.code, 1);
  const json found = outcome.json();
  std::set<std::string> named;
  for (const json& error : found["errors"]) {
    EXPECT_TRUE(named.insert(error["path"]).second) << error;
    EXPECT_THAT((std::set<std::string>{"data_loss", "out_of_range"}),
                testing::Contains(error["code"].get<std::string>()))
        << error;
    EXPECT_GT(error["cause"].get<std::string>().size(), 3U) << error;
  }
  EXPECT_EQ(named, bad_);
  EXPECT_EQ(found["bad"], bad_.size());
  EXPECT_EQ(found["good"], images_.size() - bad_.size());
}

TEST_P(MalformedImages, SkippedImages) {
  for (const char* threads : {"1", "4"}) {
    const json report =
        profile_json({"--images", folder_.path(), "--shuffle", "--resize", "24x24", "--normalize",
                      "--batch", "16", "--seed", "3", "--memory", "64MiB", "--threads", threads,
                      "--on-error", "skip", "--max-errors", "100%"});
    EXPECT_EQ(report["outcome"], "finished");
    EXPECT_EQ(report["errors"]["count"], bad_.size());
    EXPECT_EQ(report["elements"], images_.size() - bad_.size());
    EXPECT_LE(report["memory"]["peak_bytes"], 64U << 20);
    // Beside the budget each thread's decoder may take max_codec_bytes, and a sanitizer its share.
    EXPECT_LE(report["memory"]["rss_peak_bytes"], 1536ULL << 20);
  }
  // Crops may leave the damage unread, so that fewer are found, but none ends the run.
  const json crops =
      profile_json({"--images", folder_.path(), "--random-resized-crop", "24", "--batch", "16",
                    "--seed", "3", "--on-error", "skip", "--max-errors", "100%"});
  EXPECT_LE(crops["errors"]["count"], bad_.size());
  EXPECT_EQ(crops["errors"]["count"].get<std::size_t>() + crops["elements"].get<std::size_t>(),
            images_.size());
}

TEST_P(MalformedImages, FirstImageWithoutSkip) {
  const Outcome outcome =
      run_program({"profile", "--images", folder_.path(), "--resize", "24x24", "--batch", "1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr(*bad_.begin()));
}

INSTANTIATE_TEST_SUITE_P(Formats, MalformedImages,
                         testing::Values(Kind{"jpeg", malformed_jpegs},
                                         Kind{"png", malformed_pngs}),
                         [](const auto& tested) { return std::string(tested.param.name); });

/// Two images of which a decoder warns, and one without a fault.
class OddImages : public testing::Test {
 protected:
  OddImages() {
    folder_.write("jpeg/a/1.jpg", as_text(odd_jpegs().front().bytes));
    folder_.write("jpeg/b/2.jpg", as_text(odd::jpegs().front().second));
    folder_.write("png/c/3.png", as_text(odd_pngs().front().bytes));
  }

  TempFolder folder_;
};

TEST_F(OddImages, AreDecodedAndCounted) {
  const std::vector<std::string> profile{"--images", folder_.path(), "--decode", "--batch", "1"};
  const json report = profile_json(profile);
  EXPECT_EQ(report["elements"], 3);
  EXPECT_EQ(report["decoding"]["warned"], 2);
  std::vector<std::string> plain{"profile"};
  plain.insert(plain.end(), profile.begin(), profile.end());
  const Outcome told = run_program(plain);
  EXPECT_EQ(told.code, 0);
  EXPECT_THAT(told.out + told.err,
              HasSubstr("2 images decoded in spite of a warning (--strict-images refuses them)"));
  EXPECT_THAT(told.err, HasSubstr("a JPEG is decoded in spite of a warning: Corrupt JPEG data"));
  const Outcome verified = run_program({"verify", folder_.path()});
  EXPECT_EQ(verified.code, 0);
  EXPECT_THAT(verified.out, HasSubstr("3 good, 0 bad"));
  EXPECT_THAT(verified.out, HasSubstr("2 images decoded in spite of a warning"));
  for (const char* kind : {"coefficients", "indexed"}) {
    const std::string packed = folder_ / kind + std::string(".pnr");
    EXPECT_EQ(
        run_program({"pack", "--images", folder_.path(), "--jpeg", kind, "--out", packed}).code, 0);
    EXPECT_EQ(run_program({"verify", packed}).code, 0);
  }
}

TEST_F(OddImages, AreRefusedWithStrictImages) {
  const std::string path = folder_.path();
  EXPECT_THAT(run_program({"verify", path, "--strict-images"}).out, HasSubstr("1 good, 2 bad"));
  const Outcome toml =
      run_program({"explain", "--images", path, "--resize", "8x8", "--strict-images", "--toml"});
  EXPECT_THAT(toml.out, HasSubstr("strict_images = true"));
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"profile", "--images", path, "--decode", "--batch", "1"},
           {"pack", "--images", path, "--jpeg", "indexed", "--out", folder_ / "out.pnr"},
           {"train", "--quiet", "--model", "cifar10", "--data", path + "/jpeg", "--batch", "2",
            "--max-steps", "1"}}) {
    EXPECT_EQ(run_program(command).code, 0) << command[0];
    std::vector<std::string> strict = command;
    strict.push_back("--strict-images");
    const Outcome refused = run_program(strict);
    EXPECT_EQ(refused.code, 1) << command[0];
    EXPECT_THAT(refused.err, HasSubstr("extraneous bytes before marker")) << command[0];
  }
}

/// Runs a command with `memory`, and then with what the error of each run names, until it works.
/// The first run has too little.
Outcome run_until_memory_suffices(const std::function<Outcome(const std::string& memory)>& run,
                                  std::string memory) {
  for (int tries = 0;; ++tries) {
    Outcome outcome = run(memory);
    EXPECT_GE(tries + outcome.code, 1) << memory << " suffices";
    if (outcome.code != 1 || tries == 16) return outcome;
    const std::string mark = "raise it to at least --memory ";
    const std::size_t at = outcome.err.find(mark);
    if (at == std::string::npos) return outcome;
    const std::size_t begin = at + mark.size();
    memory =
        outcome.err.substr(begin, outcome.err.find_first_not_of("0123456789MiB", begin) - begin);
  }
}

TEST(TooLittleMemory, MakesNoImageBadForVerify) {
  const TempFolder folder;
  for (int i = 0; i < 3; ++i)
    folder.write("in/" + std::to_string(i) + ".jpg",
                 as_text(make_jpeg(make_pixels(900, 800, 4), {.progressive = i != 1})));
  const Outcome verified = run_until_memory_suffices(
      [&](const std::string& memory) {
        Outcome outcome = run_program({"verify", folder / "in", "--memory", memory});
        EXPECT_THAT(outcome.out, testing::AnyOf("", HasSubstr("3 good, 0 bad")));
        return outcome;
      },
      "1MiB");
  EXPECT_EQ(verified.code, 0) << verified.err;
  const Outcome inspected = run_program({"inspect", folder / "in", "--classes", "--memory", "x"});
  EXPECT_EQ(inspected.code, 2);
  EXPECT_THAT(inspected.err, HasSubstr("--memory"));
}

// The file of records is the same with as much memory as the error names, and with plenty.
TEST(TooLittleMemory, EndsPackAndNamesWhatSuffices) {
  const TempFolder folder;
  for (int i = 0; i < 6; ++i)
    folder.write(
        "in/" + std::to_string(10 + i) + ".jpg",
        as_text(make_jpeg(make_pixels(300 + 100 * i, 500, 4), {.progressive = i % 3 > 0})));
  folder.write("in/30.jpg", "no image");
  folder.write("in/31.png", as_text(make_png(600, 500, std::vector<std::uint8_t>(3 * 600 * 500, 7),
                                             {.interlaced = true})));
  for (const std::string kind : {"coefficients", "indexed"}) {
    const auto pack = [&](const std::string& name, const std::string& memory) {
      return run_program({"pack", "--images", folder / "in", "--jpeg", kind, "--out",
                          folder / (kind + name), "--threads", "4", "--on-error", "skip",
                          "--memory", memory});
    };
    const Outcome roomy = pack("roomy", "1GiB");
    ASSERT_EQ(roomy.code, 0) << roomy.err;
    const Outcome tight = run_until_memory_suffices(
        [&](const std::string& memory) { return pack("tight", memory); }, "1MiB");
    ASSERT_EQ(tight.code, 0) << tight.err;
    EXPECT_EQ(read_file(folder / (kind + "tight")), read_file(folder / (kind + "roomy")));
  }
}

// Images are not bad because there is too little memory for them.
TEST(TooLittleMemory, EndsTheRunAndNamesWhatSuffices) {
  const TempFolder folder;
  for (int i = 0; i < 4; ++i)
    folder.write("in/" + std::to_string(i) + ".jpg",
                 as_text(make_jpeg(make_pixels(600 + 300 * i, 800, 4), {.progressive = i > 1})));
  for (const char* policy : {"skip", "fail", "retry"}) {
    const Outcome outcome = run_until_memory_suffices(
        [&](const std::string& memory) {
          return run_program({"profile", "--images", folder / "in", "--resize", "64x64", "--batch",
                              "1", "--memory", memory, "--on-error", policy, "--json", "-"});
        },
        "256KiB");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["elements"], 4) << policy;
    EXPECT_EQ(outcome.json()["errors"]["count"], 0) << policy;
  }
}

}  // namespace
}  // namespace penstock::test
