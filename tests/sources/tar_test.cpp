// Tar shards: their samples, labels and dialects.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "pipeline/io/fault.h"
#include "tests/sources/tar_shards.h"
#include "tests/support/data.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock {
namespace tar_test {

using test::gnu_long_member;
using test::pax_member;
using test::pax_record;
using test::read;
using test::read_source;
using test::ReadOutcome;
using test::tar_end;
using test::tar_member;
using test::tar_padded;
using test::tar_source;
using test::TarHeader;
using test::texts_of;
using test::Values;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Tar, LabelsByFolder) {
  const SourcePtr source = tar_source(
      {tar_member("train/dog/1.jpg", "dog one") + tar_member("train/cat/2.PNG", "cat") + tar_end(),
       tar_member("train/ant/3.jpeg", "ant") + tar_member("train/dog/4.jpg", "") + tar_end()});
  EXPECT_EQ(source->spec().to_string(), "{image: bytes [], label: i64 [], key: bytes []}");
  EXPECT_THAT(source->class_names(), ElementsAre("ant", "cat", "dog"));
  EXPECT_THAT(read(*source),
              ElementsAre(Values{"dog one", "2", "train/dog/1"}, Values{"cat", "1", "train/cat/2"},
                          Values{"ant", "0", "train/ant/3"}, Values{"", "2", "train/dog/4"}));
}

TEST(Tar, LabelsByCls) {
  const SourcePtr source = tar_source(
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

TEST(Tar, ComponentsByExtension) {
  const SourcePtr source = tar_source(
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

TEST(Tar, WithoutLabels) {
  const SourcePtr source =
      tar_source({tar_member("1.json", "{}") + tar_member("1.npy", "N") + tar_end()});
  EXPECT_EQ(source->spec().to_string(), "{json: bytes [], npy: bytes [], key: bytes []}");
  EXPECT_THAT(read(*source), ElementsAre(Values{"{}", "N", "1"}));
}

TEST(Tar, LabelsByExpression) {
  TarOptions options;
  options.label_regex = "^([a-z]+)_";
  const std::string shard = tar_member("t/cat_1.jpg", "C") + tar_member("t/dog_2.jpg", "D") +
                            tar_member("t/77.jpg", "?") + tar_end();
  const SourcePtr source = tar_source({shard}, options);
  EXPECT_THAT(source->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(read(*source),
              ElementsAre(Values{"C", "0", "t/cat_1"}, Values{"D", "1", "t/dog_2"},
                          Values{"!the label expression does not match \"t/77.jpg\""}));
  options.label_regex = "^(x+)$";
  test::expect_error(ErrorCode::invalid_argument, "matches no member",
                     [&] { tar_source({shard}, options); });
}

TEST(Tar, OneClassForAll) {
  const test::LogCapture log;
  TarOptions options;
  const auto make = [&](const std::string& name, const std::string& members) {
    options.files = make_memory_file_system({{name, members + tar_end()}});
    (void)make_tar_source({name}, options);
  };
  make("a.tar", tar_member("cat/1.jpg", "1") + tar_member("cat/2.jpg", "2"));
  make("flat.tar", tar_member("1.png", "1") + tar_member("2.png", "2") + tar_member("3.jpg", "3"));
  EXPECT_EQ(log.count("a.tar: all 2 samples have one class, \"cat\" (--label-regex"), 1U);
  EXPECT_EQ(log.count("flat.tar: all 3 samples have one class, \".\" (--label-regex"), 1U);
  make("two.tar", tar_member("cat/1.jpg", "1") + tar_member("dog/2.jpg", "2"));
  make("lone.tar", tar_member("cat/1.jpg", "1"));
  make("cls.tar", tar_member("1.jpg", "1") + tar_member("1.cls", "0") + tar_member("2.jpg", "2") +
                      tar_member("2.cls", "0"));
  make("texts.tar", tar_member("a/1.txt", "1") + tar_member("a/2.txt", "2"));
  EXPECT_EQ(log.lines().size(), 2U);
  options.label_regex = "(c)at";
  make("regex.tar", tar_member("cat1.txt", "1") + tar_member("cat2.txt", "2"));
  EXPECT_EQ(log.count("regex.tar: all 2 samples have one class, \"c\""), 1U);
}

TEST(Tar, MembersOfNoSample) {
  const SourcePtr source = tar_source(
      {tar_member("dir/", "", '5') + tar_member("README", "text") + tar_member("d/.hidden", "h") +
       tar_member("d/._1.jpg", "AppleDouble") + tar_member("__meta.json__", "{}") +
       tar_member("pax", pax_record("comment", "c"), 'g') + tar_member("d/1.jpg", "one") +
       tar_member("d/", "", '5') + tar_member("v7dir.d/", "", '\0') + tar_end() + "garbage"});
  EXPECT_THAT(read(*source), ElementsAre(Values{"one", "0", "d/1"}));
}

TEST(Tar, EmptyArchive) {
  const SourcePtr source = tar_source({tar_end()});
  EXPECT_EQ(source->size(), 0u);
  EXPECT_EQ(source->spec().to_string(), "{image: bytes [], label: i64 [], key: bytes []}");
}

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
      tar_source({with_prefix.bytes() + tar_padded("1") + gnu.bytes() + tar_padded("2") +
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
      tar_source({binary.bytes() + tar_padded(data) + spaced.bytes() + tar_padded(data) +
                  tar_member("x", pax_record("size", "700"), 'x') + in_pax.bytes() +
                  tar_padded(data) + tar_end()});
  for (const Values& values : read(*source)) EXPECT_EQ(values.at(0), data);
  EXPECT_EQ(source->size(), 3u);
}

TEST(Tar, LoneZeroBlock) {
  const std::string zero(512, '\0');
  const SourcePtr source =
      tar_source({tar_member("1.jpg", "1") + zero + tar_member("2.jpg", "2") + zero});
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("1", "2"));
}

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

}  // namespace tar_test
}  // namespace penstock
