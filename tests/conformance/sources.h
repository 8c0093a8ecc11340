// Every source, in the form that the suite of sources needs.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <penstock/image_records.h>
#include <penstock/internal/crc32c.h>
#include <penstock/sources.h>

#include "pipeline/sources/image_records_format.h"
#include "tests/support/deflate.h"
#include "tests/support/files.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock::test {

inline constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

using NamedFiles = std::vector<std::pair<std::string, std::string>>;

/// The contents of a data set.
struct SourceInput {
  std::vector<std::string> records;  ///< the text of each record, see SourceCase::record
  std::size_t bad = kNone;           ///< the number of the damaged record
  FileSystemPtr files{};
  std::string folder{};  ///< the folder of the files, with a '/' at its end
  Paths paths{};         ///< the paths of all files
  /// Called before each record by sources that run code of the test. May wait.
  std::function<void()> before{};
};

/// A source for the suite.
struct SourceCase {
  std::string name;
  std::string spec;
  std::function<Dataset(const SourceInput&)> open;
  /// Returns the files with the records, at least two. Empty: the source reads no files.
  std::function<NamedFiles(const std::vector<std::string>& records, std::size_t bad)> files{};
  /// Returns the text that is written for record `i`. Its bytes are in the place that `locate`
  /// returns.
  std::function<std::string(std::size_t i)> record = [](std::size_t i) { return words(i); };
  /// Returns the bytes of the first component of record `i`; null: not known.
  std::function<std::string(std::size_t i)> value = [](std::size_t i) { return words(i); };
  /// The error of the damaged record; none: the format can't detect damage.
  std::optional<ErrorCode> damage{};
  /// The error of a data set without records; none: such a data set is valid.
  std::optional<ErrorCode> empty{};
  /// Offsets are those in the file, which is not compressed.
  bool plain = true;
  /// Bytes that a record shares with the one before it in its shard.
  std::int64_t shared = 0;
  /// The files are read only when the data set is opened.
  bool loads = false;

  /// Returns texts of many sizes, without characters that CSV would quote.
  static std::string words(std::size_t i) {
    return "record " + std::to_string(i) + std::string(i * 37 % 300, static_cast<char>('a' + i));
  }
  /// Returns `size` bytes without a pattern.
  static std::string bytes(std::size_t i, std::size_t size) { return noise(size, i + 1); }

  friend std::ostream& operator<<(std::ostream& out, const SourceCase& tested) {
    return out << tested.name;
  }
};

/// Returns options for a source that reads the input's files and writes no files next to them.
template <typename Options = FileOptions>
Options options_for(const SourceInput& input) {
  Options options;
  options.files = input.files;
  options.index_folder = "-";
  return options;
}

/// Returns a function that makes two shards. `shard` writes each from its records and the number of
/// the damaged one among them.
template <typename F>
auto two_shards(F shard) {
  return [shard](const std::vector<std::string>& records, std::size_t bad) {
    const std::size_t half = records.size() / 2;
    const auto middle = records.begin() + static_cast<std::ptrdiff_t>(half);
    return NamedFiles{{"shard-0", shard(std::vector<std::string>(records.begin(), middle), bad)},
                      {"shard-1", shard(std::vector<std::string>(middle, records.end()),
                                        bad == kNone || bad < half ? kNone : bad - half)}};
  };
}

inline std::string no_header(std::size_t) {
  return "";
}

/// Returns a function that writes one record after the other with `record`, between a header for
/// their number and a footer.
template <typename F>
auto joined(F record, std::function<std::string(std::size_t)> header = no_header,
            std::string footer = "") {
  return two_shards([=](const std::vector<std::string>& records, std::size_t bad) {
    std::string out = header(records.size());
    for (std::size_t i = 0; i < records.size(); ++i) out += record(records[i], i == bad, i);
    return out + footer;
  });
}

inline std::string as_it_is(const std::string& record, bool, std::size_t) {
  return record;
}

/// A damaged sample has two images.
inline std::string tar_sample(const std::string& record, bool bad, std::size_t i) {
  const std::string key = std::to_string(i);
  return tar_member(key + ".jpg", record) + tar_member(key + ".cls", "3") +
         (bad ? tar_member(key + ".jpg", record) : "");
}

