// The same bytes from real photographs and from CIFAR-10 for any number of threads and any budget.
// profile_test.cpp says the same of data that is made up, and never skips.
#include <gmock/gmock.h>

#include "tests/support/data.h"
#include "tests/support/program.h"

namespace penstock::test {
namespace {

using Flags = std::vector<std::string>;
using nlohmann::json;

void expect_same_digest(const Flags& pipeline, std::uint64_t elements) {
  json first;
  const Flags variants[] = {{"--threads", "1"},
                            {"--threads", "2"},
                            {"--threads", "8"},
                            {"--memory", "96MiB"},
                            {"--memory", "2GiB"}};
  for (const Flags& variant : variants) {
    Flags flags = pipeline;
    flags.insert(flags.end(), variant.begin(), variant.end());
    const json report = profile_json(flags);
    EXPECT_EQ(report["elements"], elements);
    EXPECT_LE(report["memory"]["peak_bytes"], report["memory"]["budget_bytes"]);
    if (first.is_null()) first = report["digest"];
    EXPECT_EQ(report["digest"], first) << variant[0] << " " << variant[1];
  }
}

TEST(RealData, BytesOfPhotographs) {
  const std::string folder = data_path("imagenet-sample");
  PENSTOCK_NEED_DATA(folder);
  expect_same_digest({"--images", folder, "--shuffle", "--random-resized-crop", "224", "--flip",
                      "--normalize", "--batch", "64", "--epochs", "3", "--seed", "7", "--digest"},
                     900);
}

TEST(RealData, BytesOfCifar10) {
  const std::string shard = data_path("cifar10-train.tar");
  PENSTOCK_NEED_DATA(shard);
  expect_same_digest({"--tar", shard, "--shuffle", "--random-resized-crop", "32", "--flip",
                      "--normalize", "--batch", "256", "--seed", "7", "--digest"},
                     50'000);
}

TEST(RealData, ClassesOfCifar10) {
  const std::string shard = data_path("cifar10-train.tar");
  PENSTOCK_NEED_DATA(shard);
  const Outcome outcome = run_program({"inspect", shard, "--classes", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json found = outcome.json()[0];
  EXPECT_EQ(found["records"], 50'000);
  EXPECT_EQ(found["census"]["bad"], 0);
  EXPECT_EQ(found["census"]["classes"].size(), 10U);
  for (const auto& [label, count] : found["census"]["classes"].items())
    EXPECT_EQ(count, 5'000) << label;
}

TEST(RealData, VerifyOfPhotographs) {
  const std::string folder = data_path("imagenet-sample");
  PENSTOCK_NEED_DATA(folder);
  const json found = run_program({"verify", folder, "--json", "-"}).json();
  EXPECT_EQ(found["good"], 300);
  EXPECT_EQ(found["bad"], 0) << found["errors"];
}

}  // namespace
}  // namespace penstock::test
