// CSV: where lines end, and blank lines.
#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/memory_files.h"
#include "tests/support/records.h"

namespace penstock {
namespace csv_lines_test {

using test::expect_error;
using test::memory_files;
using test::read_source;
using test::ReadOutcome;
using test::texts_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

CsvOptions csv_options(const std::vector<std::string>& contents) {
  CsvOptions options;
  options.files = memory_files(contents);
  return options;
}

std::vector<ReadOutcome> rows_of(const std::string& text, CsvOptions options = {}) {
  options.files = memory_files({text});
  return read_source(*make_csv_source({"0"}, options));
}

TEST(CsvLines, BlankLine) {
  CsvOptions options;
  options.header = false;
  options.columns = {{.name = "x", .dtype = DType::i64, .default_value = "7"}};
  EXPECT_THAT(texts_of(rows_of("1\n\n3\n", options)), ElementsAre("1", "7", "3"));
  options.columns[0].default_value.reset();
  EXPECT_THAT(texts_of(rows_of("1\n\n3\n", options)), ElementsAre("1", "!data_loss", "3"));
}

TEST(CsvLines, BlankLinesOfSeveralColumns) {
  for (const char* text :
       {"a,b\n1,2\n\n3,4\n", "a,b\n1,2\n3,4\n\n", "a,b\r\n\r\n1,2\r\n3,4\r\n\r\n\r\n",
        "\n\na,b\n1,2\n3,4", "a,b\n1,2\n \t\n3,4\n  ", "\xef\xbb\xbf\na,b\n1,2\n\n3,4\n"})
    EXPECT_THAT(texts_of(rows_of(text)), ElementsAre("1", "3")) << text;
  CsvOptions options;
  options.header = false;
  for (const char* text : {"1,2\n\n3,4\n", "1,2\n3,4\n\n\n", "\n\n1,2\n3,4\n", "\r\n1,2\n \n3,4"})
    EXPECT_THAT(texts_of(rows_of(text, options)), ElementsAre("1", "3")) << text;
  options.delimiter = '\t';
  EXPECT_THAT(texts_of(rows_of("1\t2\n\t\n \n3\t4\n\n", options)), ElementsAre("1", "", "3"));
  // A quoted field is none, whatever is in it.
  EXPECT_THAT(texts_of(rows_of("a,b\n\"\n\n\",2\n\n\"\"\n")), ElementsAre("\n\n", "!data_loss"));
}

TEST(CsvLines, BlankLinesOfOneColumn) {
  EXPECT_THAT(texts_of(rows_of("a\n1\n\n3\n\n")), ElementsAre("1", "", "3"));
  EXPECT_THAT(texts_of(rows_of("a\n\n1\n\r\n\n")), ElementsAre("", "1"));
  EXPECT_THAT(texts_of(rows_of("\na\n1\n\n")), ElementsAre("1"));
  EXPECT_THAT(texts_of(rows_of("a\n1\n\"\"\n\n")), ElementsAre("1", ""));
  EXPECT_THAT(texts_of(rows_of("a\n\n\n")), IsEmpty());
  CsvOptions options;
  options.header = false;
  EXPECT_THAT(texts_of(rows_of("\n1\n\n", options)), ElementsAre("", "1"));
}

// The scan works in parts of 1 MiB. A blank line may be in two of them.
TEST(CsvLines, BlankLinesAcrossTheEdgesOfParts) {
  constexpr std::size_t kPart = 1 << 20;
  for (std::size_t size = kPart - 6; size < kPart + 2; ++size) {
    const std::string first = "a,b\n1," + std::string(size - 6, 'x');
    EXPECT_THAT(texts_of(rows_of(first + "\n \r\n\r\n2,y\n  ")), ElementsAre("1", "2")) << size;
  }
}

// Nothing but \r ends its lines: all of it would be a header, and there would be no record.
TEST(CsvLines, LinesThatEndInCarriageReturns) {
  for (const bool header : {true, false}) {
    for (const char* text : {"a,b\r1,2\r", "a,b\r1,2", "a\r1\r2\r", "\"a\",b\r1,2\r", "a,b\r"}) {
      CsvOptions options = csv_options({text});
      options.header = header;
      expect_error(ErrorCode::invalid_argument, "carriage returns",
                   [&] { make_csv_source({"0"}, options); });
    }
    CsvOptions quoted = csv_options({"\"a\rb\",c\r\n1,2\r\n"});
    quoted.header = header;
    EXPECT_EQ(make_csv_source({"0"}, quoted)->size(), header ? 1U : 2U);
  }
  CsvOptions text = csv_options({"x\ry,1\nz,2\n"});  // no header, and lines that end
  text.header = false;
  EXPECT_EQ(make_csv_source({"0"}, text)->size(), 2U);
}

// Python's csv module ends rows with \r\n, and a text file of Windows makes \r\n of each \n.
std::string with_ends(std::string text, const std::string& end) {
  for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos; at += end.size())
    text.replace(at, 1, end);
  return text;
}

TEST(CsvLines, CarriageReturnsInFrontOfAnEndOfLine) {
  for (const char* lf :
       {"a,b\n1,x\n2,y\n", "a,b\n\n1,x\n\n2,y\n\n", "\"a\",\"b\"\n1,\"x\"\n2,\"\"\n",
        "a\n1\n\n2\n\n", "\xef\xbb\xbf\na,b\n1,x\n2,y\n", "a,b\n1,x\n2,y"}) {
    for (const bool header : {true, false}) {
      CsvOptions options;
      options.header = header;
      std::vector<std::vector<std::string>> rows;
      for (const ReadOutcome& outcome : rows_of(lf, options)) rows.push_back(outcome.values);
      for (const char* end : {"\r\r\n", "\r\n", "\r\r\r\n"}) {
        const std::string text = with_ends(lf, end);
        std::vector<std::vector<std::string>> same;
        for (const ReadOutcome& outcome : rows_of(text, options)) {
          EXPECT_FALSE(outcome.error) << testing::PrintToString(text);
          same.push_back(outcome.values);
        }
        EXPECT_EQ(same, rows) << testing::PrintToString(text);
      }
    }
  }
}

TEST(CsvLines, CarriageReturnsOfMixedLines) {
  CsvOptions numbers;
  numbers.columns = {{.name = "b", .dtype = DType::i64}, {.name = "a"}};
  EXPECT_THAT(texts_of(rows_of("a,b\r\r\nx,1\ny,2\r\nz,3\r\r\n\r\r\nw,4", numbers)),
              ElementsAre("1", "2", "3", "4"));
  // Within quotes they are text.
  EXPECT_THAT(texts_of(rows_of("a,b\r\r\n\"x\r\r\ny\",1\r\r\n\"\r\",2\r\r\n")),
              ElementsAre("x\r\r\ny", "\r"));
  // A last line may be cut within its end.
  for (const char* end : {"", "\r", "\r\r", "\n"})
    EXPECT_THAT(rows_of("a,b\r\r\n1,x\r\r\n2,\"y\"" + std::string(end)).back().values,
                ElementsAre("2", "y"));
  // The headers of several files are compared without them.
  const SourcePtr both =
      make_csv_source({"0", "1"}, csv_options({"a,b\n1,2\n", "a,b\r\r\n3,4\r\r\n"}));
  EXPECT_THAT(texts_of(read_source(*both)), ElementsAre("1", "3"));
}

// The scan works in parts of 1 MiB. An end of three characters may be in two of them.
TEST(CsvLines, CarriageReturnsAcrossTheEdgesOfParts) {
  constexpr std::size_t kPart = 1 << 20;
  for (std::size_t size = kPart - 6; size < kPart + 2; ++size) {
    const std::string first = "1," + std::string(size - 9, 'x');
    const std::vector<ReadOutcome> rows = rows_of("a,b\r\r\n" + first + "\r\r\n\r\r\n2,y\r\r\n");
    EXPECT_THAT(texts_of(rows), ElementsAre("1", "2")) << size;
    EXPECT_EQ(rows[0].values[1], std::string(size - 9, 'x'));
    EXPECT_EQ(rows[1].values[1], "y");
  }
}

}  // namespace csv_lines_test
}  // namespace penstock
