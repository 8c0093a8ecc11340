// IDX, CIFAR-10, npy, tokens, CSV.
#include <penstock/sources.h>

#include "tests/fuzz/support.h"
#include "tests/support/records.h"

namespace penstock::fuzz {
namespace {

FileOptions small_files(FileSystemPtr files) {
  FileOptions options;
  options.files = std::move(files);
  options.limits = small_limits();
  return options;
}

std::string npy(const std::string& dictionary, const std::string& data) {
  std::string header = dictionary;
  header.resize(header.size() + 63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\0", 8) +
         test::little_endian(static_cast<std::uint16_t>(header.size())) + header + data;
}

std::string dictionary(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

}  // namespace

void run_idx(Bytes bytes) {
  const Input input(bytes);
  const std::string file = input.option(0) ? packed(input.file, input.option(1)) : input.file;
  read_all(file, [&](FileSystemPtr files) {
    return make_idx_source("file", input.option(2) ? "file" : "", small_files(std::move(files)));
  });
}

std::vector<std::string> idx_seeds() {
  const std::string images(
      "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02"
      "abcd",
      20);
  const std::string labels("\0\0\x08\x01\0\0\0\x02\x01\x02", 10);
  const std::string floats("\0\0\x0d\x02\0\0\0\x01\0\0\0\x02\x3f\x80\0\0\0\0\0\0", 20);
  const std::string integers("\0\0\x0c\x01\0\0\0\x01\0\0\0\x07", 12);
  std::vector<std::string> seeds{with_options(0, packed(images, false))};
  for (const std::string& file : {images, labels, floats, integers}) {
    for (const unsigned options : {0U, 1U, 3U, 4U, 5U})
      seeds.push_back(with_options(options, file));
  }
  return seeds;
}

void run_cifar10(Bytes bytes) {
  const Input input(bytes);
  // A record is 3,073 bytes: some are made of each byte, so that inputs stay short.
  std::string file;
  if (input.option(0)) {
    for (const char c : input.file.substr(0, 16)) file += c + std::string(3072, 'p');
    file += input.file;
  } else {
    file = input.file;
  }
  read_all(file, [&](FileSystemPtr files) {
    return make_cifar10_source({"file"}, small_files(std::move(files)));
  });
}

std::vector<std::string> cifar10_seeds() {
  return {with_options(0, ""), with_options(0, '\x09' + std::string(3072, 'x')),
          with_options(1, std::string("\0\x09\x0a\xff", 4)), with_options(1, "")};
}

void run_npy(Bytes bytes) {
  const Input input(bytes);
  const std::string file = input.option(0) ? npy(input.file, std::string(64, 'd')) : input.file;
  read_all(file, [&](FileSystemPtr files) {
    return make_npy_source({"file"}, small_files(std::move(files)));
  });
}

std::vector<std::string> npy_seeds() {
  std::vector<std::string> seeds;
  for (const char* descr : {"<f4", ">f4", "|u1", "<i8", "|b1", "<f2", ">i2", "|O", "<c8"}) {
    for (const char* shape : {"(2, 3)", "(4,)", "()", "(0, 3)", "(3, 0)", "(99999999999, 2)"}) {
      const std::string text = dictionary(descr, shape);
      seeds.push_back(with_options(1, text));
      seeds.push_back(with_options(0, npy(text, std::string(48, 'x'))));
    }
  }
  return seeds;
}

void run_tokens(Bytes bytes) {
  const Input input(bytes);
  TokenShardsOptions options;
  options.stored = input.option(0) ? DType::u32 : DType::u16;
  constexpr DType kTypes[] = {DType::i32, DType::i64, DType::u32, DType::u16};
  options.dtype = kTypes[(input.option(1) ? 1 : 0) + (input.option(2) ? 2 : 0)];
  options.keep_remainder = input.option(3);
  options.limits = small_limits();
  read_all(input.file, [&](FileSystemPtr files) {
    options.files = std::move(files);
    return make_token_shards_source({"file"}, input.option(4) ? 1 : 5, options);
  });
}

std::vector<std::string> tokens_seeds() {
  using test::little_endian;
  const auto with_header = [](std::uint32_t magic, std::uint32_t version, std::uint32_t count,
                              std::size_t bytes) {
    std::string file = little_endian(magic) + little_endian(version) + little_endian(count);
    file.resize(1024);
    return file + std::string(bytes, '\x7f');
  };
  std::vector<std::string> seeds;
  for (unsigned options = 0; options < 32; ++options) {
    seeds.push_back(with_options(options, std::string(44, 'x')));
    seeds.push_back(with_options(options, with_header(20240520, 1, 13, 26)));
    seeds.push_back(with_options(options, with_header(20240801, 7, 13, 52)));
  }
  seeds.push_back(with_options(0, std::string(43, 'x')));
  seeds.push_back(with_options(0, with_header(20240520, 1, 0xffffffff, 26)));
  seeds.push_back(with_options(0, with_header(20240522, 1, 13, 26)));
  return seeds;
}

void run_csv(Bytes bytes) {
  const Input input(bytes);
  if (input.option(7)) {
    return read_all(input.file, [&](FileSystemPtr files) {
      return make_text_lines_source({"file"}, small_files(std::move(files)));
    });
  }
  CsvOptions options;
  options.header = input.option(0);
  if (input.option(1)) options.delimiter = '\t';
  if (input.option(2)) {
    options.columns = {{"a", DType::i64, "7"}, {"b", DType::f32, {}}, {"c", DType::bytes, {}}};
  }
  if (input.option(3)) options.columns = {{"b", DType::f64, {}}};
  options.limits = small_limits();
  if (input.option(4)) options.limits.max_record_bytes = 16;
  read_all(input.file, [&](FileSystemPtr files) {
    options.files = std::move(files);
    return make_csv_source({"file"}, options);
  });
}

std::vector<std::string> csv_seeds() {
  const std::string commas = "a,b,c\r\n1,2.5,x\n,-1e3,\"q\"\"q,\n\"\n3,nan,\n";
  const std::string numbers = "1,2,3\n-9223372036854775808,1e38,z\n 4 , 5 ,6";
  const std::string tabs = "a\tb\n1\t2\n";
  std::vector<std::string> seeds;
  for (unsigned options = 0; options < 32; ++options) {
    seeds.push_back(with_options(options, (options & 2) != 0 ? tabs : commas));
    if (options % 4 == 0) seeds.push_back(with_options(options, numbers));
  }
  seeds.push_back(with_options(1, "\xef\xbb\xbf" + commas));
  seeds.push_back(with_options(128, "one\r\ntwo\n\nfour"));
  return seeds;
}

}  // namespace penstock::fuzz