/// A damaged record has one wrong bit in its data, and the right length.
inline std::string tfrecord_perhaps_bad(const std::string& record, bool bad, std::size_t) {
  std::string out = tfrecord_of(record);
  if (bad) out[12] = static_cast<char>(out[12] ^ 1);
  return out;
}

inline std::string compressed_tfrecords(const std::vector<std::string>& records, std::size_t bad,
                                        Wrapper wrapper) {
  std::string out;
  for (std::size_t i = 0; i < records.size(); ++i)
    out += tfrecord_perhaps_bad(records[i], i == bad, i);
  return deflated(out, wrapper);
}

inline std::string text_of(const std::vector<std::byte>& bytes) {
  return std::string(as_text(bytes));
}

/// Returns a file of image records, all of which hold unchanged files.
inline std::string image_records_file(const std::vector<std::string>& records, std::size_t bad) {
  const auto header = records_file::make_header(ImageRecordKind::coefficients);
  std::string out(as_text(header));
  records_file::Contents contents;
  contents.as_they_are = records.size();
  contents.class_names = {"only"};
  for (std::size_t i = 0; i < records.size(); ++i) {
    records_file::Frame frame;
    frame.key_bytes = 3;
    frame.image_bytes = records[i].size();
    frame.number = i;
    frame.original_bytes = records[i].size();
    frame.as_it_is = true;
    frame.image_crc = crc32c(as_bytes(records[i])) ^ (i == bad ? 1U : 0U);
    contents.entries.push_back({out.size(), frame.size()});
    out += text_of(records_file::make_frame(frame, "key")) + records[i];
  }
  return out + text_of(records_file::make_index(contents, out.size()));
}

/// Returns three tokens, and the first of the next window, which is 0 in all of them.
template <typename Token>
std::string tokens_of(std::size_t i) {
  const Token first = 0;
  const auto second = static_cast<Token>(7 * i + 1);
  const auto third = static_cast<Token>(std::numeric_limits<Token>::max() / 2 - i);
  return little_endian(first) + little_endian(second) + little_endian(third) + little_endian(first);
}

/// A damaged window of u32 has a token that no i32 can hold.
template <typename Token>
std::string window_of(const std::string& record, bool bad, std::size_t) {
  std::string out = record.substr(0, 3 * sizeof(Token));
  if (bad) out[2 * sizeof(Token) - 1] = '\x80';
  return out;
}

/// Returns llm.c's header for the tokens of u16 windows.
inline std::string token_header(std::size_t windows) {
  std::string header = little_endian(std::uint32_t{20240520}) + little_endian(std::uint32_t{1}) +
                       little_endian(static_cast<std::uint32_t>(3 * windows + 1));
  header.resize(1024);
  return header;
}

/// Returns the header for big-endian i32 [n, 3], without data.
inline std::string npy_header(std::size_t rows) {
  std::string header =
      "{'descr': '>i4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", 3)}";
  header.resize(118, ' ');
  return std::string("\x93NUMPY\1\0\x76\0", 10) + header;
}

inline std::string swapped(std::string values) {
  for (std::size_t i = 0; i + 4 <= values.size(); i += 4)
    std::reverse(values.begin() + static_cast<std::ptrdiff_t>(i),
                 values.begin() + static_cast<std::ptrdiff_t>(i) + 4);
  return values;
}

/// Returns images of 5 pixels, and their labels.
inline NamedFiles idx_files(const std::vector<std::string>& records, Wrapper wrapper) {
  const char count = static_cast<char>(records.size());
  std::string images({0, 0, 8, 2, 0, 0, 0, count, 0, 0, 0, 5});
  for (const std::string& record : records) images += record;
  const std::string labels = std::string({0, 0, 8, 1, 0, 0, 0, count}) + noise(records.size());
  return {{"images", deflated(images, wrapper)}, {"labels", deflated(labels, wrapper)}};
}

/// Turns planes of red, green and blue into pixels.
inline std::string pixels_of(const std::string& planes) {
  std::string out;
  for (std::size_t i = 0; i < 1024; ++i) out += {planes[i], planes[1024 + i], planes[2048 + i]};
  return out;
}

