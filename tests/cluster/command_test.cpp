// `penstock cluster` as users run it.
#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

test::Outcome cluster(std::vector<std::string> flags, std::vector<std::string> variables = {}) {
  flags.insert(flags.begin(), "cluster");
  return test::Program(std::move(flags), {}, std::move(variables)).wait(30);
}

TEST(ClusterCommand, PrintsWhatWasUnderstood) {
  const test::TimeLimit limit(60);
  const test::Outcome listed =
      cluster({"--cluster", "a:1,b:1;ps=c:1", "--role", "ps", "--json", "-"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  const nlohmann::json json = listed.json();
  EXPECT_EQ(json["role"], "ps");
  EXPECT_EQ(json["rank"], -1);
  EXPECT_EQ(json["world"], 2);
  EXPECT_EQ(json["peers"].size(), 3U);
  const test::Outcome ranked =
      cluster({}, {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=node1", "MASTER_PORT=29500"});
  EXPECT_EQ(ranked.code, 0) << ranked.err;
  EXPECT_EQ(ranked.out,
            "role        worker 0, rank 1 of 2, on this host 0 of 1\n"
            "said by     torchrun\n"
            "rendezvous  grpc://node1:29500\n");
}

TEST(ClusterCommand, NamesWhatContradictsItself) {
  const test::TimeLimit limit(60);
  const test::Outcome wrong =
      cluster({}, {"RANK=0", "WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.out, "");
  EXPECT_NE(wrong.err.find("penstock: RANK=0 and OMPI_COMM_WORLD_RANK=1 contradict"),
            std::string::npos)
      << wrong.err;
}

TEST(ClusterCommand, FailsIfOthersAreNotReached) {
  const test::TimeLimit limit(60);
  // Port 1 of loopback is nobody's.
  const test::Outcome alone =
      cluster({"--cluster", "chief=127.0.0.1:47113;worker=127.0.0.1:1", "--role", "chief",
               "--check", "--timeout", "1", "--json", "-"});
  EXPECT_EQ(alone.code, 1) << alone.err;
  ASSERT_EQ(alone.json()["reached"].size(), 1U);
  EXPECT_EQ(alone.json()["reached"][0]["problem"], "refused: no process listens on this port");
}

}  // namespace
}  // namespace penstock
