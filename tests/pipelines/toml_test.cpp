#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipelines/kinds.h"
#include "pipelines/pipeline_spec.h"
#include "pipelines/usage_error.h"
#include "tests/support/errors.h"
#include "tests/support/figure.h"
#include "tests/support/places.h"

namespace penstock::tool {
namespace {

using testing::HasSubstr;

constexpr const char* kWhole = R"(
[source]
kind = "tar"
paths = ["a-*.tar", "b.tar"]
label_regex = 'c(\d+)\.jpg'

[[stages]]
kind = "shuffle"
buffer = 1000
seed = 3

[[stages]]
kind = "random_resized_crop"
size = 224
min_scale = 0.25

[[stages]]
kind = "resize"
size = "100x200"

[[stages]]
kind = "batch"
size = 64
drop_remainder = true

[run]
epochs = 3
memory = "96MiB"
on_error = "skip"
max_errors = "1%"
)";

TEST(PipelineToml, HiddenAndLabelDepthOfImages) {
  for (const char* more : {"hidden = true", "label_depth = 0", "label_depth = 2\nhidden = false"}) {
    const std::string text =
        std::string("[source]\nkind = \"images\"\npath = \"p\"\n") + more + "\n";
    const PipelineSpec spec = pipeline_from_toml(text, "a.toml");
    EXPECT_EQ(spec.source->has("hidden"), std::string(more).find("hidden") != std::string::npos);
    EXPECT_EQ(spec.source->has("label_depth"),
              std::string(more).find("depth") != std::string::npos);
    EXPECT_EQ(to_toml(pipeline_from_toml(to_toml(spec), "b.toml")), to_toml(spec));
  }
  for (const char* wrong : {"hidden = 1", "label_depth = -1", "label_depth = \"first\""})
    EXPECT_THROW(pipeline_from_toml(
                     std::string("[source]\nkind = \"images\"\npath = \"p\"\n") + wrong, "c.toml"),
                 UsageError)
        << wrong;
}

TEST(PipelineToml, KeepsAndDropsByAListOrOneText) {
  const PipelineSpec spec = pipeline_from_toml(
      "[source]\nkind = \"images\"\npath = \"photos\"\n"
      "[[stages]]\nkind = \"keep\"\ncomponents = [\"label\", \"image\"]\n"
      "[[stages]]\nkind = \"drop\"\ncomponents = \"label\"\n",
      "a.toml");
  EXPECT_EQ(spec.stages[0].get("components", List()), (List{"label", "image"}));
  EXPECT_EQ(spec.stages[1].get("components", List()), (List{"label"}));
  EXPECT_EQ(to_toml(pipeline_from_toml(to_toml(spec), "b.toml")), to_toml(spec));
  EXPECT_THROW(pipeline_from_toml("[source]\nkind = \"images\"\npath = \"p\"\n"
                                  "[[stages]]\nkind = \"keep\"\ncomponents = []\n",
                                  "c.toml"),
               UsageError);
}

TEST(PipelineToml, ReadsEveryPart) {
  const PipelineSpec spec = pipeline_from_toml(kWhole, "a.toml");
  ASSERT_TRUE(spec.source);
  EXPECT_EQ(spec.source->kind().name, "tar");
  EXPECT_EQ(spec.source->get("paths", List()), (List{"a-*.tar", "b.tar"}));
  ASSERT_EQ(spec.stages.size(), 4U);
  EXPECT_EQ(spec.stages[0].get("buffer", std::int64_t{0}), 1000);
  EXPECT_EQ(spec.stages[1].get("size", Extent()), (Extent{224, 0}));
  EXPECT_EQ(spec.stages[1].get("min_scale", 0.0), 0.25);
  EXPECT_EQ(spec.stages[2].get("size", Extent()), (Extent{100, 200}));
  EXPECT_TRUE(spec.stages[3].get("drop_remainder", false));
  EXPECT_EQ(spec.run.get("memory", std::int64_t{0}), 96LL << 20);
  EXPECT_EQ(spec.run.get("max_errors", std::string()), "1%");
}

TEST(PipelineToml, WritesWhatItReads) {
  const std::string once = to_toml(pipeline_from_toml(kWhole, "a.toml"));
  EXPECT_EQ(to_toml(pipeline_from_toml(once, "b.toml")), once);
  EXPECT_THAT(once, HasSubstr("memory = \"96MiB\""));
  EXPECT_THAT(once, HasSubstr("size = \"100x200\""));
}

TEST(PipelineToml, WritesAnyTextBack) {
  PipelineSpec spec;
  spec.source.emplace(*find_kind(source_kinds(), "images"));
  const std::string path = "q\"b\\s\tt\nu\x01\x7f☂";
  spec.source->set("path", path);
  const PipelineSpec again = pipeline_from_toml(to_toml(spec), "x");
  EXPECT_EQ(again.source->get("path", std::string()), path);
}

TEST(PipelineToml, RefusesWithTheAddress) {
  const struct {
    const char* text;
    const char* what;
    const char* where;
  } kCases[] = {
      {"", "no table [source]", "(p.toml)"},
      {"x = ", "", "p.toml:1 column"},
      {"[= 1", "", "p.toml"},
      {"x = 1\n\xc3\xa9 = 2", "", "p.toml:2 column 1"},
      {"x\xef\xbb\xaf = 1", "", "p.toml:1 column 2"},
      {"x = \"\xc3\xa9\\\"\" # \xc3\xa9\n\xc3", "not UTF-8", "p.toml byte 16"},
      {"x = 'a\n\xc3", "not UTF-8", "p.toml byte 7"},
      {"x = 'a\xc3\xa9' \xc3\xa9", "", "p.toml:1 column 10"},
      {"kin=-=-2a.*.*:u00e9\\\"res\xc9\x9a", "", "p.toml:1"},
      {"x = 1", "unknown key \"x\"", "(p.toml:1 x)"},
      {"sorce = 1", "did you mean source?", "sorce"},
      {"source = 1", "expected a table, got an integer", "(p.toml:1 source)"},
      {"[source]", "needs a kind", "(p.toml:1 source)"},
      {"[source]\nkind = 3", "expected a string, got an integer", "(p.toml:2 source.kind)"},
      {"[source]\nkind = 'tra'", "did you mean tar?", "(p.toml:2 source.kind)"},
      {"[source]\nkind = 'tar'", "needs paths", "(p.toml:1 source)"},
      {"[source]\nkind = 'tar'\npaths = []", "must not be empty", "(p.toml:3 source.paths)"},
      {"[source]\nkind = 'tar'\npaths = ['a', 1]", "expected a string, got an integer",
       "(p.toml:3 source.paths[1])"},
      {"[source]\nkind = 'tar'\npaths = ['']", "empty string", "(p.toml:3 source.paths)"},
      {"[source]\nkind = 'tar'\npaths = [\"a\\u0000b\"]", "zero byte", "source.paths)"},
      {"[source]\nkind = 'tar'\nkind = 'tar'", "", "p.toml:3 column"},
      {"[source]\nkind = 'range'\nstop = 1e999", "", "p.toml:3"},
      {"[source]\nkind = 'range'\nstop = nan", "expected an integer, got a number", "source.stop"},
      {"[source]\nkind = 'range'\nstop = 9223372036854775808", "", "p.toml:3"},
      {"[source]\nkind = 'range'\nstop = 3\npaths = 'x'", "has no parameter \"paths\"",
       "(p.toml:4 source.paths)"},
      {"stages = 3\n[source]\nkind = 'range'\nstop = 3", "expected an array of tables, got",
       "(p.toml:1 stages)"},
      {"stages = [3]\n[source]\nkind = 'range'\nstop = 3", "expected a table, got an integer",
       "(p.toml:1 stages[0])"},
  };
  for (const auto& c : kCases) {
    try {
      pipeline_from_toml(c.text, "p.toml");
      ADD_FAILURE() << "accepted: " << c.text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.what)) << c.text;
      EXPECT_THAT(error.what(), HasSubstr(c.where)) << c.text;
    }
  }
  test::figure("F31", "%zu malformed pipelines: one message each, with the path to the field",
               std::size(kCases));
}

