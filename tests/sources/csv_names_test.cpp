// CSV: columns that the header does not have.
#include <penstock/sources.h>

#include <gtest/gtest.h>

#include "pipeline/sources/near_name.h"
#include "tests/support/errors.h"
#include "tests/support/memory_files.h"

namespace penstock {
namespace csv_names_test {

using test::expect_error;
using test::memory_files;

TEST(CsvNames, ColumnsWithANearName) {
  const struct {
    const char* header;
    const char* wanted;
    const char* named;
  } kCases[] = {
      {"id, value", "value", "the header has ' value', which differs in blanks"},
      {"id,value ,x", "value", "'value ', which differs in blanks"},
      {"id,my  value", "my value", "'my  value', which differs in blanks"},
      {"id,\xc2\xa0value", "value", "which differs in blanks"},
      {"id,value", " value", "'value', which differs in blanks"},
      {"id,Value", "value", "'Value', which differs in case"},
      {"ID,x", "id", "'ID', which differs in case"},
      {"id,'value'", "value", "''value'', which differs in quotes"},
      {"id,\"\"\"value\"\"\"", "value", "'\"value\"', which differs in quotes"},
      {"id,value", "\"value\"", "'value', which differs in quotes"},
      {"\xef\xbb\xbf\xef\xbb\xbfid,x", "id", "which differs in byte order marks"},
      {"x,\xef\xbb\xbfid", "id", "which differs in byte order marks"},
      {"id,x", "\xef\xbb\xbfid", "'id', which differs in byte order marks"},
      {"id, Value", "value", "' Value', which differs in blanks and case"},
      {"id, 'VALUE'", "value", "which differs in blanks, case and quotes"},
      {"id, Value,Value", "value", "'Value', which differs in case"},
  };
  for (const auto& [header, wanted, named] : kCases) {
    CsvOptions options;
    options.files = memory_files({std::string(header) + "\r\r\n"});
    options.columns = {{.name = wanted}};
    expect_error(ErrorCode::invalid_argument, named, [&] { make_csv_source({"0"}, options); });
  }
}

TEST(CsvNames, ColumnsWithoutANearName) {
  CsvOptions options;
  options.files = memory_files({"a,b c,d\n1,2,3\n"});
  options.columns = {{.name = "e"}};
  expect_error(ErrorCode::invalid_argument, "no column 'e'; the header has 'a', 'b c', 'd'",
               [&] { make_csv_source({"0"}, options); });
  options.files = memory_files({"0,1,2,3,4,5,6,7,8,9,10,11\n"});
  expect_error(ErrorCode::invalid_argument, "'8', '9', …",
               [&] { make_csv_source({"0"}, options); });
  EXPECT_EQ(near_name("'", std::vector<std::string>{"\"", ""}), "");
}

}  // namespace csv_names_test
}  // namespace penstock
