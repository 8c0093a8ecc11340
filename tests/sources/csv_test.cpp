// CSV: fields, records, numbers, and files that are refused.
#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <limits>

#include "pipeline/sources/csv_format.h"
#include "tests/support/errors.h"
#include "tests/support/memory_files.h"
#include "tests/support/records.h"

namespace penstock {
namespace csv_test {

using test::expect_error;
using test::memory_files;
using test::read_source;
using test::ReadOutcome;
using test::texts_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CsvOptions csv_options(const std::vector<std::string>& contents) {
  CsvOptions options;
  options.files = memory_files(contents);
  return options;
}

std::vector<ReadOutcome> rows_of(const std::string& text, CsvOptions options = {}) {
  options.files = memory_files({text});
  return read_source(*make_csv_source({"0"}, options));
}

TEST(Csv, QuotingByRfc4180) {
  struct Case {
    std::string text;
    std::vector<std::vector<std::string>> rows;
  };
  const Case cases[] = {
      {"a,b\n1,2\n", {{"1", "2"}}},
      {"a,b\r\n1,2\r\n3,4", {{"1", "2"}, {"3", "4"}}},
      {"a,b\n\"x, y\",\"line\nbreak\"\n", {{"x, y", "line\nbreak"}}},
      {"a,b\n\"say \"\"hi\"\"\",\"\"\"\"\n", {{"say \"hi\"", "\""}}},
      {"a,b\n,\n", {{"", ""}}},
      {"a,b\n\"\",\"a\r\nb\"\r\n", {{"", "a\r\nb"}}},
      {"a,b\n x , y\n", {{" x ", " y"}}},
      {"\xef\xbb\xbf"
       "a,b\n1,2\n",
       {{"1", "2"}}},
      {"\"a\",\"b\"\n1,2\n", {{"1", "2"}}},
      {"a,b\n1,c\rd\n", {{"1", "c\rd"}}},
      {"a,b\n", {}},
      {"a,b", {}},
      {"a\n1\n\n3\n", {{"1"}, {""}, {"3"}}},
  };
  for (const Case& c : cases) {
    std::vector<std::vector<std::string>> rows;
    for (const ReadOutcome& outcome : rows_of(c.text)) {
      ASSERT_FALSE(outcome.error) << c.text << outcome.error->what();
      rows.push_back(outcome.values);
    }
    EXPECT_EQ(rows, c.rows) << c.text;
  }
}

TEST(Csv, BadRecords) {
  const std::vector<ReadOutcome> outcomes =
      rows_of("a,b\n1,2\n1\n1,2,3\nx\"y,2\n\"x\"y,2\n\n3,4\n\"open,5\n6,7\n");
  // The blank line is no record.
  EXPECT_THAT(texts_of(outcomes), ElementsAre("1", "!data_loss", "!data_loss", "!data_loss",
                                              "!data_loss", "3", "!data_loss"));
  EXPECT_THAT(outcomes[1].error->cause(), HasSubstr("1 fields, not 2"));
  EXPECT_THAT(outcomes[2].error->cause(), HasSubstr("3 fields, not 2"));
  EXPECT_THAT(outcomes[3].error->cause(), HasSubstr("within an unquoted field"));
  EXPECT_THAT(outcomes[4].error->cause(), HasSubstr("behind a closing quote"));
  EXPECT_THAT(outcomes[6].error->cause(), HasSubstr("never closed"));
}

TEST(Csv, TypesAndDefaults) {
  CsvOptions options;
  options.columns = {{.name = "f", .dtype = DType::f32, .default_value = "0.5"},
                     {.name = "n", .dtype = DType::i64, .default_value = {}},
                     {.name = "s", .dtype = DType::bytes, .default_value = "none"}};
  options.files = memory_files(
      {"n,unused,s,f\n1,x,word,2.25\n+2,\"a\nb\",,\n,x,w,1\n 3 ,x,w,nan\n1.5,x,w,1\n"});
  const SourcePtr source = make_csv_source({"0"}, options);
  EXPECT_EQ(source->spec().to_string(), "{f: f32 [], n: i64 [], s: bytes []}");
  std::vector<ReadItem> items(5);
  for (std::size_t i = 0; i < 5; ++i) items[i].index = i;
  test::HeapContext context;
  source->read(items, context);
  EXPECT_EQ(items[0].element["f"].item<float>(), 2.25F);
  EXPECT_EQ(items[0].element["s"].bytes_at(), "word");
  EXPECT_EQ(items[1].element["f"].item<float>(), 0.5F);
  EXPECT_EQ(items[1].element["n"].item<std::int64_t>(), 2);
  EXPECT_EQ(items[1].element["s"].bytes_at(), "none");
  EXPECT_THAT(items[2].status.error().cause(), HasSubstr("column 'n': the field is empty"));
  EXPECT_EQ(items[3].element["n"].item<std::int64_t>(), 3);
  EXPECT_TRUE(std::isnan(items[3].element["f"].item<float>()));
  EXPECT_THAT(items[4].status.error().cause(), HasSubstr("column 'n': '1.5' is not a valid i64"));
}

TEST(Csv, AFirstColumnWithoutAName) {
  for (const char* text : {",x,y\n0,1.5,a\n1,2.5,b\n", "\"\",\"x\",\"y\"\n0,1.5,a\n1,2.5,b\n",
                           "\xef\xbb\xbf,x,y\r\n0,1.5,a\r\n1,2.5,b\r\n\r\n"}) {
    const SourcePtr source = make_csv_source({"0"}, csv_options({text}));
    EXPECT_EQ(source->spec().to_string(), "{c0: bytes [], x: bytes [], y: bytes []}") << text;
    EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("0", "1"));
  }
  CsvOptions options = csv_options({",x\n7,1.5\n", ",x\n8,2.5\n"});
  options.columns = {{.name = "x"}, {.name = "c0", .dtype = DType::i64}};
  EXPECT_EQ(make_csv_source({"0", "1"}, options)->spec().to_string(), "{x: bytes [], c0: i64 []}");
}

TEST(Csv, ColumnsWithoutANameOfTheirOwn) {
  for (const char* text : {"a,\n1,2\n", "a,,b\n1,2,3\n", "a,a\n1,2\n", "\"\",c0\n1,2\n",
                           "\"\"\n1\n", "x,y,x\n1,2,3\n"})
    expect_error(ErrorCode::invalid_argument, "--columns",
                 [&] { make_csv_source({"0"}, csv_options({text})); });
  CsvOptions options;
  options.columns = {{.name = "b"}};
  EXPECT_THAT(texts_of(rows_of("a,,b,a\n1,2,3,4\n", options)), ElementsAre("3"));
}

TEST(Csv, OtherEncodings) {
  const auto wide = [](std::string_view text, bool big) {
    std::string bytes;
    for (const char c : text) {
      if (big) bytes += '\0';
      bytes += c;
      if (!big) bytes += '\0';
    }
    return bytes;
  };
  for (const std::string& text :
       {"\xff\xfe" + wide("id,name\n1,Ana\n", false), "\xfe\xff" + wide("id,name\n1,Ana\n", true),
        "\xff\xfe" + wide("id\r\n1\r\n", false), wide("id,name\n1,Ana\n", false),
        wide("id,name\n1,Ana\n", true)}) {
    for (const bool header : {true, false}) {
      CsvOptions options = csv_options({text});
      options.header = header;
      expect_error(ErrorCode::data_loss, "UTF-16", [&] { make_csv_source({"0"}, options); });
    }
    FileOptions lines;
    lines.files = memory_files({text});
    expect_error(ErrorCode::data_loss, "iconv", [&] { make_text_lines_source({"0"}, lines); });
  }
}

TEST(Csv, OversizedFirstRecord) {
  constexpr std::size_t kMost = TextRecords::kLongestFirst;
  const auto of_size = [](std::size_t size) { return "a," + std::string(size - 3, 'b') + "\n"; };
  for (const bool header : {true, false}) {
    CsvOptions options;
    options.header = header;
    for (const std::size_t size : {kMost - 1, kMost})
      EXPECT_EQ(rows_of(of_size(size) + "1,2\n", options).size(), header ? 1U : 2U) << size;
    for (const std::size_t size : {kMost + 1, kMost + 2, 3 * kMost}) {
      for (const char* rest : {"", "1,2\n"}) {
        options.files = memory_files({of_size(size) + rest});
        expect_error(ErrorCode::invalid_argument, "longer than 1 MiB",
                     [&] { make_csv_source({"0"}, options); });
      }
    }
  }
}

TEST(Csv, WithoutAHeader) {
  CsvOptions options;
  options.header = false;
  options.delimiter = '\t';
  const std::vector<ReadOutcome> outcomes = rows_of("1\t2\n3\t4\n", options);
  EXPECT_THAT(outcomes[1].values, ElementsAre("3", "4"));
  options.files = memory_files({"1\t2\n"});
  EXPECT_EQ(make_csv_source({"0"}, options)->spec().to_string(), "{c0: bytes [], c1: bytes []}");
  options.columns = {{.name = "x", .dtype = DType::i64, .default_value = {}}};
  EXPECT_EQ(make_csv_source({"0"}, options)->spec().to_string(), "{x: i64 []}");
  options.columns.resize(3, options.columns[0]);
  expect_error(ErrorCode::invalid_argument, "records have 2",
               [&] { make_csv_source({"0"}, options); });
}

TEST(Csv, SeveralFiles) {
  EXPECT_THAT(texts_of(read_source(
                  *make_csv_source({"0", "1"}, csv_options({"a,b\n1,2\n", "a,b\r\n3,4\r\n"})))),
              ElementsAre("1", "3"));
  expect_error(ErrorCode::invalid_argument, "differs", [] {
    make_csv_source({"0", "1"}, csv_options({"a,b\n1,2\n", "a,c\n3,4\n"}));
  });
  expect_error(ErrorCode::invalid_argument, "no header", [] {
    make_csv_source({"0", "1"}, csv_options({"a,b\n1,2\n", ""}));
  });
}

TEST(Csv, Rejects) {
  const auto make = [](const std::string& text, const CsvOptions::Column& column) {
    CsvOptions options = csv_options({text});
    options.columns = {column};
    make_csv_source({"0"}, options);
  };
  expect_error(ErrorCode::invalid_argument, "no column 'x'",
               [&] { make("a,b\n", {.name = "x", .default_value = {}}); });
  expect_error(ErrorCode::invalid_argument, "two columns are named 'a'",
               [&] { make("a,a\n", {.name = "a", .default_value = {}}); });
  expect_error(ErrorCode::invalid_argument, "not u8",
               [&] { make("a\n", {.name = "a", .dtype = DType::u8, .default_value = {}}); });
  expect_error(ErrorCode::invalid_argument, "'ten' is not a valid i64",
               [&] { make("a\n", {.name = "a", .dtype = DType::i64, .default_value = "ten"}); });
  expect_error(ErrorCode::invalid_argument, "never closed",
               [&] { make("\"a\n", {.name = "a", .default_value = {}}); });
  expect_error(ErrorCode::invalid_argument, "empty",
               [] { make_csv_source({"0"}, csv_options({""})); });
  CsvOptions options = csv_options({"a\n"});
  options.delimiter = '"';
  expect_error(ErrorCode::invalid_argument, "delimit", [&] { make_csv_source({"0"}, options); });
}

TEST(Csv, ManyColumns) {
  constexpr int kColumns = 160'000;
  std::string header, record;
  for (int i = 0; i < kColumns; ++i) {
    header += (i > 0 ? "," : "") + std::to_string(i);
    record += i > 0 ? ",7" : "7";
  }
  const std::clock_t start = std::clock();
  const SourcePtr source = make_csv_source({"0"}, csv_options({header + "\n" + record + "\n"}));
  EXPECT_EQ(source->spec().size(), kColumns);
  // By the square of their number it takes half a minute. Other processes' time does not count.
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 10);
}

