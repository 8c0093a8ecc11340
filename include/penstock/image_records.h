// JPEGs packed into a form that decodes faster, to the same pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <penstock/error.h>
#include <penstock/sources.h>

namespace penstock {

/// What a JPEG becomes. docs/records.md describes both byte by byte.
enum class ImageRecordKind : std::uint8_t {
  coefficients = 1,  ///< its coefficients, ready to be expanded: fastest, and larger than the file
  indexed = 2,       ///< a JPEG with restart markers, and where they are: as large as the file
};

struct ImagePackOptions : FileOptions {
  ImageRecordKind kind = ImageRecordKind::coefficients;
  /// Indexed: Huffman tables that are optimal for each image; else one set for the whole file, from
  /// a sample of the images, which is a little larger and decodes faster.
  bool own_tables = false;
  std::string label_regex{};  ///< as for images
  bool skip_bad = false;      ///< leave out files that do not decode; else the first ends it
  int threads = 0;            ///< 0: all
  /// Called by the caller's thread, now and then, with how many files are done of all; false stops.
  std::function<bool(std::uint64_t done, std::uint64_t all)> progress{};
  /// Called by the caller's thread for each file that is left out.
  std::function<void(const Error&)> bad{};
};

struct ImagePackResult {
  std::uint64_t records = 0;
  std::uint64_t resumed = 0;   ///< of these, that were there already
  std::uint64_t left_out = 0;  ///< bad files
  /// Records that hold the file itself, by why: "png", "components", "markers"…
  std::map<std::string, std::uint64_t> as_they_are{};
  std::uint64_t bytes_in = 0;   ///< of the files that became records
  std::uint64_t bytes_out = 0;  ///< of the file written
  bool stopped = false;         ///< by `progress`: what is done is kept for the next time
};

/// Writes the images of a folder or pattern, found, labelled and in the order as `images` does it,
/// as one file of records at `path`. Pixels, coefficients, metadata and orientation are those of
/// the files: every record is decoded and compared before it is written, and so is the JPEG that
/// `unpack_image` makes of it. What can't be represented (PNG, CMYK) is stored as it is.
///
/// The file is there in full or not at all. A run that was stopped or killed leaves `path`.partial,
/// with which the next one goes on if files and options are the same. Throws what `images` throws,
/// Error{data_loss | out_of_range} with its path for a bad file, Error{unavailable} if another run
/// is writing the file, and Error{unavailable | resource_exhausted} if it can't be written.
ImagePackResult pack_images(const std::string& folder_or_pattern, const std::string& path,
                            const ImagePackOptions& options = {});
/// Takes no list, see `images`.
template <std::size_t N>
requires(N > 1) ImagePackResult pack_images(const char* const (&list)[N], const std::string& path,
                                            const ImagePackOptions& options = {})
= delete;

/// What `pack_images` wrote: {image: bytes, label: i64, key: bytes}, as from `images`; the images
/// decode with `decode_image` to the same pixels. Of several files all must count the same classes.
/// Indexed. Throws Error{data_loss} for a file that is damaged or incomplete.
///
///     image_records({"photos.pnr"}).shuffle().map(decode_image("image").random_resized_crop(224))
Dataset image_records(const Paths& paths, FileOptions options = {});

/// A JPEG with the coefficients and the metadata of the one that was packed, from the `image` of
/// an element; the bytes themselves if they are of another format. Throws Error{data_loss} for a
/// damaged one, and Error{out_of_range} for one of more pixels than the limits allow.
std::string unpack_image(std::string_view image, const Limits& limits = {});

}  // namespace penstock
