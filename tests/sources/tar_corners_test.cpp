// The corner corpus of FAULTS F30: names are data, nothing is followed or written.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "pipeline/io/fault.h"
#include "tests/sources/tar_shards.h"
#include "tests/support/errors.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock {
namespace tar_corners_test {

using test::gnu_long_member;
using test::pax_member;
using test::pax_record;
using test::read;
using test::read_source;
using test::tar_end;
using test::tar_member;
using test::tar_padded;
using test::tar_source;
using test::TarHeader;
using test::texts_of;
using test::Values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The only outcome of a shard that holds one sample with a fault.
std::string cause_of(const std::string& shard) {
  const auto got = read(*tar_source({shard + tar_end()}));
  EXPECT_EQ(got.size(), 1u);
  return got.at(0).at(0);
}

TEST(TarCorners, HostileNames) {
  const SourcePtr source = tar_source(
      {tar_member("../../etc/passwd.jpg", "up") + tar_member("/etc/shadow.jpg", "absolute") +
       tar_member("./a/../b.jpg", "dots") + tar_member("C:\\x.jpg", "windows") +
       tar_member("new\nline.jpg", "n") + tar_end()});
  EXPECT_THAT(read(*source),
              ElementsAre(Values{"up", "2", "../../etc/passwd"},
                          Values{"absolute", "2", "/etc/shadow"}, Values{"dots", "1", "./a/../b"},
                          Values{"windows", "0", "C:\\x"}, Values{"n", "0", "new\nline"}));
}

TEST(TarCorners, LinksAndDevices) {
  const std::pair<char, const char*> kinds[] = {{'1', "a link"},
                                                {'2', "a link"},
                                                {'3', "a special file"},
                                                {'4', "a special file"},
                                                {'6', "a special file"}};
  for (const auto& [type, what] : kinds) {
    const TarHeader member{.name = "x/1.jpg", .type = type, .link = "/etc/passwd"};
    EXPECT_EQ(cause_of(member.bytes()),
              std::string("!the member \"x/1.jpg\" is ") + what + ", which is not read");
    const TarHeader nameless{.name = "passwd", .type = type, .link = "/etc/passwd"};
    EXPECT_THAT(cause_of(nameless.bytes()), HasSubstr(what));
  }
  const SourcePtr source = tar_source(
      {tar_member("1.jpg", "1") + TarHeader{.name = "1.cls", .type = '2', .link = "x"}.bytes() +
       tar_member("2.jpg", "2") + tar_end()});
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("!data_loss", "2"));
}

TEST(TarCorners, SparseFiles) {
  std::string map(512, '\0'), last(512, '\0');
  map[504] = 1;
  std::string old = TarHeader{.name = "1.jpg", .type = 'S', .size = 10}.bytes();
  old[482] = 1;
  old = TarHeader::with_checksum(old) + map + last + tar_padded("0123456789");
  const std::string pax = pax_member(pax_record("GNU.sparse.major", "1"), "2.jpg", "data");
  const SourcePtr source = tar_source({old + pax + tar_member("3.jpg", "3") + tar_end()});
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("!data_loss", "!data_loss", "3"));
}

TEST(TarCorners, RepeatedAndScatteredMembers) {
  EXPECT_EQ(cause_of(tar_member("a.jpg", "1") + tar_member("a.JPG", "2")),
            "!the sample \"a\" has two members .jpg");
  const auto apart = [](const std::string& key, int byte) {
    return Values{"!the members of the sample \"" + key +
                  "\" are not adjacent: more of them at byte " + std::to_string(byte)};
  };
  const SourcePtr interleaved =
      tar_source({tar_member("a.jpg", "A") + tar_member("b.jpg", "B") + tar_member("a.cls", "1") +
                  tar_member("b.cls", "2") + tar_member("c.jpg", "C") + tar_end()});
  EXPECT_THAT(read(*interleaved),
              ElementsAre(apart("a", 2048), apart("b", 3072), Values{"C", "0", "c"}));
  const SourcePtr twice = tar_source(
      {tar_member("a.jpg", "1") + tar_member("b.jpg", "2") + tar_member("a.jpg", "3") + tar_end()});
  EXPECT_THAT(texts_of(read_source(*twice)), ElementsAre("!data_loss", "2"));
  const SourcePtr two_images = tar_source(
      {tar_member("z.jpg", "Z") + tar_member("a.jpg", "1") + tar_member("a.png", "2") + tar_end()});
  EXPECT_THAT(read(*two_images),
              ElementsAre(Values{"Z", "0", "z"}, Values{"!the sample \"a\" has two images"}));
}

