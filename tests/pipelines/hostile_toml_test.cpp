// Texts that anybody may send to an input worker or give to the C interface: an error, and soon.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/c.h>

#include "pipelines/pipeline_spec.h"
#include "pipelines/toml.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

using testing::HasSubstr;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string refusal(const std::string& toml) {
  try {
    pipeline_from_toml(toml, "p.toml");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

// Each part of a dotted key is a table within the last. Their destruction needs a stack as deep.
TEST(HostileToml, KeysOfManyParts) {
  const std::string dots = repeated(".a", 100'000);
  const std::string quoted = repeated(".\"a\"", 100'000);
  for (const std::string& text :
       {"a" + dots + " = 1\n", "[a" + dots + "]\n", "[[a" + dots + "]]\n",
        "\"a\"" + quoted + " = 1", "a" + repeated(" . 'a'", 100'000) + " = 1",
        "x = {a" + dots + " = 1}\n", "x = 'it''s' # \"\n[a" + dots + "]\n",
        "x = {k = \"\"\"a\"\"\"\"\", a" + dots + " = 1}\n",
        "x = {k = \'\'\'a\'\'\'\'\', a" + dots + " = 1}\n",
        "x = {k = \"\\\"\", a" + dots + " = 1}\n", "x = [{a" + dots + " = 1}]\n",
        "x = \"\"\"\n\"\"\"\n a" + dots + " = 1\n"})
    EXPECT_THAT(refusal(text), HasSubstr("more than 100 dots")) << text.substr(0, 40);
}

TEST(HostileToml, DotsElsewhere) {
  const std::string dots(1000, '.');
  const std::string texts = "x = \"" + dots + "\"\ny = '" + dots + "' # " + dots + "\nz = \"\"\"" +
                            dots + "\n\"\"" + dots + "\"\"\"\nw = [" + repeated("1.5, ", 1000) +
                            "]\na.b.c = 1.25\n[d.e]\nf = \"\\\\\"\n";
  const toml::table table = parse_toml(texts, "t.toml");
  EXPECT_EQ(table["x"].value<std::string>(), dots);
  EXPECT_EQ(table["a"]["b"]["c"].value<double>(), 1.25);
  EXPECT_EQ(table["d"]["e"]["f"].value<std::string>(), "\\");
}

TEST(HostileToml, NestedArraysAndTables) {
  EXPECT_THAT(refusal("x = " + std::string(500'000, '[')), HasSubstr("p.toml:1"));
  EXPECT_THAT(refusal("x = " + repeated("{a = ", 100'000)), HasSubstr("p.toml:1"));
}

TEST(HostileToml, TextsOfMoreThanAMebibyte) {
  const std::string large = "# " + std::string(1 << 20, 'x');
  EXPECT_THAT(refusal(large), HasSubstr("at most 1 MiB"));
  penstock_pipeline* pipeline = nullptr;
  EXPECT_NE(penstock_pipeline_parse(large.data(), large.size(), "p", &pipeline), PENSTOCK_OK);
  EXPECT_EQ(pipeline, nullptr);
  EXPECT_THAT(penstock_error(), HasSubstr("at most 1 MiB"));
}

}  // namespace
}  // namespace penstock::tool
