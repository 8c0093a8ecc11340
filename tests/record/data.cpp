#include "tests/record/data.h"

#include <filesystem>
#include <map>

#include <zlib.h>

#include <penstock/image_records.h>

#include "pipeline/sources/synthetic_jpeg.h"
#include "tests/support/deflate.h"
#include "tests/support/example.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock::test {
namespace {

const TempFolder& folder() {
  static const TempFolder folder;
  return folder;
}

std::string big_endian(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

std::string png_chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(crc));
}

std::string shard(const std::string& stem, int number, const std::string& extension) {
  return stem + "-" + std::to_string(number) + extension;
}

std::vector<std::string> records_of(int number) {
  std::vector<std::string> records;
  for (int i = 8 * number; i < 8 * (number + 1); ++i) records.push_back(text_record(i));
  return records;
}

}  // namespace

void enter_folder() {
  static const bool entered = (std::filesystem::current_path(folder().path()), true);
  (void)entered;
}

std::string text_record(int i) {
  return std::to_string(i) + ":" + noise(5 + static_cast<std::size_t>(i * 37 % 90), i + 1U);
}

std::string small_jpeg(int i) {
  return make_synthetic_jpeg(24 + i * 11 % 40, 24 + i * 17 % 40, static_cast<std::uint64_t>(i));
}

std::string small_png(int i) {
  const std::uint32_t height = 20;
  const std::uint32_t width = 30;
  std::string rows;
  for (std::uint32_t y = 0; y < height; ++y) rows += '\0' + noise(width, y + 100U * (i + 1U));
  return "\x89PNG\r\n\x1a\n" +
         png_chunk("IHDR",
                   big_endian(width) + big_endian(height) + std::string("\x08\0\0\0\0", 5)) +
         png_chunk("IDAT", deflated(rows, Wrapper::zlib, 0)) + png_chunk("IEND", "");
}

std::string idx_of(const std::vector<std::uint32_t>& dims, const std::string& data) {
  std::string out = {0, 0, 8, static_cast<char>(dims.size())};
  for (const std::uint32_t dim : dims) out += big_endian(dim);
  return out + data;
}

std::string npy_of(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(header.size() + 63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\0", 8) +
         little_endian(static_cast<std::uint16_t>(header.size())) + header + data;
}

std::string file_of(const std::string& name, const std::string& bytes) {
  enter_folder();
  static std::map<std::string, std::string> written;
  if (written.emplace(name, bytes).second) folder().write(name, bytes);
  return name;
}

std::string pictures() {
  const char* const classes[] = {"cat", "dog", "eel"};
  for (int i = 0; i < 10; ++i) {
    const std::string stem = std::string("pictures/") + classes[i % 3] + "/" + std::to_string(i);
    if (i == 4) {
      file_of(stem + ".png", small_png(i));
    } else {
      file_of(stem + ".jpg", small_jpeg(i));
    }
  }
  return "pictures";
}

std::string image_tars() {
  for (int number = 0; number < 2; ++number) {
    std::string bytes;
    for (int i = 5 * number; i < 5 * (number + 1); ++i) {
      const std::string key = "photo-" + std::to_string(100 + i);
      bytes += tar_member(key + ".jpg", small_jpeg(i)) +
               tar_member(key + ".cls", std::to_string(i * 3 % 7));
    }
    file_of(shard("images", number, ".tar"), bytes + tar_end());
  }
  return "images-*.tar";
}

std::string member_tars() {
  for (int number = 0; number < 2; ++number) {
    std::string bytes;
    for (int i = 6 * number; i < 6 * (number + 1); ++i) {
      const std::string key =
          (i % 2 == 0 ? "even/sample-" : "odd/sample-") + std::to_string(100 + i);
      bytes += tar_member(key + ".txt", text_record(i)) +
               tar_member(key + ".json", "{\"n\":" + std::to_string(i * i) + "}");
    }
    file_of(shard("members", number, ".tar"), bytes + tar_end());
  }
  return "members-*.tar";
}

std::string tfrecords() {
  for (int number = 0; number < 3; ++number)
    file_of(shard("part", number, ".tfrecord"), tfrecords_of(records_of(number)));
  return "part-*.tfrecord";
}

std::string packed_tfrecords(const std::string& wrapper) {
  for (int number = 0; number < 3; ++number) {
    // Stored, not compressed, so that the size does not depend on the library's version.
    file_of(shard("part", number, "." + wrapper),
            deflated(tfrecords_of(records_of(number)),
                     wrapper == "gzip" ? Wrapper::gzip : Wrapper::zlib, 0));
  }
  return "part-*." + wrapper;
}

std::string examples() {
  std::vector<std::string> messages;
  for (int i = 0; i < 12; ++i) {
    std::string entries = feature("name", bytes_feature({"n" + std::to_string(i)})) +
                          feature("weights", float_feature({0.5F * static_cast<float>(i), -1}));
    if (i % 3 != 0) entries += feature("id", int_feature({i * 1000}));
    std::vector<std::int64_t> tokens;
    for (int k = 0; k < i % 4; ++k) tokens.push_back(i + k);
    entries += feature("tokens", int_feature(tokens));
    messages.push_back(example_of(entries));
  }
  return file_of("examples.tfrecord", tfrecords_of(messages));
}

std::string packed_pictures(bool coefficients) {
  const std::string name = coefficients ? "coefficients.pnr" : "indexed.pnr";
  const std::string from = pictures();
  if (!std::filesystem::exists(name)) {
    ImagePackOptions options;
    options.kind = coefficients ? ImageRecordKind::coefficients : ImageRecordKind::indexed;
    options.threads = 1;
    pack_images(from, name, options);
  }
  return name;
}

std::string tables() {
  for (int number = 0; number < 2; ++number) {
    std::string bytes = "id,word,share,empty\n";
    for (int i = 7 * number; i < 7 * (number + 1); ++i) {
      bytes += std::to_string(i * 3) + ",\"word, " + std::to_string(i) + " \"\"q\"\"\"," +
               std::to_string(i) + ".25," + (i % 2 == 0 ? "" : "7") + (i % 3 == 0 ? "\r\n" : "\n");
    }
    file_of(shard("table", number, ".csv"), bytes);
  }
  return "table-*.csv";
}

}  // namespace penstock::test
