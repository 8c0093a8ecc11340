// The example of docs/feature-columns.md, and what the reader makes of it.
#include <penstock/towers/model.h>

#include "tools/penstock/run/columns_file.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"
#include "tests/support/places.h"

namespace penstock::tool {
namespace {

TEST(ColumnsFile, OfTheDocumentationIsAModel) {
  const std::string page =
      penstock::test::read_file(penstock::test::source_dir() + "/docs/feature-columns.md");
  const std::string fence = "```toml\n";
  const std::size_t begin = page.find(fence) + fence.size();
  const std::string text = page.substr(begin, page.find("```", begin) - begin);
  const towers::ColumnModel model = columns_from_toml(text, "page.toml");
  EXPECT_EQ(model.part("wide").size(), 3U);
  EXPECT_EQ(model.part("deep").size(), 3U);
  EXPECT_EQ(model.label->key, "clicked");
  EXPECT_EQ(model.hidden, (std::vector<std::int64_t>{64, 32}));
  std::string keys;
  for (const FeatureSpec& feature : model.features()) keys += feature.key + " ";
  EXPECT_EQ(keys, "age job tags clicked ");
  EXPECT_EQ(model.part("wide")[2]->name, "age_bucketized_X_job");
  EXPECT_NO_THROW(static_cast<void>(towers::model_kind("wide_deep").over(model)));
}

TEST(ColumnsFile, ListsTextsThatMeanMissing) {
  const std::string rest =
      "[columns.age]\nkind = \"numeric\"\ndefault = 40.0\n[model]\ndeep = [\"age\"]\n";
  penstock::test::TempFolder folder;
  const std::string columns = folder.write("c.toml", "na_values = [\"NA\", \"?\"]\n" + rest);
  const ColumnsFile file = read_columns_file(columns);
  EXPECT_EQ(file.na_values, (std::vector<std::string>{"NA", "?"}));
  const std::string table = folder.write("t.csv", "age\r\r\n30\r\r\nNA\r\r\n?\r\r\n");
  TrainDataOptions options;
  options.na_values = file.na_values;
  std::vector<float> ages;
  for (const Element& row : open_table(table, file.model, options).iterate())
    ages.push_back(row["age"].item<float>());
  EXPECT_EQ(ages, (std::vector<float>{30, 40, 40}));
}

}  // namespace
}  // namespace penstock::tool
