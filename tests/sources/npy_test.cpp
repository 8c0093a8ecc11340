#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/io/memory.h"
#include "pipeline/sources/npy_format.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::expect_error;
using test::little_endian;
using test::noise;
using test::read_source;
using test::ReadOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string npy(const std::string& dictionary, const std::string& data, char version = 1) {
  std::string header = dictionary;
  header.resize(header.size() + 63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string length = version == 1 ? little_endian(static_cast<std::uint16_t>(header.size()))
                                    : little_endian(static_cast<std::uint32_t>(header.size()));
  return std::string("\x93NUMPY") + version + std::string(1, '\0') + length + header + data;
}

std::string dictionary(const std::string& descr, const std::string& shape,
                       const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

SourcePtr source_of(const std::vector<std::string>& contents, Limits limits = {}) {
  const auto files = std::make_shared<MemoryFileSystem>();
  Paths paths;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    paths.push_back(std::to_string(i) + ".npy");
    files->add(paths.back(), contents[i]);
  }
  FileOptions options;
  options.files = files;
  options.limits = limits;
  return make_npy_source(paths, options);
}

TEST(Npy, RowsOfSeveralArrays) {
  const SourcePtr source =
      source_of({npy(dictionary("<f4", "(2, 3)"), bytes_of<float>({1, 2, 3, 4, 5, 6})),
                 npy(dictionary("<f4", "(0, 3)"), ""),
                 npy(dictionary("<f4", "(1, 3)"), bytes_of<float>({7, 8, 9}), 2)});
  EXPECT_EQ(source->spec().to_string(), "{value: f32 [3]}");
  const std::vector<ReadOutcome> outcomes = read_source(*source);
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_EQ(outcomes[1].text(), bytes_of<float>({4, 5, 6}));
  EXPECT_EQ(outcomes[2].text(), bytes_of<float>({7, 8, 9}));
  EXPECT_EQ(source->locate(1).to_string(), "0.npy @140 record 1");
}

// What numpy.save writes for ml_dtypes.bfloat16, with other programs' names for the dtype.
TEST(Npy, BFloat16) {
  const std::string data("\x80\x3f\x20\xc0\x80\x7f\x01\0", 8);  // 1, -2.5, inf, the least
  for (const char* descr : {"<V2", "|V2", "V2", "=V2", "bfloat16", "<bfloat16"}) {
    const SourcePtr source = source_of({npy(dictionary(descr, "(2, 2)"), data)});
    EXPECT_EQ(source->spec().to_string(), "{value: bf16 [2]}") << descr;
    std::vector<ReadItem> items(1);
    test::HeapContext context;
    source->read(items, context);
    const std::span<const BFloat16> row = items[0].element["value"].values<BFloat16>();
    EXPECT_EQ(float_from_bfloat16(row[0]), 1.0F) << descr;
    EXPECT_EQ(float_from_bfloat16(row[1]), -2.5F) << descr;
  }
  const std::string swapped("\x3f\x80\xc0\x20", 4);
  EXPECT_EQ(read_source(*source_of({npy(dictionary(">V2", "(2,)"), swapped)}))[1].text(),
            std::string("\x20\xc0", 2));
  for (const char* descr : {"<V1", "|V3", "|V4", "V20", "bfloat", "f4"})
    expect_error(ErrorCode::invalid_argument, "which tensors do not support",
                 [&] { source_of({npy(dictionary(descr, "(2,)"), data)}); });
}

TEST(Npy, EveryDType) {
  const std::pair<const char*, DType> known[] = {
      {"|b1", DType::boolean}, {"|i1", DType::i8},  {"|u1", DType::u8},  {"<i2", DType::i16},
      {"<u2", DType::u16},     {"<i4", DType::i32}, {"<u4", DType::u32}, {"<i8", DType::i64},
      {"<u8", DType::u64},     {"<f2", DType::f16}, {"<f4", DType::f32}, {"<f8", DType::f64}};
  for (const auto& [descr, dtype] : known) {
    const std::string data(2 * size_of(dtype), '\1');
    const SourcePtr source = source_of({npy(dictionary(descr, "(2,)"), data)});
    EXPECT_EQ(source->spec()[0].dtype, dtype) << descr;
    EXPECT_EQ(source->spec()[0].shape, Shape()) << descr;
    EXPECT_EQ(read_source(*source).size(), 2U);
  }
}

TEST(Npy, OtherByteOrder) {
  const std::string data = {0, 0, 1, 2, 0, 0, 0, 3};
  const SourcePtr source = source_of({npy(dictionary(">i4", "(1, 2)"), data)});
  std::vector<ReadItem> items(1);
  test::HeapContext context;
  source->read(items, context);
  EXPECT_THAT(items[0].element[0].to_vector<std::int32_t>(), ElementsAre(258, 3));
  std::int32_t row[2];
  std::byte* const bases[] = {reinterpret_cast<std::byte*>(row)};
  const std::size_t strides[] = {sizeof(row)};
  items[0].row = Row(bases, strides, 0);
  source->read(items, context);
  EXPECT_THAT(row, ElementsAre(258, 3));
}

TEST(Npy, Bools) {
  const SourcePtr source = source_of({npy(dictionary("|b1", "(1, 4)"), {0, 1, 2, '\xff'})});
  EXPECT_EQ(read_source(*source)[0].text(), std::string({0, 1, 1, 1}));
}

TEST(Npy, RefusesWhatNoTensorHolds) {
  const std::string data(64, '\0');
  const std::pair<std::string, std::string> cases[] = {
      {dictionary("|O", "(1,)"), "Python objects"},
      {dictionary("<c8", "(1,)"), "'<c8'"},
      {dictionary("|S5", "(1,)"), "'|S5'"},
      {dictionary("<U5", "(1,)"), "'<U5'"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "structured"},
      {dictionary("<f4", "()"), "scalar"},
      {dictionary("<f4", "(2, 3)", "True"), "Fortran"},
  };
  for (const auto& [written, said] : cases) {
    const std::string &text = written, &what = said;  // Clang 14 captures no bindings
    expect_error(ErrorCode::invalid_argument, what, [&] { source_of({npy(text, data)}); });
    expect_error(ErrorCode::invalid_argument, "0.npy", [&] { source_of({npy(text, data)}); });
  }
  // One dimension has no order.
  EXPECT_EQ(source_of({npy(dictionary("<f4", "(2,)", "True"), data)})->size(), 2U);
}

TEST(Npy, DisagreeingArrays) {
  const std::string first = npy(dictionary("<f4", "(1, 2)"), std::string(8, '\0'));
  expect_error(ErrorCode::invalid_argument, "f32 [1,3], but 0.npy is one of f32 [1,2]", [&] {
    source_of({first, npy(dictionary("<f4", "(1, 3)"), std::string(12, '\0'))});
  });
  expect_error(ErrorCode::invalid_argument, "f64", [&] {
    source_of({first, npy(dictionary("<f8", "(1, 2)"), std::string(16, '\0'))});
  });
}

TEST(Npy, TruncatedAtEveryLength) {
  const std::string whole = npy(dictionary("<i2", "(3, 2)"), noise(12));
  const std::size_t header = whole.size() - 12;
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const std::string part = whole.substr(0, cut);
    if (cut < header) {
      expect_error(ErrorCode::data_loss, "truncated at byte " + std::to_string(cut),
                   [&] { source_of({part}); });
      continue;
    }
    const std::vector<ReadOutcome> outcomes = read_source(*source_of({part}));
    ASSERT_EQ(outcomes.size(), (cut - header) / 4 + 1);
    EXPECT_THAT(outcomes.back().error->cause(),
                HasSubstr("truncated at byte " + std::to_string(cut)));
    for (std::size_t i = 0; i + 1 < outcomes.size(); ++i) {
      EXPECT_EQ(outcomes[i].text(), whole.substr(header + 4 * i, 4));
    }
  }
  EXPECT_EQ(read_source(*source_of({whole})).size(), 3U);
  EXPECT_EQ(read_source(*source_of({whole + "more"})).size(), 3U);
}

