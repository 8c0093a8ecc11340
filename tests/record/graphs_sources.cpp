// A graph for each source, images aside.
#include <algorithm>

#include "tests/record/data.h"
#include "tests/record/graph.h"
#include "tests/support/deflate.h"
#include "tests/support/records.h"

namespace penstock::test {
namespace {

FileOptions read_by(const std::string& file_system) {
  FileOptions options;
  options.files = make_file_system(file_system);
  return options;
}

TFRecordOptions records_read_by(const std::string& file_system) {
  TFRecordOptions options;
  options.files = make_file_system(file_system);
  return options;
}

Dataset typed_table() {
  CsvOptions options;
  options.columns = {{"id", DType::i64, {}},
                     {"share", DType::f32, {}},
                     {"word", DType::bytes, {}},
                     {"empty", DType::i64, "-1"}};
  return csv({tables()}, options);
}

std::string rows_file() {
  std::string bytes;
  for (int i = 0; i < 22; ++i) bytes += little_endian(static_cast<std::uint16_t>(i * i));
  return file_of("rows.npy", npy_of("<u2", "(11, 2)", bytes));
}

std::string cifar_file() {
  std::string bytes;
  for (int i = 0; i < 9; ++i) bytes += static_cast<char>(i) + noise(3072, i + 1U);
  return file_of("cifar.bin", bytes);
}

/// Counts to eleven, anew in each pass.
Generator counter() {
  auto next = std::make_shared<std::int64_t>(0);
  return [next](Element& out) {
    if (*next == 11) return false;
    out = Element({{"n", Tensor::scalar<std::int64_t>(*next * *next)}});
    ++*next;
    return true;
  };
}

}  // namespace

std::vector<RecordedGraph> source_graphs() {
  std::vector<RecordedGraph> graphs{
      {.name = "tar_members", .build = [] { return tar({member_tars()}).shuffle().batch(5); }},
      {.name = "tar_members_labelled",
       .build =
           [] {
             TarOptions options;
             options.label_regex = "^(even|odd)/";
             return tar({member_tars()}, options).shard(2, 1, {.contiguous = true});
           }},
      {.name = "tfrecord", .build = [] { return tfrecord({tfrecords()}).shuffle().batch(4); }},
      {.name = "tfrecord_mmap",
       .build = [] { return tfrecord({tfrecords()}, records_read_by("mmap")).batch(7); }},
      {.name = "tfrecord_in_memory",
       .build =
           [] {
             TFRecordOptions options;
             options.files = make_memory_file_system(
                 {{"a", tfrecords_of({"one", "two", "three"})}, {"b", tfrecords_of({"", "five"})}});
             return tfrecord({"b", "a"}, options);
           }},
      {.name = "tfrecord_gzip",
       .build = [] { return tfrecord({packed_tfrecords("gzip")}).shuffle({.buffer = 6}).batch(4); },
       .least = 4 << 20},
      {.name = "tfrecord_zlib",
       .build = [] { return tfrecord({packed_tfrecords("zlib")}).shard(3, 2); },
       .least = 4 << 20},
      {.name = "parse_example",
       .build =
           [] {
             return tfrecord({examples()})
                 .map_op(
                     parse_example({{"name", DType::bytes, {}, {}, "title"},
                                    {"weights", DType::f32, {2}, {}, {}},
                                    {"id", DType::i64, {}, Tensor::scalar<std::int64_t>(-7), {}},
                                    {"tokens", DType::i64, {-1}, {}, {}}}))
                 .padded_batch(5, {.values = {0, 0, 0, -1}});
           },
       .least = 128 << 10},
      {.name = "cifar10", .build = [] { return cifar10({cifar_file()}).shuffle().batch(2); }},
      {.name = "idx",
       .build =
           [] {
             return idx(file_of("digits.idx", idx_of({10, 4, 3}, noise(120))),
                        file_of("labels.idx.gz",
                                deflated(idx_of({10}, noise(10, 2)), Wrapper::gzip, 0)))
                 .batch(3, {.drop_remainder = true});
           }},
      {.name = "csv", .build = [] { return csv({tables()}).skip(1).take(9); }},
      {.name = "csv_typed", .build = [] { return typed_table().shuffle().batch(4); }},
      {.name = "text_lines",
       .build =
           [] {
             return text_lines({file_of("lines.txt", "one\r\ntwo\n\nfour, \xff\nfive")}).batch(2);
           }},
      {.name = "npy", .build = [] { return npy({rows_file()}, read_by("mmap")).batch(4); }},
      {.name = "fixed_records",
       .build =
           [] {
             FixedRecordOptions options;
             options.header_bytes = 3;
             options.footer_bytes = 2;
             return fixed_records({file_of("fixed.bin", noise(3 + 8 * 13 + 2))}, 8, options)
                 .shard(2, 0)
                 .batch(3);
           }},
      {.name = "range", .build = [] { return range(50, -40, -7); }},
      {.name = "tensors",
       .build =
           [] {
             std::vector<float> values(30);
             for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 2;
             return tensors({{"pairs", Tensor::of<float>({15, 2}, values)},
                             {"n", Tensor::of<std::int32_t>(
                                       {15}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})}})
                 .shuffle()
                 .batch(6);
           }},
      {.name = "from_element",
       .build =
           [] {
             return from_element({{"text", Tensor::copy_bytes("once")},
                                  {"x", Tensor::of<double>({2}, {0.5, -2})}})
                 .repeat(3);
           }},
      {.name = "generate",
       .build =
           [] {
             return generate(counter, Spec({{"n", DType::i64, {}}}), "squares").batch(4);
           }},
      {.name = "synthetic",
       .build =
           [] {
             return synthetic(parse_synthetic("count=40,bytes=uniform:10:300,faults=0.1,seed=3"))
                 .shuffle()
                 .batch(6);
           },
       .options = {.seed = 7, .epochs = 2, .on_error = OnError::skip}},
  };
  for (RecordedGraph& graph : graphs) graph.least = std::max(graph.least, kLeastOfFiles);
  return graphs;
}

}  // namespace penstock::test
