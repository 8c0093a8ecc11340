// Archives that hold more, or less, than samples: READMEs, labels of volumes, no end, two ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sources/tar_shards.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock {
namespace tar_facts_test {

using test::LogCapture;
using test::read;
using test::read_source;
using test::tar_end;
using test::tar_member;
using test::tar_source;
using test::texts_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kTwo = tar_member("a/1.jpg", "one") + tar_member("b/2.jpg", "two");

TEST(TarFacts, Readme) {
  const std::string readmes[] = {tar_member("README.md", "# data"),
                                 tar_member("LICENSE.txt", "free"),
                                 tar_member("meta.json", "{}") + tar_member("meta.yaml", "x: 1")};
  for (const std::string& readme : readmes) {
    for (const std::string& bytes : {readme + kTwo + tar_member("a/3.jpg", "three"),
                                     kTwo + readme + tar_member("a/3.jpg", "three"),
                                     kTwo + tar_member("a/3.jpg", "three") + readme}) {
      const LogCapture log;
      const SourcePtr source = tar_source({bytes + tar_end()});
      EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("one", "two", "three"));
      EXPECT_THAT(source->class_names(), ElementsAre("a", "b"));
      EXPECT_EQ(log.count("1 sample has none of the usual members"), 1u);
    }
  }
}

TEST(TarFacts, IncompleteFirstSample) {
  const std::string labelled = tar_member("2.cls", "2") + tar_member("2.jpg", "two") +
                               tar_member("3.cls", "3") + tar_member("3.jpg", "three");
  struct Case {
    std::string first;
    std::string lacks;
  };
  for (const Case& c :
       {Case{tar_member("1.cls", "1"), "image"}, Case{tar_member("1.jpg", "one"), "member .cls"},
        Case{tar_member("1.jpg", "one") + tar_member("1.txt", "t"), "member .cls"}}) {
    const auto got = read_source(*tar_source({c.first + labelled + tar_end()}));
    ASSERT_EQ(got.size(), 3u);
    ASSERT_TRUE(got[0].error);
    EXPECT_THAT(got[0].error->cause(), HasSubstr("the sample \"1\" has no " + c.lacks));
    EXPECT_THAT(got[1].values, ElementsAre("two", "2", "2"));
    EXPECT_THAT(got[2].values, ElementsAre("three", "3", "3"));
  }
}

TEST(TarFacts, RareMembers) {
  const LogCapture log;
  const SourcePtr source =
      tar_source({kTwo + tar_member("b/3.jpg", "three") + tar_member("b/3.rare", "x") + tar_end()});
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("one", "two", "three"));
  EXPECT_EQ(log.count("1 sample has a member .rare (first \"b/3\"), which is not read"), 1u);
}

TEST(TarFacts, ShardWithoutSamples) {
  for (const std::string& bytes :
       {tar_member("cat/0", "x"), tar_member("d/.hidden", "x"),
        tar_member("__a__", "x") + tar_member("b.", "x") + tar_member("c", "x")}) {
    const std::optional<Error> error = test::thrown_by([&] {
      (void)tar_source({kTwo + tar_end(), bytes + tar_end()});
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error->what(), HasSubstr("no sample: "));
  }
  const SourcePtr folders = tar_source({tar_member("only/", "", '5') + tar_end()});
  EXPECT_EQ(folders->size(), 0u);
}

TEST(TarFacts, HeadersThatAreNoFiles) {
  for (const char type : {'V', 'D', 'M', 'N', 'A', 'Z', '8'}) {
    const std::string data = type == 'V' ? "" : std::string(700, 'd');
    for (const std::string& bytes :
         {tar_member("my shard.jpg", data, type) + kTwo, kTwo + tar_member("label", data, type),
          tar_member("a/1.jpg", "one") + tar_member("x", data, type) +
              tar_member("b/2.jpg", "two")}) {
      const LogCapture log;
      EXPECT_THAT(texts_of(read_source(*tar_source({bytes + tar_end()}))),
                  ElementsAre("one", "two"))
          << type;
      EXPECT_EQ(log.count("1 header of a type that is no file is skipped"), 1u);
    }
  }
  // Within a sample, too.
  const SourcePtr source = tar_source({tar_member("1.jpg", "one") + tar_member("x", "", 'V') +
                                       tar_member("1.cls", "7") + tar_end()});
  EXPECT_THAT(read_source(*source)[0].values, ElementsAre("one", "7", "1"));
}

TEST(TarFacts, MissingEndMarker) {
  std::vector<std::string> cut = {kTwo, kTwo.substr(0, kTwo.size() - 500)};  // without padding
  const LogCapture log;
  EXPECT_THAT(texts_of(read_source(*tar_source({kTwo + tar_end(), cut[0], cut[1]}))),
              ElementsAre("one", "two", "one", "two", "one", "two"));
  EXPECT_EQ(log.count("2 shards have no end-of-archive marker"), 1u);
  EXPECT_EQ(log.lines().size(), 1u);
}

TEST(TarFacts, AnotherArchiveBehindTheEnd) {
  const std::string other = tar_member("c/3.jpg", "three") + tar_end();
  for (const std::string& zeros :
       {std::string(), std::string(512, '\0'), std::string(8192, '\0')}) {
    const LogCapture log;
    EXPECT_THAT(texts_of(read_source(*tar_source({kTwo + tar_end() + zeros + other}))),
                ElementsAre("one", "two"));
    EXPECT_EQ(log.count("at byte " + std::to_string(kTwo.size() + 1024 + zeros.size())), 1u);
    EXPECT_EQ(log.count("followed by another archive"), 1u);
  }
  const LogCapture log;
  for (const std::string& rest : {std::string("garbage"), std::string(4096, '\0'), std::string()})
    EXPECT_EQ(tar_source({kTwo + tar_end() + rest})->size(), 2u);
  EXPECT_EQ(log.lines().size(), 0u);
}

}  // namespace tar_facts_test
}  // namespace penstock
