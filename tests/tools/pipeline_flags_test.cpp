#include <initializer_list>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/support/flags.h"

namespace penstock::tool {
namespace {

using testing::HasSubstr;

PipelineSpec parse(const std::string& line) {
  CLI::App app("test");
  PipelineFlags flags(app);
  std::vector<std::string> words;
  for (const std::string& word : split(line, ' '))
    if (!word.empty()) words.insert(words.begin(), word);
  app.parse(words);
  return flags.finish();
}

std::vector<std::string> kinds(const PipelineSpec& spec) {
  std::vector<std::string> names;
  for (const Settings& stage : spec.stages) names.push_back(stage.kind().name);
  return names;
}

TEST(PipelineFlags, KeepTheOrderOfStages) {
  const PipelineSpec spec = parse(
      "--take 5 --images d --shuffle --take 3 --random-resized-crop 224 --flip --normalize "
      "--batch 64 --shuffle 10 --take 1");
  EXPECT_EQ(kinds(spec), (List{"take", "shuffle", "take", "random_resized_crop", "flip",
                               "normalize", "batch", "shuffle", "take"}));
  EXPECT_EQ(spec.stages[0].get("count", std::int64_t{0}), 5);
  EXPECT_EQ(spec.stages[2].get("count", std::int64_t{0}), 3);
  EXPECT_FALSE(spec.stages[1].has("buffer"));
  EXPECT_EQ(spec.stages[7].get("buffer", std::int64_t{0}), 10);
  EXPECT_EQ(spec.stages[8].get("count", std::int64_t{0}), 1);
}

TEST(PipelineFlags, TakeTheFlagsOfTheProfiledExample) {
  const PipelineSpec spec = parse(
      "--images data --shuffle --random-resized-crop 224 --flip --normalize --batch 64 "
      "--epochs 3 --seed 7 --memory 96MiB --threads 8");
  EXPECT_EQ(spec.source->get("path", std::string()), "data");
  EXPECT_EQ(spec.run.get("epochs", std::int64_t{0}), 3);
  EXPECT_EQ(spec.run.get("memory", std::int64_t{0}), 96LL << 20);
  EXPECT_EQ(spec.run.get("threads", std::int64_t{0}), 8);
}

TEST(PipelineFlags, TakeListsAsTheyAreWritten) {
  const PipelineSpec spec = parse("--images d --keep label,image --drop key --keep components=a,b");
  EXPECT_EQ(spec.stages[0].get("components", List()), (List{"label", "image"}));
  EXPECT_EQ(spec.stages[1].get("components", List()), (List{"key"}));
  EXPECT_EQ(spec.stages[2].get("components", List()), (List{"a", "b"}));
  EXPECT_THROW(parse("--images d --keep a,,b"), UsageError);
}

TEST(PipelineFlags, TakeStagesThatGroupAndKeep) {
  const PipelineSpec spec = parse(
      "--lines t --cache kept --cache --unique line --ignore-errors --snapshot folder "
      "--bucket-by-length bounds=8:16,sizes=4:2:1 --bucket-by-length line,tokens=64 "
      "--window 3,shift=1,stride=2 --rebatch 5,drop_remainder --ragged-batch 6 --pack 128,open=4 "
      "--mixup 10,alpha=0.2 --cutmix 10,layout=hwc");
  EXPECT_EQ(kinds(spec), (List{"cache", "cache", "unique", "ignore_errors", "snapshot",
                               "bucket_by_length", "bucket_by_length", "window", "rebatch",
                               "ragged_batch", "pack", "mixup", "cutmix"}));
  EXPECT_EQ(spec.stages[0].get("file", std::string()), "kept");
  EXPECT_FALSE(spec.stages[1].has("file"));
  EXPECT_EQ(spec.stages[4].get("folder", std::string()), "folder");
  EXPECT_EQ(spec.stages[5].get("sizes", std::string()), "4:2:1");
  EXPECT_EQ(spec.stages[6].get("tokens", std::int64_t{0}), 64);
  EXPECT_EQ(spec.stages[7].get("stride", std::int64_t{0}), 2);
  EXPECT_TRUE(spec.stages[8].get("drop_remainder", false));
  EXPECT_EQ(spec.stages[11].get("alpha", 0.0), 0.2);
  EXPECT_EQ(spec.stages[12].get("layout", std::string()), "hwc");
}

TEST(PipelineFlags, TakeCommasInTheOnlyText) {
  const PipelineSpec spec =
      parse("--lines t --cache a,b=c.cache --snapshot folder=x,y --unique component=p,q");
  EXPECT_EQ(spec.stages[0].get("file", std::string()), "a,b=c.cache");
  EXPECT_EQ(spec.stages[1].get("folder", std::string()), "x,y");
  EXPECT_EQ(spec.stages[2].get("component", std::string()), "p,q");
}

TEST(PipelineFlags, TakeMoreValuesByName) {
  const PipelineSpec spec =
      parse("--range 9 --shard 4,1,contiguous --shuffle 100,seed=3 --flip probability=0.25");
  EXPECT_EQ(spec.stages[0].get("count", std::int64_t{0}), 4);
  EXPECT_EQ(spec.stages[0].get("index", std::int64_t{0}), 1);
  EXPECT_TRUE(spec.stages[0].get("contiguous", false));
  EXPECT_EQ(spec.stages[1].get("seed", std::int64_t{0}), 3);
  EXPECT_EQ(spec.stages[2].get("probability", 0.0), 0.25);
}

TEST(PipelineFlags, ReadEverySource) {
  EXPECT_EQ(parse("--tar a.tar b.tar").source->get("paths", List()), (List{"a.tar", "b.tar"}));
  EXPECT_EQ(parse("--cifar10 x").source->kind().name, "cifar10");
  const PipelineSpec idx = parse("--idx i,l");
  EXPECT_EQ(idx.source->get("images", std::string()), "i");
  EXPECT_EQ(idx.source->get("labels", std::string()), "l");
  EXPECT_FALSE(parse("--idx i").source->has("labels"));
  const PipelineSpec range = parse("--range 5,-5,-2");
  EXPECT_EQ(range.source->get("start", std::int64_t{0}), 5);
  EXPECT_EQ(range.source->get("stop", std::int64_t{0}), -5);
  EXPECT_EQ(range.source->get("step", std::int64_t{0}), -2);
  EXPECT_EQ(parse("--synthetic count=3,bytes=5").source->get("spec", std::string()),
            "count=3,bytes=5");
  EXPECT_FALSE(parse("--csv x --no-header").source->get("header", true));
  EXPECT_EQ(parse("--example a/b,c --tfrecord x").source->get("example", List()),
            (List{"a/b", "c"}));
  EXPECT_EQ(
      parse("--csv x --columns a:f32=nan,b --na-values NA,?").source->get("na_values", List()),
      (List{"NA", "?"}));
}

TEST(PipelineFlags, HangOptionsOnTheirStage) {
  const char* const kLines[] = {"--images d --decode --batch 4 --drop-remainder --orient",
                                "--images d --orient --decode --drop-remainder --batch 4"};
  for (const char* line : kLines) {
    const PipelineSpec spec = parse(line);
    EXPECT_EQ(kinds(spec), (List{"decode", "batch"})) << line;
    EXPECT_TRUE(spec.stages[0].get("orient", false)) << line;
    EXPECT_TRUE(spec.stages[1].get("drop_remainder", false)) << line;
  }
  EXPECT_EQ(kinds(parse("--images d --shuffle --flip --orient")),
            (List{"shuffle", "decode", "flip"}));
}

TEST(PipelineFlags, RefuseWithTheFlag) {
  const struct {
    const char* line;
    const char* what;
  } kCases[] = {
      {"--shuffle", "there is no source"},
      {"--images a --range 3", "there is already a source, --images (--range)"},
      {"--range 3 --range 4", "is given twice"},
      {"--images a b", "put a pattern in quotes"},
      {"--range x", "expected an integer, got \"x\" (--range)"},
      {"--range 1,2,3,4", "(--range)"},
      {"--range 3 --batch 0", "size must be at least 1, got 0 (--batch)"},
      {"--range 3 --shard 4", "shard needs index: an integer (--shard)"},
      {"--range 3 --shard 4,1,2", "takes at most"},
      {"--range 3 --shuffle buffr=3", "did you mean buffer?"},
      {"--range 3 --memory 1M", "such as 96MiB"},
      {"--range 3 --on-error ignore",
       "must be one of fail, skip, retry, got \"ignore\" (--on-error)"},
      {"--range 3 --max-errors 200%", "(--max-errors)"},
      {"--range 3 --no-header", "is not an option of --range (--no-header)"},
      {"--range 3 --drop-remainder", "applies to no stage of this pipeline (--drop-remainder)"},
      {"--range 3 --pipeline x.toml", "replaces the flags for"},
      {"--images d --resize 0", "(--resize)"},
  };
  for (const auto& c : kCases) {
    try {
      parse(c.line);
      ADD_FAILURE() << "accepted: " << c.line;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.what)) << c.line;
    }
  }
  EXPECT_THROW(parse("--range 3 --no-such-flag"), CLI::ParseError);
  EXPECT_THROW(parse("--range"), CLI::ParseError);
  EXPECT_THROW(parse("--range 3 --batch"), CLI::ParseError);
  EXPECT_THROW(parse("--range 3 4"), CLI::ParseError);
  EXPECT_THROW(parse("--range 3 --identity 4"), CLI::ParseError);
}

TEST(PipelineFlags, SurviveAsToml) {
  const PipelineSpec spec = parse(
      "--tar a.tar --shuffle --resize 256 --center-crop --normalize --batch 8 --drop-remainder "
      "--seed 1");
  const std::string toml = to_toml(spec);
  EXPECT_EQ(to_toml(pipeline_from_toml(toml, "x")), toml);
  EXPECT_THAT(toml, HasSubstr("kind = \"center_crop\""));
}

}  // namespace
}  // namespace penstock::tool
