#include <penstock/sources.h>

#include <algorithm>
#include <chrono>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/io/fault.h"
#include "tests/support/data.h"
#include "tests/support/errors.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock {
namespace {

using test::gnu_long_member;
using test::pax_member;
using test::pax_record;
using test::read_source;
using test::ReadOutcome;
using test::tar_end;
using test::tar_member;
using test::tar_padded;
using test::TarHeader;
using test::texts_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Values = std::vector<std::string>;

/// A source over shards in memory, named "0", "1", …
SourcePtr source_of(const std::vector<std::string>& shards, TarOptions options = {}) {
  std::vector<std::pair<std::string, std::string>> files;
  Paths paths;
  for (const std::string& shard : shards) {
    paths.push_back(std::to_string(paths.size()));
    files.emplace_back(paths.back(), shard);
  }
  options.files = make_memory_file_system(files);
  return make_tar_source(paths, options);
}

/// All elements, or "!" and the error's cause for one that failed.
std::vector<Values> read(const Source& source) {
  std::vector<Values> out;
  for (const ReadOutcome& outcome : read_source(source))
    out.push_back(outcome.error ? Values{"!" + outcome.error->cause()} : outcome.values);
  return out;
}

/// The only outcome of a shard that holds one sample with a fault.
std::string cause_of(const std::string& shard) {
  const auto got = read(*source_of({shard + tar_end()}));
  EXPECT_EQ(got.size(), 1u);
  return got.at(0).at(0);
}

// ---- Samples.

TEST(Tar, ImagesAreLabelledByTheirFolder) {
  const SourcePtr source = source_of(
      {tar_member("train/dog/1.jpg", "dog one") + tar_member("train/cat/2.PNG", "cat") + tar_end(),
       tar_member("train/ant/3.jpeg", "ant") + tar_member("train/dog/4.jpg", "") + tar_end()});
  EXPECT_EQ(source->spec().to_string(), "{image: bytes [], label: i64 [], key: bytes []}");
  EXPECT_THAT(source->class_names(), ElementsAre("ant", "cat", "dog"));
  EXPECT_THAT(read(*source),
              ElementsAre(Values{"dog one", "2", "train/dog/1"}, Values{"cat", "1", "train/cat/2"},
                          Values{"ant", "0", "train/ant/3"}, Values{"", "2", "train/dog/4"}));
}

TEST(Tar, ClsIsTheLabelOfAnImage) {
  const SourcePtr source = source_of(
      {tar_member("a.cls", "7") + tar_member("a.jpg", "A") + tar_member("b.jpg", "B") +
       tar_member("b.cls", " -12\n") + tar_member("c.jpg", "C") + tar_member("c.cls", "x") +
       tar_member("d.jpg", "D") + tar_member("e.cls", "3") + tar_member("f.jpg", "F") +
       tar_member("f.cls", "99999999999999999999") + tar_end()});
  EXPECT_EQ(source->spec().to_string(), "{image: bytes [], label: i64 [], key: bytes []}");
  EXPECT_THAT(source->class_names(), IsEmpty());
  EXPECT_THAT(read(*source),
              ElementsAre(Values{"A", "7", "a"}, Values{"B", "-12", "b"},
                          Values{"!the member .cls is not an integer"},
                          Values{"!the sample \"d\" has no member .cls"},
                          Values{"!the sample \"e\" has no image (.jpg, .jpeg or .png)"},
                          Values{"!the member .cls is not an integer"}));
}

TEST(Tar, OtherSamplesHaveAComponentPerExtension) {
  const SourcePtr source = source_of(
      {tar_member("x/1.txt", "one") + tar_member("x/1.seg.PNG", "mask") +
       tar_member("x/1.cls", "4") + tar_member("x/2.cls", "5") + tar_member("x/2.seg.png", "m2") +
       tar_member("x/2.txt", "two") + tar_member("x/2.extra", "left out") +
       tar_member("x/3.txt", "three") + tar_member("x/3.cls", "6") + tar_end()});
  EXPECT_EQ(source->spec().to_string(),
            "{seg.png: bytes [], txt: bytes [], label: i64 [], key: bytes []}");
  EXPECT_THAT(read(*source),
              ElementsAre(Values{"mask", "one", "4", "x/1"}, Values{"m2", "two", "5", "x/2"},
                          Values{"!the sample \"x/3\" has no member .seg.png"}));
}

TEST(Tar, WithoutLabelsThereIsNone) {
  const SourcePtr source =
      source_of({tar_member("1.json", "{}") + tar_member("1.npy", "N") + tar_end()});
  EXPECT_EQ(source->spec().to_string(), "{json: bytes [], npy: bytes [], key: bytes []}");
  EXPECT_THAT(read(*source), ElementsAre(Values{"{}", "N", "1"}));
}

TEST(Tar, LabelsByExpression) {
  TarOptions options;
  options.label_regex = "^([a-z]+)_";
  const std::string shard = tar_member("t/cat_1.jpg", "C") + tar_member("t/dog_2.jpg", "D") +
                            tar_member("t/77.jpg", "?") + tar_end();
  const SourcePtr source = source_of({shard}, options);
  EXPECT_THAT(source->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(read(*source),
              ElementsAre(Values{"C", "0", "t/cat_1"}, Values{"D", "1", "t/dog_2"},
                          Values{"!the label expression does not match \"t/77.jpg\""}));
  options.label_regex = "^(x+)$";
  test::expect_error(ErrorCode::invalid_argument, "matches no member",
                     [&] { source_of({shard}, options); });
}

TEST(Tar, WhatBelongsToNoSampleIsLeftOut) {
  const SourcePtr source = source_of(
      {tar_member("dir/", "", '5') + tar_member("README", "text") + tar_member("d/.hidden", "h") +
       tar_member("d/._1.jpg", "AppleDouble") + tar_member("__meta.json__", "{}") +
       tar_member("pax", pax_record("comment", "c"), 'g') + tar_member("d/1.jpg", "one") +
       tar_member("d/", "", '5') + tar_member("v7dir.d/", "", '\0') + tar_end() + "garbage"});
  EXPECT_THAT(read(*source), ElementsAre(Values{"one", "0", "d/1"}));
}

TEST(Tar, AnEmptyArchiveIsAnEmptySource) {
  const SourcePtr source = source_of({tar_end()});
  EXPECT_EQ(source->size(), 0u);
  EXPECT_EQ(source->spec().to_string(), "{image: bytes [], label: i64 [], key: bytes []}");
}

// ---- Dialects.

TEST(Tar, NamesOfEveryDialect) {
  const std::string folder(120, 'f'), longest = std::string(300, 'g') + "/" + std::string(200, 'h');
  TarHeader with_prefix{.name = "1.jpg", .size = 1, .prefix = folder};
  TarHeader gnu{
      .name = "x/2.jpg", .size = 1, .prefix = "not a prefix", .magic = std::string("ustar  \0", 8)};
  TarHeader v7{.name = "x/3.jpg",
               .type = '\0',
               .size = 1,
               .prefix = "nor this",
               .magic = std::string(8, '\0')};
  const std::string full(100, 'n');  // fills its field, without a NUL
  const SourcePtr source =
      source_of({with_prefix.bytes() + tar_padded("1") + gnu.bytes() + tar_padded("2") +
                 v7.bytes() + tar_padded("3") + gnu_long_member(longest + ".jpg", "4") +
                 pax_member(pax_record("mtime", "1.5") + pax_record("path", longest + "p.jpg"),
                            "short.jpg", "5") +
                 tar_member("e/" + full.substr(6) + ".jpg", "6") + tar_end()});
  std::vector<std::string> keys, data;
  for (const Values& values : read(*source)) {
    data.push_back(values.at(0));
    keys.push_back(values.at(2));
  }
  EXPECT_THAT(data, ElementsAre("1", "2", "3", "4", "5", "6"));
  EXPECT_THAT(keys, ElementsAre(folder + "/1", "x/2", "x/3", longest, longest + "p",
                                "e/" + full.substr(6)));
}

TEST(Tar, SizesOfEveryDialect) {
  const std::string data = test::noise(700);
  std::string base256(12, '\0');
  base256[0] = static_cast<char>(0x80);
  base256[10] = 2;
  base256[11] = static_cast<char>(700 - 512);
  TarHeader binary{.name = "1.jpg", .size_field = base256};
  TarHeader spaced{.name = "2.jpg", .size_field = "       1274 "};
  TarHeader in_pax{.name = "3.jpg", .size = 0};
  const SourcePtr source =
      source_of({binary.bytes() + tar_padded(data) + spaced.bytes() + tar_padded(data) +
                 tar_member("x", pax_record("size", "700"), 'x') + in_pax.bytes() +
                 tar_padded(data) + tar_end()});
  for (const Values& values : read(*source)) EXPECT_EQ(values.at(0), data);
  EXPECT_EQ(source->size(), 3u);
}

TEST(Tar, ALoneZeroBlockEndsNothing) {
  const std::string zero(512, '\0');
  const SourcePtr source =
      source_of({tar_member("1.jpg", "1") + zero + tar_member("2.jpg", "2") + zero});
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("1", "2"));
}

// ---- The corner corpus of FAULTS F30: names are data, nothing is followed or written.

TEST(TarCorners, NamesAreData) {
  const SourcePtr source = source_of(
      {tar_member("../../etc/passwd.jpg", "up") + tar_member("/etc/shadow.jpg", "absolute") +
       tar_member("./a/../b.jpg", "dots") + tar_member("C:\\x.jpg", "windows") +
       tar_member("new\nline.jpg", "n") + tar_end()});
  EXPECT_THAT(read(*source),
              ElementsAre(Values{"up", "2", "../../etc/passwd"},
                          Values{"absolute", "2", "/etc/shadow"}, Values{"dots", "1", "./a/../b"},
                          Values{"windows", "0", "C:\\x"}, Values{"n", "0", "new\nline"}));
}

TEST(TarCorners, LinksAndDevicesAreErrorsNotFollowed) {
  const std::pair<char, const char*> kinds[] = {{'1', "a link"},         {'2', "a link"},
                                                {'3', "a special file"}, {'4', "a special file"},
                                                {'6', "a special file"}, {'V', "a special file"},
                                                {'Z', "a special file"}};
  for (const auto& [type, what] : kinds) {
    const TarHeader member{.name = "x/1.jpg", .type = type, .link = "/etc/passwd"};
    EXPECT_EQ(cause_of(member.bytes()),
              std::string("!the member \"x/1.jpg\" is ") + what + ", which is not read");
    const TarHeader nameless{.name = "passwd", .type = type, .link = "/etc/passwd"};
    EXPECT_THAT(cause_of(nameless.bytes()), HasSubstr(what));
  }
  const SourcePtr source = source_of({tar_member("1.jpg", "1") +
                                      TarHeader{.name = "1.cls", .type = '2', .link = "x"}.bytes() +
                                      tar_member("2.jpg", "2") + tar_end()});
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("!data_loss", "2"));
}