TEST(Npy, HostileHeaders) {
  const std::string data(16, '\0');
  const std::pair<std::string, ErrorCode> cases[] = {
      {npy(dictionary("<f4", "(9223372036854775807, 9223372036854775807)"), data),
       ErrorCode::out_of_range},
      {npy(dictionary("<f4", "(1, 9223372036854775807)"), data), ErrorCode::out_of_range},
      {npy(dictionary("<f4", "(9223372036854775807,)"), data), ErrorCode::out_of_range},
      {npy(dictionary("<f4", "(9223372036854775807, 0)"), data), ErrorCode::out_of_range},
      {npy(dictionary("<f4", "(1, 9223372036854775807, 9, 0)"), data), ErrorCode::out_of_range},
      {npy(dictionary("<f4", "(99999999999999999999,)"), data), ErrorCode::data_loss},
      {npy(dictionary("<f4", "(-1,)"), data), ErrorCode::data_loss},
      {npy(dictionary("<f4", "(1,1,1,1,1,1,1)"), data), ErrorCode::data_loss},
      {npy(dictionary("<f4", "(1,") + "'shape': (1,)}", data), ErrorCode::data_loss},
      {npy("{}", data), ErrorCode::data_loss},
      {npy("", data), ErrorCode::data_loss},
      {npy("{'descr': '<f4', 'descr': '<f4'}", data), ErrorCode::data_loss},
      {npy("{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}", data),
       ErrorCode::data_loss},
      {npy(dictionary("<f4", "(1,)") + "x", data), ErrorCode::data_loss},
      {npy("{'descr': '<f4\\'", data), ErrorCode::data_loss},
      {npy("{'descr: ", data), ErrorCode::data_loss},
      {std::string("\x93NUMPY\x01\0\xff\xff", 10) + data, ErrorCode::data_loss},
      {std::string("\x93NUMPY\x02\0\xff\xff\xff\xff", 12) + data, ErrorCode::data_loss},
      {std::string("\x93NUMPY\x09\0\x01\0\0\0\0\0", 14) + data, ErrorCode::data_loss},
      {"PK\3\4 not numpy at all", ErrorCode::data_loss},
  };
  for (const auto& [bytes, code] : cases) {
    const auto error = test::thrown_by([&, file = bytes] { source_of({file}); });
    ASSERT_TRUE(error) << bytes;
    EXPECT_EQ(name_of(error->code()), name_of(code)) << error->what() << "\n" << bytes;
  }
}

TEST(Npy, FlippedBitsOfAHeader) {
  const std::string whole = npy(dictionary("<i2", "(3, 2)"), noise(12));
  for (std::size_t bit = 0; bit < 8 * (whole.size() - 12); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    try {
      EXPECT_LE(read_source(*source_of({damaged})).size(), 1000U);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("0.npy"));
    }
  }
}

TEST(Npy, LaxDictionaries) {
  for (const char* text :
       {"{\"shape\":(2,),\"descr\":\"<f4\",\"fortran_order\":False}",
        "  { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2L , ) , } "}) {
    const NpyHeader header = parse_npy_dictionary(text, "x", 0);
    EXPECT_EQ(header.shape, Shape({2}));
    EXPECT_EQ(header.dtype, DType::f32);
  }
}

}  // namespace
}  // namespace penstock