TEST(Csv, Numbers) {
  EXPECT_EQ(parse_number("-9223372036854775808", DType::i64).item<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(parse_number("1e-400", DType::f64).item<double>(), 0);
  EXPECT_EQ(parse_number("-1e-60", DType::f32).item<float>(), 0);
  EXPECT_EQ(parse_number("0.1", DType::f64).item<double>(), 0.1);
  for (const char* text : {"9223372036854775808", "", " ", "+", "-", "+-1", "1 2", "0x10", "1,5"}) {
    EXPECT_TRUE(test::thrown_by([&] { parse_number(text, DType::i64); })) << text;
  }
  for (const char* text : {"1e999", "-1e999", "1.2.3", "e5", "1f"}) {
    EXPECT_TRUE(test::thrown_by([&] { parse_number(text, DType::f64); })) << text;
  }
  for (const char* text :
       {"1e39", "-1e39", "1e400", "1e99999999999999999999", "12345e9223372036854775807"})
    EXPECT_TRUE(test::thrown_by([&] { parse_number(text, DType::f32); })) << text;
}

TEST(Csv, NumbersBelowTheRange) {
  for (const char* text :
       {"1e-40", "-1e-40", "1e-46", "1e-400", "-1e-400", "0.1e-399", "1e-5000", "123e-5000",
        "1e-99999999999999999999", "0.000001e-400", "1e-9223372036854775808", "+1e-400"}) {
    const float f32 = parse_number(text, DType::f32).item<float>();
    EXPECT_EQ(f32, 0) << text;
    EXPECT_EQ(std::signbit(f32), text[0] == '-') << text;
  }
  for (const char* text : {"1e-400", "-1e-400", "1e-5000", "1e-99999999999999999999"})
    EXPECT_EQ(parse_number(text, DType::f64).item<double>(), 0) << text;
  EXPECT_EQ(parse_number("1.17549435e-38", DType::f32).item<float>(),
            std::numeric_limits<float>::min());
  EXPECT_EQ(parse_number("1e-310", DType::f64).item<double>(), 1e-310);
}

// What a scan in parts calls a record must be what splitting calls one, wherever the parts end.
TEST(Csv, ScansInAnyParts) {
  const std::string alphabet = "ab,\"\"\n\r";
  std::uint64_t seed = 1;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      text += alphabet[(seed >> 33) % alphabet.size()];
    }
    const auto ends = [&](std::size_t part) {
      const auto scanner = make_csv_scanner(',');
      std::vector<std::size_t> found;
      for (std::size_t from = 0; from < text.size(); from += part) {
        const std::string_view piece = std::string_view(text).substr(from, part);
        for (std::size_t at = 0; (at = scanner->next_end(piece, at)) != piece.npos;) {
          found.push_back(from + at);
          if (at == piece.size()) break;
        }
      }
      return found;
    };
    const std::vector<std::size_t> whole = ends(text.size());
    for (const std::size_t part : {1U, 2U, 3U, 5U, 11U}) {
      ASSERT_EQ(ends(part), whole) << testing::PrintToString(text) << " in parts of " << part;
    }
    std::size_t begin = 0;
    std::vector<CsvField> fields;
    for (const std::size_t end : whole) {
      const std::string_view record =
          without_end(std::string_view(text).substr(begin, end - begin));
      EXPECT_NE(split_csv(record, ',', fields), "a quote that is never closed") << text;
      begin = end;
    }
  }
}

TEST(Csv, TruncationAtEveryByte) {
  const std::string whole = "a,b\n1,\"x\ny\"\n2,\"say \"\"hi\"\"\"\n3,z\n";
  for (std::size_t cut = 1; cut <= whole.size(); ++cut) {
    CsvOptions options = csv_options({whole.substr(0, cut)});
    if (cut == 2) {
      expect_error(ErrorCode::invalid_argument, "column 1 has no name; list the columns",
                   [&] { make_csv_source({"0"}, options); });
      continue;
    }
    const SourcePtr source = make_csv_source({"0"}, options);
    const std::vector<ReadOutcome> outcomes = read_source(*source);
    EXPECT_LE(outcomes.size(), 3U);
    for (std::size_t i = 0; i + 1 < outcomes.size(); ++i) EXPECT_FALSE(outcomes[i].error);
  }
}

}  // namespace csv_test
}  // namespace penstock