TEST(PipelineToml, ChecksTheRangeOfEveryField) {
  const struct {
    const char* stage;
    const char* what;
    const char* where;
  } kCases[] = {
      {"kind = 'batch'\nsize = 0", "size must be at least 1, got 0", "stages[0].size"},
      {"kind = 'batch'\nsize = 1.5", "expected an integer, got a number", "stages[0].size"},
      {"kind = 'batch'\nsize = 2000000000", "size must be at most 1000000000", "stages[0].size"},
      {"kind = 'batch'\nsize = true", "expected an integer, got a boolean", "stages[0].size"},
      {"kind = 'resize'\nsize = '0x5'", "expected a size", "stages[0].size"},
      {"kind = 'resize'\nsize = -3", "expected a size", "stages[0].size"},
      {"kind = 'resize'\nsize = 1979-05-27", "got a date or time", "stages[0].size"},
      {"kind = 'flip'\nprobability = 1.5", "probability must be at most 1, got 1.5",
       "stages[0].probability"},
      {"kind = 'flip'\nprobability = inf", "finite", "stages[0].probability"},
      {"kind = 'flip'\nprobability = nan", "finite", "stages[0].probability"},
      {"kind = 'normalize'\ndtype = 'u8'", "must be one of f32, f16, bf16", "stages[0].dtype"},
      {"kind = 'shard'\ncount = 4", "needs index", "stages[0]"},
      {"kind = 'identity'\nx = 1", "it takes none", "stages[0].x"},
  };
  for (const auto& c : kCases) {
    const std::string text =
        std::string("[source]\nkind = 'range'\nstop = 9\n[[stages]]\n") + c.stage;
    try {
      pipeline_from_toml(text, "p.toml");
      ADD_FAILURE() << "accepted: " << c.stage;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.what)) << c.stage;
      EXPECT_THAT(error.what(), HasSubstr(c.where)) << c.stage;
    }
  }
}

