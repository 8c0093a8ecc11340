// Text lines and CSV.
#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

#include "pipeline/io/memory.h"
#include "pipeline/sources/csv_format.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::expect_error;
using test::read_indices;
using test::read_source;
using test::ReadOutcome;
using test::texts_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::shared_ptr<MemoryFileSystem> memory(const std::vector<std::string>& contents) {
  auto files = std::make_shared<MemoryFileSystem>();
  for (std::size_t i = 0; i < contents.size(); ++i) files->add(std::to_string(i), contents[i]);
  return files;
}

Paths paths_of(std::size_t count) {
  Paths paths;
  for (std::size_t i = 0; i < count; ++i) paths.push_back(std::to_string(i));
  return paths;
}

std::vector<std::string> lines_of(const std::vector<std::string>& contents) {
  FileOptions options;
  options.files = memory(contents);
  return texts_of(read_source(*make_text_lines_source(paths_of(contents.size()), options)));
}

TEST(TextLines, Ends) {
  EXPECT_THAT(lines_of({""}), IsEmpty());
  EXPECT_THAT(lines_of({"\n"}), ElementsAre(""));
  EXPECT_THAT(lines_of({"\r\n"}), ElementsAre(""));
  EXPECT_THAT(lines_of({"a"}), ElementsAre("a"));
  EXPECT_THAT(lines_of({"a\n"}), ElementsAre("a"));
  EXPECT_THAT(lines_of({"a\n\nb\n"}), ElementsAre("a", "", "b"));
  EXPECT_THAT(lines_of({"a\r\nb\r\n"}), ElementsAre("a", "b"));
  // A \r goes only in front of a \n.
  EXPECT_THAT(lines_of({"a\rb\nc\r"}), ElementsAre("a\rb", "c\r"));
  EXPECT_THAT(lines_of({"a\r\r\n"}), ElementsAre("a\r"));
  EXPECT_THAT(lines_of({"a", "", "b\nc"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(lines_of({"\xef\xbb\xbf"
                        "a"}),
              ElementsAre("\xef\xbb\xbf"
                          "a"));
  EXPECT_THAT(lines_of({std::string("a\0b\n", 4)}), ElementsAre(std::string("a\0b", 3)));
}

// The scan works in parts of 1 MiB: lines that end just before, on and behind the edge.
TEST(TextLines, AcrossTheEdgesOfParts) {
  constexpr std::size_t kPart = 1 << 20;
  for (const std::size_t first : {kPart - 2, kPart - 1, kPart, kPart + 1, 3 * kPart}) {
    const std::string line(first, 'x');
    EXPECT_EQ(lines_of({line + "\nsecond\r\n"}), (std::vector<std::string>{line, "second"}));
    EXPECT_EQ(lines_of({line + "\r\nsecond"}), (std::vector<std::string>{line, "second"}));
  }
}

TEST(TextLines, AnyOrderAndProvenance) {
  FileOptions options;
  options.files = memory({"one\ntwo\n", "three\n"});
  const SourcePtr source = make_text_lines_source({"0", "1"}, options);
  EXPECT_THAT(texts_of(read_indices(*source, {2, 1, 0, 1})),
              ElementsAre("three", "two", "one", "two"));
  EXPECT_EQ(source->locate(1).to_string(), "0 @4 record 1");
  EXPECT_EQ(source->record_bytes(2), 6U);
  EXPECT_EQ(source->spec().to_string(), "{line: bytes []}");
}

TEST(TextLines, Limits) {
  FileOptions options;
  options.files = memory({"1\n2\n3\n", "a long line\n4\n"});
  options.limits.max_members = 2;
  options.limits.max_record_bytes = 5;
  const std::vector<ReadOutcome> outcomes =
      read_source(*make_text_lines_source(paths_of(2), options));
  EXPECT_THAT(texts_of(outcomes), ElementsAre("1", "2", "!out_of_range", "!out_of_range", "4"));
  EXPECT_THAT(outcomes[2].error->cause(), HasSubstr("max_members"));
  EXPECT_THAT(outcomes[3].error->cause(), HasSubstr("12 bytes"));
}

TEST(TextLines, IndexIsKeptBesideLargeFiles) {
  const test::TempFolder folder;
  std::string text;
  for (int i = 0; i < 500'000; ++i) text += "line " + std::to_string(i) + "\n";
  const std::string path = folder.write("big.txt", text);
  const test::TempFolder index;
  FileOptions options;
  options.index_folder = index.path();
  for (int i = 0; i < 2; ++i) {
    const SourcePtr source = make_text_lines_source({path}, options);
    EXPECT_EQ(source->size(), 500'000U);
    EXPECT_EQ(read_indices(*source, {499'999})[0].text(), "line 499999");
    EXPECT_FALSE(std::filesystem::is_empty(index.path()));
  }
}

CsvOptions csv_options(const std::vector<std::string>& contents) {
  CsvOptions options;
  options.files = memory(contents);
  return options;
}

std::vector<ReadOutcome> rows_of(const std::string& text, CsvOptions options = {}) {
  options.files = memory({text});
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

TEST(Csv, BadRecordsAreTheirOwnErrors) {
  const std::vector<ReadOutcome> outcomes =
      rows_of("a,b\n1,2\n1\n1,2,3\nx\"y,2\n\"x\"y,2\n\n3,4\n\"open,5\n6,7\n");
  EXPECT_THAT(texts_of(outcomes), ElementsAre("1", "!data_loss", "!data_loss", "!data_loss",
                                              "!data_loss", "!data_loss", "3", "!data_loss"));
  EXPECT_THAT(outcomes[1].error->cause(), HasSubstr("1 fields, not 2"));
  EXPECT_THAT(outcomes[2].error->cause(), HasSubstr("3 fields, not 2"));
  EXPECT_THAT(outcomes[3].error->cause(), HasSubstr("within an unquoted field"));
  EXPECT_THAT(outcomes[4].error->cause(), HasSubstr("behind a closing quote"));
  EXPECT_THAT(outcomes[7].error->cause(), HasSubstr("never closed"));
}

TEST(Csv, TypesAndDefaults) {
  CsvOptions options;
  options.columns = {{.name = "f", .dtype = DType::f32, .default_value = "0.5"},
                     {.name = "n", .dtype = DType::i64, .default_value = {}},
                     {.name = "s", .dtype = DType::bytes, .default_value = "none"}};
  options.files =
      memory({"n,unused,s,f\n1,x,word,2.25\n+2,\"a\nb\",,\n,x,w,1\n 3 ,x,w,nan\n1.5,x,w,1\n"});
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
  EXPECT_THAT(items[4].status.error().cause(), HasSubstr("column 'n': '1.5' is no i64"));
}

TEST(Csv, ABlankLineIsAnEmptyField) {
  CsvOptions options;
  options.header = false;
  options.columns = {{.name = "x", .dtype = DType::i64, .default_value = "7"}};
  EXPECT_THAT(texts_of(rows_of("1\n\n3\n", options)), ElementsAre("1", "7", "3"));
  options.columns[0].default_value.reset();
  EXPECT_THAT(texts_of(rows_of("1\n\n3\n", options)), ElementsAre("1", "!data_loss", "3"));
}

TEST(Csv, WithoutAHeader) {
  CsvOptions options;
  options.header = false;
  options.delimiter = '\t';
  const std::vector<ReadOutcome> outcomes = rows_of("1\t2\n3\t4\n", options);
  EXPECT_THAT(outcomes[1].values, ElementsAre("3", "4"));
  options.files = memory({"1\t2\n"});
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
  expect_error(ErrorCode::invalid_argument, "'ten' is no i64",
               [&] { make("a\n", {.name = "a", .dtype = DType::i64, .default_value = "ten"}); });
  expect_error(ErrorCode::invalid_argument, "never closed",
               [&] { make("\"a\n", {.name = "a", .default_value = {}}); });
  expect_error(ErrorCode::invalid_argument, "empty",
               [] { make_csv_source({"0"}, csv_options({""})); });
  CsvOptions options = csv_options({"a\n"});
  options.delimiter = '"';
  expect_error(ErrorCode::invalid_argument, "delimit", [&] { make_csv_source({"0"}, options); });
}

// Nothing but \r ends its lines: all of it would be a header, and there would be no record.
TEST(Csv, LinesThatEndInCarriageReturnsAreRefused) {
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

TEST(Csv, ManyColumnsTakeTimeByTheirNumber) {
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
  EXPECT_TRUE(test::thrown_by([] { parse_number("1e39", DType::f32); }));
}

// What a scan in parts calls a record must be what splitting calls one, wherever the parts end.
TEST(Csv, ScanAgreesInAnyParts) {
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

TEST(Csv, EveryCutIsAnAnswer) {
  const std::string whole = "a,b\n1,\"x\ny\"\n2,\"say \"\"hi\"\"\"\n3,z\n";
  for (std::size_t cut = 1; cut <= whole.size(); ++cut) {
    CsvOptions options = csv_options({whole.substr(0, cut)});
    if (cut == 2) {
      expect_error(ErrorCode::invalid_argument, "column 1 has no name (0)",
                   [&] { make_csv_source({"0"}, options); });
      continue;
    }
    const SourcePtr source = make_csv_source({"0"}, options);
    const std::vector<ReadOutcome> outcomes = read_source(*source);
    EXPECT_LE(outcomes.size(), 3U);
    for (std::size_t i = 0; i + 1 < outcomes.size(); ++i) EXPECT_FALSE(outcomes[i].error);
  }
}

}  // namespace
}  // namespace penstock
