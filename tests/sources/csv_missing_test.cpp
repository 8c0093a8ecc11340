// CSV: missing values.
#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/memory_files.h"
#include "tests/support/records.h"

namespace penstock {
namespace csv_missing_test {

using test::memory_files;
using test::read_source;
using test::texts_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> first_column(const std::string& text, CsvOptions options) {
  options.files = memory_files({text});
  return texts_of(read_source(*make_csv_source({"0"}, options)));
}

TEST(CsvMissing, ValuesOfTexts) {
  CsvOptions options;
  options.columns = {{.name = "s", .default_value = "none"}};
  options.na_values = {"NA", "?", "not known", "say \"no\""};
  EXPECT_THAT(
      first_column("s,t\nNA,1\n\"NA\",2\n?,3\nna,4\nNAN,5\n,6\nnot known,7\n NA,8\n", options),
      ElementsAre("none", "none", "none", "na", "NAN", "none", "none", " NA"));
  EXPECT_THAT(first_column("s,t\n\"say \"\"no\"\"\",1\n\"say \"\"yes\"\"\",2\n?,3\r\r\n", options),
              ElementsAre("none", "say \"yes\"", "none"));
  options.columns[0].default_value.reset();
  EXPECT_THAT(first_column("s,t\nNA,1\nx,2\n", options), ElementsAre("", "x"));
  options.columns.clear();
  EXPECT_THAT(first_column("s\nNA\nx\n?\n", options), ElementsAre("", "x", ""));
  options.na_values.clear();
  EXPECT_THAT(first_column("s\nNA\nx\n?\n", options), ElementsAre("NA", "x", "?"));
}

TEST(CsvMissing, ValuesOfNumbers) {
  CsvOptions options;
  options.columns = {{.name = "i", .dtype = DType::i64, .default_value = "-1"}};
  options.na_values = {"NA", "-999", "n/a"};
  for (const char* end : {"\n", "\r\n", "\r\r\n"})
    EXPECT_THAT(first_column(std::string("i") + end + "5" + end + "NA" + end + " NA " + end +
                                 "-999" + end + "999" + end + "\"n/a\"" + end,
                             options),
                ElementsAre("5", "-1", "-1", "-1", "999", "-1"));
  options.columns[0].default_value.reset();
  EXPECT_THAT(first_column("i\n5\nNA\n-999\n", options),
              ElementsAre("5", "!data_loss", "!data_loss"));
  // A text that is no missing value stays an error.
  options.columns[0].default_value = "0";
  EXPECT_THAT(first_column("i\nN/A\nNA,\n", options), ElementsAre("!data_loss", "!data_loss"));
}

TEST(CsvMissing, ValuesThatAreNoNumber) {
  CsvOptions options;
  options.header = false;
  options.columns = {{.name = "a", .dtype = DType::f32, .default_value = "nan"},
                     {.name = "b", .dtype = DType::f64, .default_value = "-inf"}};
  options.na_values = {"null"};
  options.files = memory_files({"null,null\n1.5,2.5\n"});
  const SourcePtr source = make_csv_source({"0"}, options);
  std::vector<ReadItem> items(2);
  items[1].index = 1;
  test::HeapContext context;
  source->read(items, context);
  EXPECT_TRUE(std::isnan(items[0].element["a"].item<float>()));
  EXPECT_EQ(items[0].element["b"].item<double>(), -INFINITY);
  EXPECT_EQ(items[1].element["a"].item<float>(), 1.5F);
}

TEST(CsvMissing, RemedyInErrors) {
  CsvOptions options;
  options.columns = {{.name = "size", .dtype = DType::i64}};
  options.na_values = {"?"};
  options.files = memory_files({"size,x\n?,1\n,2\n"});
  const auto outcomes = read_source(*make_csv_source({"0"}, options));
  EXPECT_THAT(outcomes[0].error->cause(),
              AllOf(HasSubstr("column 'size': '?' means a missing value"),
                    HasSubstr("size:i64=0 gives it one")));
  EXPECT_THAT(outcomes[1].error->cause(),
              AllOf(HasSubstr("column 'size': the field is empty and has no default"),
                    HasSubstr("size:i64=0 gives it one")));
}

TEST(CsvMissing, ValuesInTheFingerprint) {
  const auto description_of = [](const std::vector<std::string>& values) {
    CsvOptions options;
    options.files = memory_files({"s\n1\n"});
    options.na_values = values;
    Description description;
    make_csv_source({"0"}, options)->describe(description);
    return description.to_string();
  };
  EXPECT_NE(description_of({"NA"}), description_of({}));
  EXPECT_NE(description_of({"NA"}), description_of({"?"}));
  EXPECT_EQ(description_of({"NA", "?"}), description_of({"?", "NA", "?"}));
}

}  // namespace csv_missing_test
}  // namespace penstock
