#include <penstock/internal/other_format.h>

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <vector>

namespace penstock {
namespace {

using namespace std::string_view_literals;

/// The first bytes of a file.
struct FileHead {
  std::string_view bytes;
  std::uint64_t size = 0;  ///< of the file

  bool has(std::size_t at, std::string_view text) const noexcept {
    return at <= bytes.size() && bytes.substr(at).starts_with(text);
  }
  unsigned byte(std::size_t at) const noexcept {
    return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
  }
  /// Returns a little-endian number.
  std::uint64_t number(std::size_t at, std::size_t width) const noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;) value = value << 8 | byte(at + i);
    return value;
  }
};

/// Returns the name of a zip archive's first member. Source: PKWARE's APPNOTE.TXT, 4.3.7.
std::string_view first_member(const FileHead& head) noexcept {
  constexpr std::size_t kName = 30;
  if (head.bytes.size() < kName) return {};
  return head.bytes.substr(kName, head.number(26, 2));
}

bool is_npz(const FileHead& head) noexcept {
  return first_member(head).ends_with(".npy");
}

bool is_torch(const FileHead& head) noexcept {
  return first_member(head).ends_with("/data.pkl");
}

/// Protocols 2 to 5 begin with their number. A printable opcode or a frame follows.
bool is_pickle(const FileHead& head) noexcept {
  const unsigned protocol = head.byte(1), opcode = head.byte(2);
  return protocol >= 2 && protocol <= 5 &&
         ((opcode >= 0x20 && opcode < 0x7f) || opcode == 0x95 || opcode == 0x8c);
}

/// True for a number of samples, the ascending offsets of these up to the file's end, and the JSON
/// that says how they are encoded. Source: MosaicML streaming, base/format/mds/writer.py.
bool is_mds(const FileHead& head) noexcept {
  const std::uint64_t samples = head.number(0, 4);
  const std::uint64_t json = 4 * (samples + 2);  // behind the offsets
  if (samples == 0 || json >= head.size || head.bytes.size() < 12) return false;
  if (json + 2 <= head.bytes.size() && !head.has(json, "{\"")) return false;
  std::uint64_t last = json;
  for (std::size_t at = 4; at < json && at + 4 <= head.bytes.size(); at += 4) {
    const std::uint64_t offset = head.number(at, 4);
    if (offset <= (at == 4 ? json : last - 1) || offset > head.size) return false;
    last = offset;
  }
  return json > head.bytes.size() || last == head.size;
}

/// Source: ISO/IEC 14496-12, 4.3: a box "ftyp" with a brand.
bool has_brand(const FileHead& head, std::initializer_list<std::string_view> brands) noexcept {
  return std::ranges::any_of(brands, [&](std::string_view brand) { return head.has(8, brand); });
}
bool is_heic(const FileHead& head) noexcept {
  return has_brand(head, {"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"});
}
bool is_avif(const FileHead& head) noexcept {
  return has_brand(head, {"avif", "avis"});
}
bool is_webp(const FileHead& head) noexcept {
  return head.has(8, "WEBP");
}
/// True if the size of the second header is one that there is.
bool is_bmp(const FileHead& head) noexcept {
  const std::uint64_t size = head.number(14, 4);
  return size == 12 || size == 40 || size == 52 || size == 56 || size == 64 || size == 108 ||
         size == 124;
}

/// True if every second byte from `zeros` on is 0, and the others are plain text.
bool is_wide_text(const FileHead& head, std::size_t zeros) noexcept {
  const std::string_view text = head.bytes.substr(0, 64);
  if (text.size() < 8 || head.size % 2 != 0) return false;
  for (std::size_t i = 0; i < text.size() / 2 * 2; ++i) {
    const unsigned byte = head.byte(i);
    const bool plain = (byte >= 0x20 && byte < 0x7f) || (byte >= 9 && byte <= 13);
    if (i % 2 == zeros ? byte != 0 : !plain) return false;
  }
  return true;
}
bool is_utf16_little(const FileHead& head) noexcept {
  return is_wide_text(head, 1);
}
bool is_utf16_big(const FileHead& head) noexcept {
  return is_wide_text(head, 0);
}

