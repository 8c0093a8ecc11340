// Forms of files as other programs write them, from the outside.
#include <gmock/gmock.h>

#include "tests/support/example.h"
#include "tests/support/program.h"
#include "tests/support/records.h"

namespace penstock::test {
namespace formats_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
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

TEST_F(Formats, CsvWithMoreCarriageReturns) {
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

TEST_F(Formats, CsvWithMissingValues) {
  const std::string full = folder_.write("full.csv", "n,s\n1,x\n-1,y\n-1,none\n");
  const std::string gaps = folder_.write("gaps.csv", "n,s\n1,x\nNA,y\n,?\n");
  const std::string wanted = digest({"--csv", full, "--columns", "n:i64,s", "--batch", "3"});
  EXPECT_EQ(digest({"--csv", gaps, "--columns", "n:i64=-1,s:bytes=none", "--na-values", "NA,?",
                    "--batch", "3"}),
            wanted);
  const std::string toml = folder_.write(
      "p.toml", "[source]\nkind = \"csv\"\npaths = \"" + gaps +
                    "\"\ncolumns = [\"n:i64=-1\", \"s:bytes=none\"]\nna_values = [\"NA\", \"?\"]\n"
                    "[[stages]]\nkind = \"batch\"\nsize = 3\n");
  EXPECT_EQ(digest({"--pipeline", toml}), wanted);
  const Outcome fails =
      run_program({"profile", "--csv", gaps, "--columns", "n:i64,s", "--batch", "3"});
  EXPECT_EQ(fails.code, 1);
  EXPECT_THAT(fails.err,
              AllOf(HasSubstr("column 'n': 'NA' is not a valid i64"), HasSubstr("gaps.csv")));
  const Outcome near =
      run_program({"profile", "--csv", gaps, "--columns", " N:i64", "--batch", "3"});
  EXPECT_THAT(near.err, HasSubstr("the header has 'n', which differs in blanks and case"));
}

TEST_F(Formats, TokensOfLlmCAndNanoGpt) {
  std::string tokens, header;
  for (std::uint16_t token = 0; token < 100; ++token) tokens += little_endian(token);
  for (const std::uint32_t number : {20240520U, 1U, 100U}) header += little_endian(number);
  header.resize(1024);
  const std::string with = folder_.write("with.bin", header + tokens);
  const std::string without = folder_.write("without.bin", tokens);
  const std::string wanted =
      digest({"--tokens", with, "--token-window", "7", "--shuffle", "--seed", "3", "--batch", "4"});
  EXPECT_EQ(digest({"--tokens", without, "--token-window", "7", "--stored", "u16", "--shuffle",
                    "--seed", "3", "--batch", "4"}),
            wanted);
  EXPECT_EQ(digest({with, "--token-window", "7", "--shuffle", "--seed", "3", "--batch", "4"}),
            wanted);
  const std::string toml = folder_.write(
      "p.toml", "[source]\nkind = \"tokens\"\npaths = \"" + with +
                    "\"\nwindow = 7\ndtype = \"i32\"\n[[stages]]\nkind = \"shuffle\"\n"
                    "[[stages]]\nkind = \"batch\"\nsize = 4\n");
  EXPECT_EQ(digest({"--pipeline", toml, "--seed", "3"}), wanted);
  EXPECT_NE(
      digest({"--tokens", with, "--token-window", "7", "--token-dtype", "u16", "--batch", "4"}),
      wanted);
  const Outcome ragged = run_program({"profile", "--tokens", with, "--token-window", "7",
                                      "--keep-remainder", "--padded-batch", "4"});
  EXPECT_EQ(ragged.code, 0) << ragged.err;
  const Outcome alone = run_program({"profile", with, "--batch", "4"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--token-window"));
  const Outcome inspected = run_program({"inspect", with});
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("tokens of llm.c"));
  const Outcome wrong = run_program({"profile", "--npy", with});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("these are shards of tokens: --tokens"));
}

TEST_F(Formats, FewOrLargeTokens) {
  for (const std::uint32_t count : {0U, 1U, 2U}) {
    std::string file;
    for (const std::uint32_t number : {20240801U, 7U, count}) file += little_endian(number);
    file.resize(1024);
    for (std::uint32_t i = 0; i < count; ++i) file += little_endian(0xffffffffU);
    const std::string path = folder_.write("few.bin", file);
    const Outcome verified = run_program({"verify", path});
    EXPECT_EQ(verified.code, 0) << verified.out;
    EXPECT_THAT(verified.out, HasSubstr(count == 2 ? "1 good, 0 bad" : "0 good, 0 bad"));
    const Outcome inspected = run_program({"inspect", path});
    EXPECT_EQ(inspected.code, 0) << inspected.err;
    EXPECT_THAT(inspected.out, HasSubstr(count == 2 ? "4294967295" : "0 records"));
  }
}

TEST_F(Formats, SequenceExamples) {
  const auto list = [](const std::string& name, const Flags& steps) {
    std::string all;
    for (const std::string& step : steps) all += field(1, step);
    return field(1, field(1, name) + field(2, all));
  };
  const auto record = [&](std::int64_t id, const Flags& tokens) {
    return field(1, feature("id", int_feature({id}))) + field(2, list("tokens", tokens));
  };
  const std::string path =
      folder_.write("s.tfrecord", tfrecords_of({record(5, {int_feature({1, 2}), int_feature({3})}),
                                                record(6, {}), record(7, {int_feature({4})})}));
  const Outcome inspected = run_program({"inspect", path});
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("tf.SequenceExample {id: i64 5} with sequences "
                                       "{tokens: i64 in 2 steps of 3 values}"));
  const Outcome explained = run_program({"explain", "--tfrecord", path, "--example", "id:i64",
                                         "--sequence", "tokens:i64", "--ragged-batch", "2"});
  EXPECT_EQ(explained.code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("tokens.step_splits: i64"));
  const std::string ragged = digest({"--tfrecord", path, "--example", "id:i64", "--sequence",
                                     "tokens:i64", "--ragged-batch", "3"});
  const std::string toml =
      folder_.write("p.toml", "[source]\nkind = \"tfrecord\"\npaths = \"" + path +
                                  "\"\nexample = [\"id:i64\"]\nsequence = [\"tokens:i64\"]\n"
                                  "[[stages]]\nkind = \"ragged_batch\"\nsize = 3\n");
  EXPECT_EQ(digest({"--pipeline", toml}), ragged);
  EXPECT_THAT(digest({"--tfrecord", path, "--sequence", "tokens:i64[]", "--padded-batch", "3",
                      "--on-error", "skip"}),
              Not(IsEmpty()));
  const Outcome as_example =
      run_program({"profile", "--tfrecord", path, "--example", "tokens:i64", "--batch", "1"});
  EXPECT_EQ(as_example.code, 1);
  EXPECT_THAT(as_example.err, AllOf(HasSubstr("tf.SequenceExample"), HasSubstr("--sequence")));
  const Outcome trained =
      run_program({"train", "--model", "cifar10", "--data", path, "--batch", "1", "--quiet"});
  EXPECT_EQ(trained.code, 2);
  EXPECT_THAT(trained.err, HasSubstr("its records are tf.SequenceExamples"));
  for (const char* wrong : {"tokens:i64=1", ":i64", "tokens:i64[0]", "tokens:i64[x]"})
    EXPECT_EQ(run_program({"explain", "--tfrecord", path, "--sequence", wrong}).code, 2) << wrong;
}

TEST_F(Formats, LabelsOfQmnistBesideTheirImages) {
  const std::string pixels(3 * 4, 'p');
  const std::string images =
      folder_.write("qmnist-test-images-idx3-ubyte",
                    std::string("\0\0\x08\3\0\0\0\3\0\0\0\2\0\0\0\2", 16) + pixels);
  std::string labels("\0\0\x0c\2\0\0\0\3\0\0\0\x08", 12);
  for (const char label : {'\7', '\2', '\1'})
    labels += std::string(3, '\0') + label + std::string(7 * 4, '\1');
  const std::string path = folder_.write("qmnist-test-labels-idx2-int", labels);
  const Outcome inspected = run_program({"inspect", images});
  EXPECT_THAT(inspected.out, HasSubstr("{image: u8 [2,2], label: i64 []}"));
  const std::string plain =
      folder_.write("labels-idx1", std::string("\0\0\x08\1\0\0\0\3\7\2\1", 11));
  EXPECT_EQ(digest({"--idx", images + "," + path, "--batch", "3"}),
            digest({"--idx", images + "," + plain, "--batch", "3"}));
}

}  // namespace formats_test
}  // namespace penstock::test