TEST(TarCorners, SparseFilesAreErrorsAndTheNextGoesOn) {
  std::string map(512, '\0'), last(512, '\0');
  map[504] = 1;
  std::string old = TarHeader{.name = "1.jpg", .type = 'S', .size = 10}.bytes();
  old[482] = 1;
  old = TarHeader::with_checksum(old) + map + last + tar_padded("0123456789");
  const std::string pax = pax_member(pax_record("GNU.sparse.major", "1"), "2.jpg", "data");
  const SourcePtr source = source_of({old + pax + tar_member("3.jpg", "3") + tar_end()});
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("!data_loss", "!data_loss", "3"));
}

TEST(TarCorners, RepeatedAndScatteredMembersAreErrors) {
  EXPECT_EQ(cause_of(tar_member("a.jpg", "1") + tar_member("a.JPG", "2")),
            "!the sample \"a\" has two members .jpg");
  const auto apart = [](const std::string& key, int byte) {
    return Values{"!the members of the sample \"" + key + "\" are apart: more of them at byte " +
                  std::to_string(byte)};
  };
  const SourcePtr interleaved =
      source_of({tar_member("a.jpg", "A") + tar_member("b.jpg", "B") + tar_member("a.cls", "1") +
                 tar_member("b.cls", "2") + tar_member("c.jpg", "C") + tar_end()});
  EXPECT_THAT(read(*interleaved),
              ElementsAre(apart("a", 2048), apart("b", 3072), Values{"C", "0", "c"}));
  const SourcePtr twice = source_of(
      {tar_member("a.jpg", "1") + tar_member("b.jpg", "2") + tar_member("a.jpg", "3") + tar_end()});
  EXPECT_THAT(texts_of(read_source(*twice)), ElementsAre("!data_loss", "2"));
  const SourcePtr two_images = source_of(
      {tar_member("z.jpg", "Z") + tar_member("a.jpg", "1") + tar_member("a.png", "2") + tar_end()});
  EXPECT_THAT(read(*two_images),
              ElementsAre(Values{"Z", "0", "z"}, Values{"!the sample \"a\" has two images"}));
}