inline Dataset generated(const SourceInput& input) {
  const auto make = [input] {
    return [input, next = std::size_t{0}](Element& out) mutable {
      if (next == input.records.size()) return false;
      if (input.before) input.before();
      if (next++ == input.bad) throw std::runtime_error("a bad record");
      out.set("text", Tensor::copy_bytes(input.records[next - 1]));
      return true;
    };
  };
  return generate(make, Spec({{"text", DType::bytes, {}}}));
}

/// Returns all sources. The suite runs over each source that is added here.
inline std::vector<SourceCase> sources() {
  const std::string images_spec = "{image: bytes [], label: i64 [], key: bytes []}";
  const auto number = [](std::size_t i) { return std::to_string(10 + 3 * i); };
  const auto fixed = [](std::size_t size) {
    return [size](std::size_t i) { return SourceCase::bytes(i, size); };
  };
  const auto compressed = [](Wrapper wrapper) {
    return two_shards([wrapper](const auto& records, std::size_t bad) {
      return compressed_tfrecords(records, bad, wrapper);
    });
  };
  const auto open_tfrecord = [](const SourceInput& input) {
    return tfrecord(input.paths, options_for<TFRecordOptions>(input));
  };
  const auto open_idx = [](const SourceInput& input) {
    return idx(input.folder + "images", input.folder + "labels", options_for(input));
  };
  return {
      {.name = "tar",
       .spec = images_spec,
       .open =
           [](const SourceInput& input) {
             return tar(input.paths, options_for<TarOptions>(input));
           },
       .files = joined(tar_sample, no_header, tar_end()),
       .damage = ErrorCode::data_loss},
      {.name = "tfrecord",
       .spec = "{record: bytes []}",
       .open = open_tfrecord,
       .files = joined(tfrecord_perhaps_bad),
       .damage = ErrorCode::data_loss},
      {.name = "tfrecord, gzip",
       .spec = "{record: bytes []}",
       .open = open_tfrecord,
       .files = compressed(Wrapper::gzip),
       .damage = ErrorCode::data_loss,
       .plain = false},
      {.name = "tfrecord, zlib",
       .spec = "{record: bytes []}",
       .open = open_tfrecord,
       .files = compressed(Wrapper::zlib),
       .damage = ErrorCode::data_loss,
       .plain = false},
      {.name = "image records",
       .spec = images_spec,
       .open =
           [](const SourceInput& input) { return image_records(input.paths, options_for(input)); },
       .files = two_shards(image_records_file),
       .damage = ErrorCode::data_loss},
      {.name = "images",
       .spec = images_spec,
       .open =
           [](const SourceInput& input) {
             return images(input.folder + "folder", options_for<ImagesOptions>(input));
           },
       .files =
           [](const std::vector<std::string>& records, std::size_t) {
             NamedFiles files{{"folder/readme", "no image"}};
             for (std::size_t i = 0; i < records.size(); ++i)
               files.emplace_back("folder/" + std::to_string(100 + i) + ".jpg", records[i]);
             return files;
           },
       .empty = ErrorCode::not_found},
      {.name = "cifar10",
       .spec = "{image: u8 [32,32,3], label: i64 []}",
       .open = [](const SourceInput& input) { return cifar10(input.paths, options_for(input)); },
       .files = joined([](const std::string& record, bool bad, std::size_t) {
         return static_cast<char>(bad ? 10 : 7) + record;
       }),
       .record = fixed(3072),
       .value = [](std::size_t i) { return pixels_of(SourceCase::bytes(i, 3072)); },
       .damage = ErrorCode::data_loss},
      {.name = "idx",
       .spec = "{image: u8 [5], label: i64 []}",
       .open = open_idx,
       .files = [](const auto& records, std::size_t) { return idx_files(records, Wrapper::none); },
       .record = fixed(5),
       .value = fixed(5)},
      {.name = "idx, gzip",
       .spec = "{image: u8 [5], label: i64 []}",
       .open = open_idx,
       .files = [](const auto& records, std::size_t) { return idx_files(records, Wrapper::gzip); },
       .record = fixed(5),
       .value = fixed(5),
       .plain = false,
       .loads = true},
      {.name = "npy",
       .spec = "{value: i32 [3]}",
       .open = [](const SourceInput& input) { return npy(input.paths, options_for(input)); },
       .files = joined(as_it_is, npy_header),
       .record = fixed(12),
       .value = [](std::size_t i) { return swapped(SourceCase::bytes(i, 12)); }},
      {.name = "csv",
       .spec = "{word: bytes [], id: i64 []}",
       .open =
           [](const SourceInput& input) {
             auto options = options_for<CsvOptions>(input);
             options.columns = {{.name = "word", .dtype = DType::bytes, .default_value = {}},
                                {.name = "id", .dtype = DType::i64, .default_value = {}}};
             return csv(input.paths, options);
           },
       .files = joined(
           [](const std::string& record, bool bad, std::size_t i) {
             return (bad ? "no number" : std::to_string(i)) + "," + record + "\n";
           },
           [](std::size_t) { return "id,word\n"; }),
       .record = [](std::size_t i) { return "\"a \"\"" + SourceCase::words(i) + "\"\"\""; },
       .value = [](std::size_t i) { return "a \"" + SourceCase::words(i) + "\""; },
       .damage = ErrorCode::data_loss},
      {.name = "text_lines",
       .spec = "{line: bytes []}",
       .open =
           [](const SourceInput& input) {
             FileOptions options = options_for(input);
             options.limits.max_record_bytes = 1000;
             return text_lines(input.paths, options);
           },
       .files = joined([](const std::string& record, bool bad, std::size_t) {
         return record + (bad ? std::string(1000, 'x') : "") + "\r\n";
       }),
       .damage = ErrorCode::out_of_range},
      {.name = "fixed_records",
       .spec = "{record: u8 [7]}",
       .open =
           [](const SourceInput& input) {
             auto options = options_for<FixedRecordOptions>(input);
             options.header_bytes = 3;
             return fixed_records(input.paths, 7, options);
           },
       .files = joined(as_it_is, [](std::size_t) { return "top"; }),
       .record = fixed(7),
       .value = fixed(7)},
      {.name = "token_shards",
       .spec = "{tokens: u16 [4]}",
       .open =
           [](const SourceInput& input) {
             auto options = options_for<TokenShardsOptions>(input);
             options.dtype = DType::u16;
             return token_shards(input.paths, 3, options);
           },
       .files = joined(window_of<std::uint16_t>, token_header, std::string(2, '\0')),
       .record = tokens_of<std::uint16_t>,
       .value = tokens_of<std::uint16_t>,
       .empty = ErrorCode::invalid_argument,
       .shared = 2},
      {.name = "token_shards, u32",
       .spec = "{tokens: i32 [4]}",
       .open =
           [](const SourceInput& input) {
             auto options = options_for<TokenShardsOptions>(input);
             options.stored = DType::u32;
             return token_shards(input.paths, 3, options);
           },
       .files = joined(window_of<std::uint32_t>, no_header, std::string(4, '\0')),
       .record = tokens_of<std::uint32_t>,
       .value = tokens_of<std::uint32_t>,
       .damage = ErrorCode::data_loss,
       .empty = ErrorCode::invalid_argument,
       .shared = 4},
      {.name = "range",
       .spec = "{value: i64 []}",
       .open =
           [](const SourceInput& input) {
             return range(10, 10 + 3 * static_cast<std::int64_t>(input.records.size()), 3);
           },
       .value = number},
      {.name = "tensors",
       .spec = "{text: bytes [], pair: u8 [2]}",
       .open =
           [](const SourceInput& input) {
             const std::vector<std::string_view> texts(input.records.begin(), input.records.end());
             const auto rows = static_cast<std::int64_t>(texts.size());
             const std::vector<std::uint8_t> pairs(2 * texts.size(), 7);
             return tensors({{"text", Tensor::of_bytes(texts)},
                             {"pair", Tensor::of<std::uint8_t>({rows, 2}, pairs)}});
           }},
      {.name = "generate",
       .spec = "{text: bytes []}",
       .open = generated,
       .damage = ErrorCode::user},
      {.name = "synthetic",
       .spec = "{data: bytes [], index: i64 []}",
       .open =
           [](const SourceInput& input) {
             return synthetic(
                 {.count = input.records.size(), .bytes = {Distribution::Kind::uniform, 1, 500}});
           },
       .value = nullptr},
      {.name = "synthetic images",
       .spec = images_spec,
       .open =
           [](const SourceInput& input) {
             return synthetic(
                 {.count = input.records.size(), .image_height = 16, .image_width = 16});
           },
       .value = nullptr},
  };
}

}  // namespace penstock::test
