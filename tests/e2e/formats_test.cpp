// Forms of files as other programs write them, from the outside.
#include <gmock/gmock.h>

#include "tests/support/program.h"

namespace penstock::test {
namespace formats_test {

using Flags = std::vector<std::string>;

class Formats : public testing::Test {
 protected:
  /// Returns the digest of what the flags read.
  static std::string digest(Flags flags) {
    flags.insert(flags.begin(), "profile");
    flags.insert(flags.end(), {"--quiet", "--digest", "--json", "-"});
    const Outcome outcome = run_program(flags);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? outcome.json()["digest"].dump() : "";
  }

  const TempFolder folder_;
};

TEST_F(Formats, CsvWithMoreCarriageReturnsIsTheSame) {
  const std::string lf = folder_.write("lf.csv", "a,b\n1,x\n2,\"y\nz\"\n3,w\n");
  const std::string crcrlf =
      folder_.write("cr.csv", "a,b\r\r\n1,x\r\r\n\r\r\n2,\"y\nz\"\r\r\n3,w\r\r\n\r\r\n");
  for (const Flags& more :
       {Flags{"--batch", "2"}, Flags{"--shuffle", "--seed", "3", "--batch", "3"},
        Flags{"--columns", "b,a:i64", "--batch", "2"}}) {
    Flags one{"--csv", lf}, other{"--csv", crcrlf};
    one.insert(one.end(), more.begin(), more.end());
    other.insert(other.end(), more.begin(), more.end());
    EXPECT_EQ(digest(one), digest(other));
  }
  EXPECT_EQ(digest({"--csv", lf, "--no-header", "--batch", "2"}),
            digest({"--csv", crcrlf, "--no-header", "--batch", "2"}));
}

}  // namespace formats_test
}  // namespace penstock::test
