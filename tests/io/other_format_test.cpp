// Formats that are not read, by their first bytes.
#include <penstock/internal/other_format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/io/memory.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace penstock {
namespace {

using namespace std::string_literals;
using test::noise;
using ::testing::HasSubstr;

/// Returns a zip archive's first header, for a member of that name.
std::string zip(const std::string& name) {
  std::string header = "PK\3\4\x14\0\0\0\0\0"s + std::string(16, '\0');
  header += static_cast<char>(name.size());
  return header + std::string(3, '\0') + name + noise(100);
}

std::string number(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// Returns a shard of MDS as its writer makes it.
std::string mds(const std::vector<std::string>& samples) {
  const std::string config = R"({"column_names": ["x"], "format": "mds"})";
  std::string offsets, data;
  const std::size_t begin = 4 * (samples.size() + 2) + config.size();
  for (const std::string& sample : samples) {
    offsets += number(static_cast<std::uint32_t>(begin + data.size()));
    data += sample;
  }
  offsets += number(static_cast<std::uint32_t>(begin + data.size()));
  return number(static_cast<std::uint32_t>(samples.size())) + offsets + config + data;
}

std::string cifar100(int rows) {
  std::string bytes;
  for (int i = 0; i < rows; ++i) {
    bytes += static_cast<char>(i * 7 % 20);
    bytes += static_cast<char>(i * 31 % 100);
    bytes += noise(3072, static_cast<std::uint64_t>(i));
  }
  return bytes;
}

std::string utf16(const std::string& text, bool big) {
  std::string wide;
  for (const char c : text) wide += big ? "\0"s + c : c + "\0"s;
  return wide;
}

std::string format_of(const std::string& bytes) {
  MemoryFileSystem files;
  files.add("x", bytes);
  const OtherFormat* const format = find_other_format(*files.open("x"));
  if (format == nullptr) return "";
  EXPECT_EQ(find_other_format(test::as_bytes(bytes).first(std::min(bytes.size(), kOtherFormatHead)),
                              bytes.size()),
            format);
  test::expect_error(ErrorCode::data_loss, "this is " + format->text() + " (x)",
                     [&] { refuse_other_format(*files.open("x")); });
  return format->text();
}

TEST(OtherFormat, IsNamedWithWhatToDo) {
  struct Case {
    std::string name;
    std::string remedy;
    std::vector<std::string> inputs;
  };
  const std::string page(16, '\0');
  const Case cases[] = {
      {"an .npz archive", "numpy.load", {zip("x.npy"), zip("arr_0.npy"), zip("a/labels.npy")}},
      {"a file of PyTorch", "numpy.save", {zip("archive/data.pkl"), zip("model/data.pkl")}},
      {"a zip archive",
       "unzip",
       {zip("photos/a.jpg"), zip("x.txt"), zip("[Content_Types].xml"), "PK\5\6"s + page + "\0\0"s}},
      {"compressed by gzip",
       "gunzip",
       {"\x1f\x8b\x08\0"s + noise(50), "\x1f\x8b\x08\x08"s, "\x1f\x8b\x08"s}},
      {"compressed by bzip2", "bunzip2", {"BZh91AY&SY" + noise(20)}},
      {"compressed by xz",
       "unxz",
       {"\xfd"
        "7zXZ\0\0\4"s}},
      {"compressed by zstd", "unzstd", {"\x28\xb5\x2f\xfd" + noise(20)}},
      {"a Parquet file", "read_parquet", {"PAR1\x15\4"s + noise(90), "PAR1PAR1", "PAR1"}},
      {"an Arrow file", "read_feather", {"ARROW1\0\0"s + noise(9), "FEA1" + noise(9)}},
      {"an HDF5 file",
       "h5py",
       {"\x89HDF\r\n\x1a\n" + noise(90), std::string(512, 'M') + "\x89HDF\r\n\x1a\n",
        std::string(2048, '\0') + "\x89HDF\r\n\x1a\n"}},
      {"a MAT-file", "loadmat", {"MATLAB 5.0 MAT-file, Platform: GLNXA64"}},
      {"an LMDB database",
       "tar",
       {page + "\xde\xc0\xef\xbe\1\0\0\0"s, page + "\xde\xc0\xef\xbe"s + noise(8000),
        "\xde\xc0\xef\xbe\2\0\0\0"s}},
      {"an MDS shard",
       "tar",
       {mds({"one"}), mds({"one", "two", "three"}), mds(std::vector<std::string>(640, "x")),
        mds(std::vector<std::string>(20'000, noise(9)))}},
      {"a RecordIO file",
       "TFRecord",
       {"\x0a\x23\xd7\xce\x10\0\0\0"s + noise(16), "\x0a\x23\xd7\xce"s,
        "\x0a\x23\xd7\xce"s + noise(99)}},
      {"a Python pickle",
       "binary version",
       {"\x80\2}q\1(U\x0b"s + "batch_labelq", "\x80\3}q\0(X\5\0\0\0"s,
        "\x80\4\x95\x1f\0\0\0\0\0\0\0"s, "\x80\5\x95"s + noise(9)}},
      {"CIFAR-100", "--record-bytes 3074", {cifar100(1), cifar100(4), cifar100(30)}},
      {"a WebP image",
       "JPEG or PNG",
       {"RIFF\x24\0\0\0WEBPVP8 "s, "RIFF\1\2\3\4WEBPVP8L"s, "RIFF....WEBPVP8X"}},
      {"a HEIC image",
       "JPEG or PNG",
       {"\0\0\0\x18"s + "ftypheic", "\0\0\0\x1c"s + "ftypmif1",
        "\0\0\0\x24"s + "ftypheix\0\0\0\0"s}},
      {"an AVIF image", "JPEG or PNG", {"\0\0\0\x20"s + "ftypavif"}},
      {"a GIF image", "JPEG or PNG", {"GIF89a" + noise(9), "GIF87a"}},
      {"a BMP image", "JPEG or PNG", {"BM" + noise(12) + "\x28\0\0\0"s}},
      {"a TIFF image", "JPEG or PNG", {"II*\0\x08\0\0\0"s, "MM\0*\0\0\0\x08"s}},
      {"a JPEG 2000 image", "JPEG or PNG", {"\0\0\0\x0cjP  \r\n"s}},
      {"a JPEG XL image", "JPEG or PNG", {"\0\0\0\x0cJXL \r\n"s}},
      {"text in UTF-16",
       "iconv",
       {"\xff\xfe" + utf16("a,b\n1,2\n", false), "\xfe\xff" + utf16("a\n", true), "\xff\xfe"s,
        utf16("id,name\n1,Ana\n", false), utf16("id,name\n1,Ana\n", true)}},
      {"text in UTF-32", "iconv", {"\xff\xfe\0\0a\0\0\0"s, "\0\0\xfe\xff\0\0\0a"s}},
  };
  for (const Case& one : cases) {
    for (const std::string& input : one.inputs) {
      const std::string found = format_of(input);
      EXPECT_THAT(found, HasSubstr(one.name)) << testing::PrintToString(input.substr(0, 40));
      EXPECT_THAT(found, HasSubstr(one.remedy)) << one.name;
    }
  }
}

TEST(OtherFormat, UnknownBytes) {
  const std::string inputs[] = {
      "",
      "a",
      "a,b\n1,2\n",
      "BM,PK,II\n",
      "BZ\n",
      "RIFF and WEBP\n",
      "\xef\xbb\xbf"
      "a,b\n",
      "\xff\xd8\xff\xe0" + noise(99),
      "\x89PNG\r\n\x1a\n" + noise(99),
      "\x93NUMPY\1\0"s + noise(99),
      "\0\0\x08\3"s + noise(99),
      std::string(1024, '\0'),
      std::string(64, '\1'),
      number(3) + number(5) + number(4) + noise(99),
      mds({"one", "two"}) + "x",
      "\x80\2\0\0"s + noise(99),
      cifar100(2).substr(0, 6000),
      noise(3074, 7),
  };
  for (const std::string& input : inputs)
    EXPECT_EQ(format_of(input), "") << testing::PrintToString(input.substr(0, 40));
  for (std::uint64_t seed = 0; seed < 2000; ++seed)
    EXPECT_EQ(format_of(noise(999, seed)), "") << seed;
}

TEST(OtherFormat, TruncatedHeads) {
  for (const std::string& whole :
       {zip("x.npy"), mds({"one", "two"}), cifar100(1), utf16("a,b\n1,2\n", true)})
    for (std::size_t size = 0; size < 64; ++size) format_of(whole.substr(0, size));
}

}  // namespace
}  // namespace penstock
