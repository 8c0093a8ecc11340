// Image records: JPEGs packed into a form that decodes faster, to the same pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <penstock/error.h>
#include <penstock/sources.h>

namespace penstock {

/// The form of a packed JPEG. docs/records.md describes both byte by byte.
enum class ImageRecordKind : std::uint8_t {
  coefficients = 1,  ///< its coefficients, ready to be expanded: fastest, and larger than the file
  indexed = 2,       ///< a JPEG with restart markers and their places: as large as the file
};

/// The options of `pack_images`.
struct ImagePackOptions : FileOptions {
  ImageRecordKind kind = ImageRecordKind::coefficients;  ///< the form of the records
  /// For `indexed`. True: Huffman tables that are optimal for each image. False: one set for the
  /// whole file, from a sample of the images; the file is a little larger and decodes faster.
  bool own_tables = false;
  std::string label_regex{};                  ///< as for images
  std::optional<std::int64_t> label_depth{};  ///< as for images
  bool hidden = false;                        ///< as for images
  /// Refuses files with any warning of the decoder, also one that changes no pixel.
  bool strict_images = false;
  /// Stores the bytes after a JPEG's end with its record: gain maps, motion photos, previews.
  /// `unpack_image` puts them back. They are read with the record, and no decoder looks at them.
  /// Earlier versions of Penstock refuse such a file. False: the bytes are counted and dropped.
  bool keep_tail = false;
  bool skip_bad = false;  ///< leaves out files that do not decode; else the first ends the call
  int threads = 0;        ///< 0: all
  /// Host bytes of the files, the records and the memory of decoders that are in use at once. 0: a
  /// quarter of the container's memory, at most 2 GiB.
  std::uint64_t memory_bytes = 0;
  /// Receives, now and then, how many of all files are done; returns false to stop. The caller's
  /// thread calls it.
  std::function<bool(std::uint64_t done, std::uint64_t all)> progress{};
  /// Receives the error of each file that is left out. The caller's thread calls it.
  std::function<void(const Error&)> bad{};
};

/// The result of `pack_images`.
struct ImagePackResult {
  std::uint64_t records = 0;   ///< in the file
  std::uint64_t resumed = 0;   ///< of these, written by an earlier call
  std::uint64_t left_out = 0;  ///< bad files
  /// Records that hold the file itself, by reason: "png", "components", "markers"…
  std::map<std::string, std::uint64_t> as_they_are{};
  /// Files that have bytes after the JPEG's end, of those that this call made image records of.
  /// Files that are stored as they are keep such bytes and do not count.
  std::uint64_t tails = 0;
  std::uint64_t tail_bytes = 0;  ///< after their ends: stored with `keep_tail`, else dropped
  std::uint64_t zero_tails = 0;  ///< of `tails`, those that are only zeros, as padding is
  std::uint64_t bytes_in = 0;    ///< of the files that became records
  std::uint64_t bytes_out = 0;   ///< of the file written
  bool stopped = false;          ///< by `progress`: the finished records are kept for the next call
};

/// Writes the images of a folder or pattern as one file of records at `path`. It finds, labels and
/// orders them as `images` does. Pixels, coefficients, metadata and orientation are those of the
/// files, and with `keep_tail` so are the bytes after a JPEG's end. Stray bytes between segments,
/// of which a decoder warns, are dropped. Every record is decoded and compared before it is
/// written, and so is the JPEG that `unpack_image` makes of it. Images that can't be represented
/// (PNG, CMYK) are stored as they are.
///
/// The file appears in full or not at all. A call that was stopped or killed leaves `path`.partial,
/// and the next call continues from it if files and options are the same; it leaves nothing of an
/// object of s3:// or gs://. Throws what `images` throws, and Error{data_loss | out_of_range} with
/// its path for a bad file. Throws Error{resource_exhausted}, also with `skip_bad`, for an image
/// that `memory_bytes` does not suffice for, and says how much does. Throws Error{unavailable} if
/// another run is writing the file, and Error{unavailable | resource_exhausted} if it can't be
/// written.
ImagePackResult pack_images(const std::string& folder_or_pattern, const std::string& path,
                            const ImagePackOptions& options = {});
/// Refuses a list, see `images`.
template <std::size_t N>
requires(N > 1) ImagePackResult pack_images(const char* const (&list)[N], const std::string& path,
                                            const ImagePackOptions& options = {})
= delete;

/// Returns the records that `pack_images` wrote: {image: bytes, label: i64, key: bytes}, as from
/// `images`. The images decode with `decode_image` to the same pixels. Several files must all count
/// the same classes. Indexed. Throws Error{data_loss} for a file that is damaged or incomplete.
///
///     image_records({"photos.pnr"}).shuffle().map(decode_image("image").random_resized_crop(224))
Dataset image_records(const Paths& paths, FileOptions options = {});

/// Returns a JPEG with the coefficients and the metadata of the one that was packed, from the
/// `image` of an element. If the bytes after that JPEG's end were kept, they follow. Bytes of
/// another format are returned as they are. Throws Error{data_loss} for a damaged image, and
/// Error{out_of_range} for one with more pixels than the limits allow.
std::string unpack_image(std::string_view image, const Limits& limits = {});

/// Checks all bytes of an image record, from the `image` of an element, without decoding them.
/// No-op for another format. Throws Error{data_loss} for a damaged record. Decoders check only the
/// bytes that they need.
void check_image_record(std::string_view image);

}  // namespace penstock