/// True for rows of a coarse label below 20, a fine label below 100, and 3,072 bytes of pixels.
bool is_cifar100(const FileHead& head) noexcept {
  constexpr std::size_t kRow = 2 + 3072;
  if (head.size == 0 || head.size % kRow != 0) return false;
  for (std::size_t at = 0; at < head.bytes.size(); at += kRow)
    if (head.byte(at) >= 20 || head.byte(at + 1) >= 100) return false;
  return true;
}

constexpr OtherFormat kNpz{"an .npz archive of NumPy",
                           "load it by numpy.load, and save each array by numpy.save"};
constexpr OtherFormat kTorch{
    "a file of PyTorch (torch.save)",
    "load it there; save arrays by numpy.save, and variables by safetensors"};
constexpr OtherFormat kZip{"a zip archive", "unpack it first (unzip)"};
constexpr OtherFormat kGzip{"compressed by gzip", "decompress it first (gunzip)"};
constexpr OtherFormat kBzip2{"compressed by bzip2", "decompress it first (bunzip2)"};
constexpr OtherFormat kXz{"compressed by xz", "decompress it first (unxz)"};
constexpr OtherFormat kZstd{"compressed by zstd", "decompress it first (unzstd)"};
constexpr OtherFormat kParquet{
    "a Parquet file", "convert it, as pandas.read_parquet(FILE).to_csv(OTHER, index=False) does"};
constexpr OtherFormat kArrow{
    "an Arrow file (Feather)",
    "convert it, as pandas.read_feather(FILE).to_csv(OTHER, index=False) does"};
constexpr OtherFormat kHdf5{"an HDF5 file", "read its arrays by h5py, and save them by numpy.save"};
constexpr OtherFormat kMatlab{"a MAT-file of MATLAB",
                              "load it by scipy.io.loadmat, and save its arrays by numpy.save"};
constexpr OtherFormat kLmdb{"an LMDB database", "write its values to tar shards or TFRecord files"};
constexpr OtherFormat kMds{"an MDS shard of MosaicML streaming",
                           "write its samples to tar shards or TFRecord files"};
constexpr OtherFormat kRecordIo{"a RecordIO file of MXNet",
                                "write its records to tar shards or TFRecord files"};
constexpr OtherFormat kPickle{"a Python pickle, as CIFAR's Python version is",
                              "take CIFAR's binary version; save other arrays by numpy.save"};
constexpr OtherFormat kCifar100{
    "CIFAR-100, whose records of 3074 bytes have two labels",
    "read them as bytes, by --records with --record-bytes 3074 (fixed_records)"};
constexpr std::string_view kConvert = "convert it to JPEG or PNG";
constexpr OtherFormat kUtf16{"text in UTF-16", "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"};
constexpr OtherFormat kUtf16Little{"text in UTF-16 (little-endian)",
                                   "convert it to UTF-8 (iconv -f UTF-16LE -t UTF-8)"};
constexpr OtherFormat kUtf16Big{"text in UTF-16 (big-endian)",
                                "convert it to UTF-8 (iconv -f UTF-16BE -t UTF-8)"};
constexpr OtherFormat kUtf32{"text in UTF-32", "convert it to UTF-8 (iconv -f UTF-32 -t UTF-8)"};

/// A format has these bytes at that offset, and is what `also` says.
struct FormatRow {
  OtherFormat format;
  std::size_t at;
  std::string_view bytes;
  bool (*also)(const FileHead& head) noexcept = nullptr;
};

