// TFRecord, the tf.Example inside, tar.
#include <algorithm>
#include <cstring>

#include <penstock/sources.h>
#include <penstock/work.h>

#include "tests/fuzz/support.h"
#include "tests/support/context.h"
#include "tests/support/example.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock::fuzz {
namespace {

/// Gives every record of a file the checksums that its bytes have.
void repair_records(std::string& file, bool data_too) {
  for (std::size_t at = 0; at + 16 <= file.size();) {
    const std::string_view length_bytes = std::string_view(file).substr(at, 8);
    std::uint64_t length = 0;
    std::memcpy(&length, length_bytes.data(), sizeof(length));
    file.replace(at + 8, 4, test::little_endian(test::tfrecord_crc(length_bytes)));
    if (length > file.size() - at - 16) return;
    if (data_too) {
      const std::string_view data = std::string_view(file).substr(at + 12, length);
      file.replace(at + 12 + length, 4, test::little_endian(test::tfrecord_crc(data)));
    }
    at += 16 + length;
  }
}

/// Gives every block that looks like a header (or every one) its checksum.
void repair_headers(std::string& file, bool every) {
  for (std::size_t at = 0; at + 512 <= file.size(); at += 512) {
    if (every || file.compare(at + 257, 5, "ustar") == 0)
      file.replace(at, 512, test::TarHeader::with_checksum(file.substr(at, 512)));
  }
}

}  // namespace

void run_tfrecord(Bytes bytes) {
  Input input(bytes);
  if (input.option(0)) repair_records(input.file, input.option(1));
  if (input.option(2)) input.file = packed(input.file, input.option(3));
  TFRecordOptions options;
  options.limits = small_limits();
  options.verify = !input.option(4);
  read_all(input.file, [&](FileSystemPtr files) {
    options.files = std::move(files);
    return make_tfrecord_source({"file"}, options);
  });
}

std::vector<std::string> tfrecord_seeds() {
  const std::string records = test::tfrecords_of({"", "a", std::string(300, 'x')});
  std::vector<std::string> seeds{with_options(0, ""), with_options(0, packed(records, false)),
                                 with_options(0, packed(records, true))};
  for (const unsigned options : {0U, 1U, 3U, 7U, 15U, 19U})
    seeds.push_back(with_options(options, records));
  return seeds;
}

void run_example(Bytes bytes) {
  const Input input(bytes);
  Limits limits;
  if (input.option(0)) limits.max_nesting = 2;
  const std::int64_t any = input.option(1) ? 2 : -1;
  const WorkOpPtr sequences = parse_sequence_example(
      {},
      {{.key = "words"},
       {.key = "ids", .dtype = DType::i64, .step = Shape(), .allow_missing = true},
       {.key = "box", .dtype = DType::f32}},
      "record", limits);
  const WorkOpPtr op = parse_example(
      {{.key = "image"},
       {.key = "label", .dtype = DType::i64, .default_value = Tensor::scalar<std::int64_t>(3)},
       {.key = "box", .dtype = DType::f32, .shape = Shape({any})},
       {.key = "words", .shape = Shape({any, 2})},
       {.key = "ids", .dtype = DType::i64, .shape = Shape({any})}},
      "record", limits);
  for (const WorkOpPtr& parser : {op, sequences}) {
    test::HeapContext context;
    WorkItem item;
    item.element.set("record", Tensor::copy_bytes(input.file));
    parser->run({&item, 1}, context);
    if (!item.status.ok()) require_answer(item.status.error());
    // A varint of one byte is a value of eight, an empty string (two bytes) a view of sixteen.
    require(context.allocated_bytes <= 16 * input.file.size() + 4096, "more memory than values");
  }
}

std::vector<std::string> example_seeds() {
  using namespace test;
  const std::string whole = example_of(
      feature("image", bytes_feature({"pixels"})) + feature("label", int_feature({-7})) +
      feature("box", float_feature({1, -3})) + feature("words", bytes_feature({"a", ""})) +
      feature("ids", int_feature({0, 127, 128, INT64_MIN})));
  const std::string unpacked =
      example_of(feature("ids", int_feature({1, 2}, false)) +
                 feature("box", float_feature({1, -3}, false)) + feature("other", field(1, "")));
  const std::string lists =
      field(2, feature("words", field(1, bytes_feature({"a", ""})) + field(1, "")) +
                   feature("ids", field(1, int_feature({1})) + field(1, int_feature({INT64_MIN}))) +
                   feature("box", field(1, float_feature({1, -3}))));
  return {with_options(0, ""),
          with_options(0, whole),
          with_options(3, whole),
          with_options(2, unpacked),
          with_options(0, whole + unpacked),
          with_options(0, whole + lists)};
}

void run_tar(Bytes bytes) {
  Input input(bytes);
  if (input.option(0)) repair_headers(input.file, input.option(1));
  TarOptions options;
  options.limits = small_limits();
  if (input.option(2)) options.limits.max_name_bytes = 20;
  if (input.option(3)) options.label_regex = "([a-z])";
  read_all(input.file, [&](FileSystemPtr files) {
    options.files = std::move(files);
    return make_tar_source({"file"}, options);
  });
}

std::vector<std::string> tar_seeds() {
  using namespace test;
  const std::string end = tar_end();
  const std::string images = tar_member("a/1.jpg", "pixels") + tar_member("a/1.cls", "3") +
                             tar_member("b/2.jpg", "more") + tar_member("b/2.cls", "1");
  const std::string names = gnu_long_member(std::string(130, 'n') + ".txt", "x") +
                            pax_member(pax_record("path", "p/" + std::string(120, 'q') + ".txt") +
                                           pax_record("size", "3"),
                                       "short.txt", "abc") +
                            tar_member("g", pax_record("comment", "all"), 'g');
  const std::string kinds = tar_member("link.txt", "", '2') + tar_member("dir/", "", '5') +
                            tar_member("x.seg.png", "1") + tar_member("x.json", "{}");
  const std::string sparse = pax_member(pax_record("GNU.sparse.major", "1"), "s.txt", "0\n");
  std::string large =
      TarHeader{.name = "l.txt", .size_field = std::string("\x80\0\0\0\0\0\0\0\0\0\0\x03", 12)}
          .bytes() +
      tar_padded("abc");
  std::vector<std::string> seeds{with_options(0, ""), with_options(3, large + end),
                                 with_options(1, sparse + end)};
  for (const std::string& file : {images, names, kinds}) {
    for (const unsigned options : {0U, 1U, 7U, 9U})
      seeds.push_back(with_options(options, file + end));
  }
  return seeds;
}

}  // namespace penstock::fuzz