TEST(TarCorners, MembersOfASampleAreBounded) {
  const auto members = [](const std::string& key, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += tar_member(key + "." + std::to_string(i), "");
    return bytes;
  };
  const SourcePtr source = source_of({members("a", 1001) + members("b", 1000) + tar_end()});
  EXPECT_EQ(source->spec().size(), 1001u);
  EXPECT_THAT(read(*source)[0], ElementsAre("!the sample \"a\" has more than 1000 members"));
  EXPECT_EQ(read(*source)[1].back(), "b");
  // Nothing is looked for among the members of a sample that failed.
  const std::string many = members("a", 100'000);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(cause_of(many), "!the sample \"a\" has more than 1000 members");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(TarCorners, AFailedSampleIsAnErrorAlsoInFrontOfDamage) {
  const SourcePtr source =
      source_of({tar_member("a.jpg", "1") + tar_member("a.txt", "1") + tar_member("b.jpg", "1") +
                 tar_member("b.jpg", "2") + tar_member("b.txt", "2")});
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
    const auto got = read(*source_of({good + pax_member(records, "1.jpg", "1") + tar_end()}));
    ASSERT_EQ(got.size(), 2u) << records;
    EXPECT_EQ(got[0].at(0), "ok");
    EXPECT_EQ(got[1].at(0)[0], '!') << records;
    EXPECT_THAT(got[1].at(0), HasSubstr("bytes are lost")) << records;
    ++tricks;
  }
  test::figure("F30",
               "%d pax tricks, 7 kinds of links and devices, 5 names that point elsewhere, "
               "scattered members: errors or data, nothing followed or written",
               tricks);
  EXPECT_THAT(cause_of(tar_member("g", pax_record("path", "evil.jpg"), 'g') + good),
              HasSubstr("global pax header sets path"));
  EXPECT_THAT(cause_of(tar_member("x", std::string(100'000, 'x'), 'x') + good),
              HasSubstr("extended header"));
  EXPECT_THAT(cause_of(gnu_long_member(std::string(5000, 'n') + ".jpg", "1")), HasSubstr("5004"));
  const auto got =
      read(*source_of({good + tar_member("x", pax_record("path", "y.jpg"), 'x') + tar_end()}));
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
    const auto got = read(*source_of({tar_member("ok.jpg", "ok") + header.bytes() + tar_end()}));
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[1].at(0)[0], '!');
  }
  TarOptions options;
  options.limits.max_record_bytes = 2000;
  const SourcePtr limited = source_of(
      {tar_member("1.jpg", std::string(2000, 'x')) + tar_member("2.jpg", "2") + tar_end()},
      options);
  EXPECT_THAT(texts_of(read_source(*limited)), ElementsAre("!out_of_range", "2"));
  options.limits = {.max_members = 2};
  const std::string member = tar_member("1.jpg", "1");
  EXPECT_THAT(
      texts_of(read_source(*source_of(
          {member + tar_member("2.jpg", "2") + tar_member("3.jpg", "3") + tar_end()}, options))),
      ElementsAre("1", "2", "!out_of_range"));
}

TEST(TarCorners, OtherFormatsAreNamed) {
  EXPECT_THAT(cause_of(std::string("\x1f\x8b\x08", 3) + test::noise(2000)), HasSubstr("gzip"));
  EXPECT_THAT(cause_of(test::noise(2000)), HasSubstr("corrupt header at byte 0"));
}

// ---- Damage: FAULTS F3-F5.

std::string three_samples() {
  return tar_member("d/1.jpg", "first") + tar_member("d/1.cls", "1") +
         gnu_long_member("d/" + std::string(150, '2') + ".cls", "2") +
         gnu_long_member("d/" + std::string(150, '2') + ".jpg", "") +
         tar_member("d/3.jpg", test::noise(600)) + tar_member("d/3.cls", "3") + tar_end();
}

TEST(TarDamage, EveryTruncationKeepsWhatIsWholeAndSaysWhere) {
  const std::string sound = three_samples();
  const std::vector<std::string> texts = texts_of(read_source(*source_of({sound})));
  ASSERT_EQ(texts.size(), 3u);
  const std::size_t data_end[] = {1024 + 512 + 1, 2048 + 2 * 1024 + 512 + 1024 + 512, 0};
  for (std::size_t cut = 0; cut < sound.size() - 1024 + 1; ++cut) {
    const SourcePtr source =
        source_of({sound.substr(0, cut),
                   tar_member("d/9.jpg", "next") + tar_member("d/9.cls", "9") + tar_end()});
    const std::vector<ReadOutcome> got = read_source(*source);
    ASSERT_GE(got.size(), 2u) << cut;
    ASSERT_EQ(got.back().text(), "next");
    const ReadOutcome& error = got[got.size() - 2];
    ASSERT_EQ(error.text(), "!data_loss") << cut;
    ASSERT_THAT(error.error->cause(), HasSubstr("truncated at byte " + std::to_string(cut)));
    for (std::size_t i = 0; i + 2 < got.size(); ++i) {
      // The first sample can't be known to be whole before there is another.
      if (i == 0 && cut < 1024 + 512) continue;
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
    ASSERT_EQ(texts_of(read_source(*source_of({sound.substr(0, cut)}))), texts);
}

TEST(TarDamage, EveryFlippedBitOfAHeaderIsFound) {
  const std::string sound = three_samples();
  const auto values = read(*source_of({sound}));
  const std::size_t header_at = 1024;
  std::size_t harmless = 0;
  for (std::size_t bit = header_at * 8; bit < (header_at + 512) * 8; ++bit) {
    std::string shard = sound;
    shard[bit / 8] = static_cast<char>(shard[bit / 8] ^ (1 << (bit % 8)));
    const auto got = read(*source_of({shard}));
    if (got == values) {
      ++harmless;  // blanks and NULs around the checksum's digits
      continue;
    }
    ASSERT_EQ(got.size(), 2u) << bit;
    ASSERT_THAT(got.back().at(0), HasSubstr("corrupt header at byte 1024")) << bit;
  }
  EXPECT_LE(harmless, 8u);
}

TEST(TarDamage, RandomDamageNeverCrashes) {
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
    EXPECT_LE(read(*source_of({shard})).size(), 10u);
  }
}

// ---- Every file system, and real data.

TEST(Tar, OneReadAndOneBufferForNeighbours) {
  std::string shard;
  for (int i = 0; i < 64; ++i) shard += tar_member("c/" + std::to_string(i) + ".jpg", "data");
  const test::TempFolder folder;
  TarOptions options;
  const auto faults = std::make_shared<FaultFileSystem>(default_file_system(), FaultOptions{});
  options.files = faults;
  const SourcePtr source = make_tar_source({folder.write("t", shard + tar_end())}, options);
  std::vector<ReadItem> items(64);
  for (std::size_t i = 0; i < items.size(); ++i) items[i].index = i;
  test::HeapContext context;
  const std::uint64_t before = faults->operations();
  source->read(items, context);
  EXPECT_EQ(faults->operations() - before, 1u);
  EXPECT_EQ(context.allocations, 1u);
}

TEST(Tar, RealCifar10) {
  const std::string path = test::data_path("cifar10-test.tar");
  PENSTOCK_NEED_DATA(path);
  TarOptions options;
  options.index_folder = "-";
  const SourcePtr source = make_tar_source({path}, options);
  EXPECT_EQ(source->size(), 10'000u);
  EXPECT_THAT(source->class_names(), ElementsAre("airplane", "automobile", "bird", "cat", "deer",
                                                 "dog", "frog", "horse", "ship", "truck"));
  std::map<std::string, int> labels;
  for (const ReadOutcome& outcome : read_source(*source)) {
    ASSERT_FALSE(outcome.error);
    ASSERT_EQ(outcome.values[0].substr(0, 2), "\xff\xd8");
    ASSERT_EQ(outcome.values[0].substr(outcome.values[0].size() - 2), "\xff\xd9");
    ++labels[outcome.values[1]];
  }
  ASSERT_EQ(labels.size(), 10u);
  for (const auto& [label, count] : labels) EXPECT_EQ(count, 1000) << label;
}

}  // namespace
}  // namespace penstock