TEST(PipelineToml, TakesDeepNestingAsAnError) {
  const std::string text = "x = " + std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THROW(pipeline_from_toml(text, "p.toml"), UsageError);
}

TEST(PipelineToml, NeverCrashesOnACutText) {
  const std::string whole = kWhole;
  for (std::size_t n = 0; n <= whole.size(); ++n) {
    try {
      pipeline_from_toml(whole.substr(0, n), "p.toml");
    } catch (const UsageError& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
}

TEST(PipelineToml, IsDocumentedInFull) {
  std::ifstream file(test::source_dir() + "/docs/pipeline-toml.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = page.find("```toml\n");
  ASSERT_NE(begin, page.npos);
  const std::size_t end = page.find("```", begin + 8);
  const PipelineSpec spec = pipeline_from_toml(page.substr(begin + 8, end - begin - 8), "page");
  EXPECT_EQ(spec.stages.size(), 5U);
  for (const Parameter& parameter : run_kind().parameters)
    EXPECT_THAT(page, HasSubstr("`" + parameter.name + "`"));
  const std::size_t text = page.find("```text\n");
  ASSERT_NE(text, page.npos);
  const std::string excerpt = page.substr(text + 8, page.find("```", text + 8) - text - 8);
  EXPECT_THAT(kinds_text(), HasSubstr("\n" + excerpt));
}

TEST(Kinds, AreToldInFull) {
  const std::string text = kinds_text();
  std::vector<Kind> kinds = source_kinds();
  kinds.insert(kinds.end(), stage_kinds().begin(), stage_kinds().end());
  for (const Kind& kind : kinds) {
    const std::size_t begin = text.find("\n" + kind.name + ": ");
    ASSERT_NE(begin, text.npos) << kind.name;
    const std::string told = text.substr(begin, text.find("\n\n", begin) - begin);
    EXPECT_FALSE(kind.help.empty()) << kind.name;
    for (const Parameter& parameter : kind.parameters) {
      EXPECT_THAT(told, HasSubstr("\n  " + parameter.name)) << kind.name;
      EXPECT_FALSE(parameter.help.empty()) << kind.name << "." << parameter.name;
      for (const std::string& choice : parameter.choices) EXPECT_THAT(told, HasSubstr(choice));
    }
  }
}

TEST(LoadPipeline, NamesAFileItCannotRead) {
  test::expect_error(ErrorCode::not_found,
                     "can't read the pipeline: No such file or directory (no/such.toml)",
                     [] { load_pipeline("no/such.toml"); });
  test::expect_error(ErrorCode::not_found, "can't read the pipeline: Is a directory (/)",
                     [] { load_pipeline("/"); });
}

}  // namespace
}  // namespace penstock::tool