TEST(TarCorners, NumberOfMembers) {
  const auto members = [](const std::string& key, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += tar_member(key + "." + std::to_string(i), "");
    return bytes;
  };
  const SourcePtr source = tar_source({members("a", 1001) + members("b", 1000) + tar_end()});
  EXPECT_EQ(source->spec().size(), 1001u);
  EXPECT_THAT(read(*source)[0], ElementsAre("!the sample \"a\" has more than 1000 members"));
  EXPECT_EQ(read(*source)[1].back(), "b");
  // Nothing is looked for among the members of a sample that failed.
  const std::string many = members("a", 100'000);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(cause_of(many), "!the sample \"a\" has more than 1000 members");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(TarCorners, FailedSampleInFrontOfDamage) {
  const SourcePtr source =
      tar_source({tar_member("a.jpg", "1") + tar_member("a.txt", "1") + tar_member("b.jpg", "1") +
                  tar_member("b.jpg", "2") + tar_member("b.txt", "2") + "cut"});
  const auto got = read(*source);
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[1].at(0), "!the sample \"b\" has two members .jpg");
  EXPECT_THAT(got[2].at(0), HasSubstr("truncated"));
}

TEST(TarCorners, PaxTricks) {
  const std::string good = tar_member("ok.jpg", "ok");
  int tricks = 0;
  for (const std::string& records :
       {std::string("x"), std::string("5 a=b"), std::string("999999999999999999999 a=b\n"),
        std::string("3 =\n"), std::string("8 path\n\n"), std::string("0 a=b\n"),
        std::string("-6 a=b\n"), std::string("6 a=b\n6 "), pax_record("size", "12x"),
        pax_record("size", "-1"), pax_record("size", ""),
        pax_record("size", "18446744073709551616"), pax_record("size", "18446744073709551615"),
        pax_record("size", "9223372036854775807")}) {
    const auto got = read(*tar_source({good + pax_member(records, "1.jpg", "1") + tar_end()}));
    ASSERT_EQ(got.size(), 2u) << records;
    EXPECT_EQ(got[0].at(0), "ok");
    EXPECT_EQ(got[1].at(0)[0], '!') << records;
    EXPECT_THAT(got[1].at(0), HasSubstr("bytes are lost")) << records;
    ++tricks;
  }
  test::figure("F30",
               "%d pax tricks, 5 kinds of links and devices, 5 names that point elsewhere, "
               "scattered members: errors or data, nothing followed or written",
               tricks);
  EXPECT_THAT(cause_of(tar_member("g", pax_record("path", "evil.jpg"), 'g') + good),
              HasSubstr("global pax header sets path"));
  EXPECT_THAT(cause_of(tar_member("x", std::string(100'000, 'x'), 'x') + good),
              HasSubstr("extended header"));
  EXPECT_THAT(cause_of(gnu_long_member(std::string(5000, 'n') + ".jpg", "1")), HasSubstr("5004"));
  const auto got =
      read(*tar_source({good + tar_member("x", pax_record("path", "y.jpg"), 'x') + tar_end()}));
  EXPECT_THAT(got.back().at(0), HasSubstr("truncated"));
}

TEST(TarCorners, HostileSizes) {
  std::string most(12, '\xff');
  std::string huge(12, '\0');
  huge[0] = static_cast<char>(0x80);
  huge[4] = 0x7f;
  for (const std::string& field :
       {most, huge, std::string("77777777777\0", 12), std::string("00000002001\0", 12),
        std::string("0000000008x\0", 12), std::string("-0000000001\0", 12)}) {
    const TarHeader header{.name = "1.jpg", .size_field = field};
    const auto got = read(*tar_source({tar_member("ok.jpg", "ok") + header.bytes() + tar_end()}));
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[1].at(0)[0], '!');
  }
  TarOptions options;
  options.limits.max_record_bytes = 2000;
  const SourcePtr limited = tar_source(
      {tar_member("1.jpg", std::string(2000, 'x')) + tar_member("2.jpg", "2") + tar_end()},
      options);
  EXPECT_THAT(texts_of(read_source(*limited)), ElementsAre("!out_of_range", "2"));
  options.limits = {.max_members = 2};
  const std::string member = tar_member("1.jpg", "1");
  EXPECT_THAT(
      texts_of(read_source(*tar_source(
          {member + tar_member("2.jpg", "2") + tar_member("3.jpg", "3") + tar_end()}, options))),
      ElementsAre("1", "2", "!out_of_range"));
}

TEST(TarCorners, OtherFormats) {
  EXPECT_THAT(cause_of(std::string("\x1f\x8b\x08", 3) + test::noise(2000)), HasSubstr("gzip"));
  EXPECT_THAT(cause_of(test::noise(2000)), HasSubstr("corrupt header at byte 0"));
}

}  // namespace tar_corners_test
}  // namespace penstock