// The first row that fits counts.
constexpr FormatRow kRows[] = {
    {kNpz, 0, "PK\3\4"sv, is_npz},
    {kTorch, 0, "PK\3\4"sv, is_torch},
    {kZip, 0, "PK\3\4"sv},
    {kZip, 0, "PK\5\6"sv},  // of no member
    {kGzip, 0, "\x1f\x8b\x08"sv},
    {kBzip2, 0, "BZh"sv},
    {kXz, 0,
     "\xfd"
     "7zXZ\0"sv},
    {kZstd, 0, "\x28\xb5\x2f\xfd"sv},
    {kParquet, 0, "PAR1"sv},
    {kArrow, 0, "ARROW1\0\0"sv},
    {kArrow, 0, "FEA1"sv},
    {kMatlab, 0, "MATLAB 5.0 MAT-file"sv},
    {kHdf5, 0, "\x89HDF\r\n\x1a\n"sv},
    {kHdf5, 512, "\x89HDF\r\n\x1a\n"sv},
    {kHdf5, 1024, "\x89HDF\r\n\x1a\n"sv},
    {kHdf5, 2048, "\x89HDF\r\n\x1a\n"sv},
    {kLmdb, 16, "\xde\xc0\xef\xbe"sv},  // data.mdb, behind a page's header
    {kLmdb, 0, "\xde\xc0\xef\xbe"sv},   // lock.mdb
    {kRecordIo, 0, "\x0a\x23\xd7\xce"sv},
    {kMds, 0, ""sv, is_mds},
    {kPickle, 0, "\x80"sv, is_pickle},
    {{"a WebP image", kConvert}, 0, "RIFF"sv, is_webp},
    {{"a HEIC image", kConvert}, 4, "ftyp"sv, is_heic},
    {{"an AVIF image", kConvert}, 4, "ftyp"sv, is_avif},
    {{"a GIF image", kConvert}, 0, "GIF8"sv},
    {{"a BMP image", kConvert}, 0, "BM"sv, is_bmp},
    {{"a TIFF image", kConvert}, 0, "II*\0"sv},
    {{"a TIFF image", kConvert}, 0, "MM\0*"sv},
    {{"a JPEG 2000 image", kConvert}, 0, "\0\0\0\x0cjP  "sv},
    {{"a JPEG XL image", kConvert}, 0, "\0\0\0\x0cJXL "sv},
    {kUtf32, 0, "\xff\xfe\0\0"sv},
    {kUtf32, 0, "\0\0\xfe\xff"sv},
    {kUtf16, 0, "\xff\xfe"sv},
    {kUtf16, 0, "\xfe\xff"sv},
    {kUtf16Little, 1, "\0"sv, is_utf16_little},
    {kUtf16Big, 0, "\0"sv, is_utf16_big},
    {kCifar100, 0, ""sv, is_cifar100},
};

}  // namespace

std::string OtherFormat::text() const {
  return std::string(name) + ": " + std::string(remedy);
}

const OtherFormat* find_other_format(std::span<const std::byte> head, std::uint64_t size) noexcept {
  const FileHead first{{reinterpret_cast<const char*>(head.data()), head.size()}, size};
  const auto fits = [&](const FormatRow& row) {
    return first.has(row.at, row.bytes) && (row.also == nullptr || row.also(first));
  };
  const auto row = std::ranges::find_if(kRows, fits);
  return row == std::end(kRows) ? nullptr : &row->format;
}

const OtherFormat* find_other_format(File& file) noexcept {
  try {
    std::vector<std::byte> head(std::min<std::uint64_t>(file.info().size, kOtherFormatHead));
    file.read_exactly(0, head);
    return find_other_format(head, file.info().size);
  } catch (const std::exception&) {
    return nullptr;
  }
}

void refuse_other_format(File& file) {
  if (const OtherFormat* const format = find_other_format(file))
    throw Error(ErrorCode::data_loss, "this is " + format->text(),
                {.shard = file.path(), .stage = {}});
}

}  // namespace penstock
