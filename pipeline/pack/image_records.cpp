// The public functions of include/penstock/image_records.h.
#include <penstock/crc32c.h>
#include <penstock/image_records.h>

#include <algorithm>
#include <optional>
#include <span>

#include "pipeline/core/machine.h"
#include "pipeline/sources/image_list.h"
#include "pipeline/sources/image_records.h"
#include "pipeline/sources/image_records_writer.h"
#include "pipeline/sources/parallel.h"
#include "pipeline/work/image/decoders.h"
#include "pipeline/work/jpeg/records/make.h"

namespace penstock {

namespace {

using records_file::Frame;

/// Number of files, for each thread, that are read, converted and written in one batch.
constexpr std::size_t kImagesEach = 16;
/// Number of images from which Huffman tables are computed.
constexpr std::size_t kSample = 256;

/// One file that is being converted to a record.
struct Packing {
  std::vector<std::byte> file;
  jpeg::Made made;
  std::optional<Error> bad;
};

class Packer {
 public:
  Packer(const std::string& folder_or_pattern, const std::string& path,
         const ImagePackOptions& options)
      : options_(options),
        files_(options.files ? options.files : default_file_system()),
        list_(*files_, folder_or_pattern,
              {.label_regex = options.label_regex,
               .label_depth = options.label_depth,
               .hidden = options.hidden}),
        writer_(path, records_file::make_header(options.kind, options.keep_tail), options.limits,
                [this](const Frame& frame, std::string_view key, std::span<const std::byte> image) {
                  return keep(frame, key, image);
                }) {
    result_.resumed = result_.records;
  }

  ImagePackResult run() {
    const auto threads =
        static_cast<std::size_t>(options_.threads > 0 ? options_.threads : usable_cpus());
    if (options_.kind == ImageRecordKind::indexed && !options_.own_tables) find_tables(threads);
    std::vector<Packing> chunk(threads * kImagesEach);
    while (next_ < list_.size()) {
      if (options_.progress && !options_.progress(next_, list_.size())) {
        result_.stopped = true;
        return std::move(result_);
      }
      const std::size_t count = std::min(chunk.size(), list_.size() - next_);
      for_each_parallel(
          count, [&](std::size_t i) { make(next_ + i, chunk[i]); }, threads);
      for (std::size_t i = 0; i < count; ++i, ++next_) write(chunk[i]);
    }
    if (options_.progress) options_.progress(next_, list_.size());
    result_.bytes_out = writer_.commit(as_they_are_, list_.class_names());
    return std::move(result_);
  }

 private:
  /// Returns true for a record that an earlier run wrote from the same file, as far as this shows
  /// without reading the file again.
  bool keep(const Frame& frame, std::string_view key, std::span<const std::byte> image) {
    const std::size_t i = frame.number;
    if (i >= list_.size() || i < next_ || (i > next_ && !options_.skip_bad)) return false;
    if (list_.key(i) != key || list_.label(i) != frame.label ||
        list_.info(i).size != frame.original_bytes || image.size() != frame.image_bytes)
      return false;
    result_.left_out += i - next_;
    next_ = i + 1;
    count(frame, frame.as_it_is ? "before" : "");
    return true;
  }

  void count(const Frame& frame, const std::string& why) {
    ++result_.records;
    result_.bytes_in += frame.original_bytes;
    if (!frame.as_it_is) return;
    ++as_they_are_;
    ++result_.as_they_are[why];
  }

  void read(std::size_t i, std::vector<std::byte>& file) const {
    const FileInfo& info = list_.info(i);
    if (info.size > options_.limits.max_record_bytes)
      throw Error(ErrorCode::out_of_range,
                  "the file has " + std::to_string(info.size) + " bytes, more than the limit");
    file.resize(info.size);
    const std::string path = list_.path(i);
    check_unchanged(path, info, files_->read_whole(path, info, file.data()), false);
  }

  /// Computes the tables from images evenly spread over all files. Their errors are found when they
  /// are packed.
  void find_tables(std::size_t threads) {
    const std::size_t count = std::min(list_.size(), kSample);
    std::vector<jpeg::TableSample> samples(count);
    for_each_parallel(
        count,
        [&](std::size_t i) {
          std::vector<std::byte> file;
          jpeg::CoefficientImage image;
          try {
            read(i * list_.size() / count, file);
            if (image::detect_format(file) != image::Format::jpeg) return;
            if (jpeg::read_coefficients(file, options_.limits, image) != jpeg::Foreign::none)
              return;
          } catch (const Error& error) {
            // A failed read is passed on, so that it is retried: the tables depend on the file.
            if (error.code() == ErrorCode::unavailable) throw;
            return;
          }
          samples[i].add(image);
        },
        threads);
    jpeg::TableSample all;
    for (const jpeg::TableSample& sample : samples) all.add(sample);
    tables_ = all.tables();
  }

  jpeg::Made record_of(std::span<const std::byte> file) const {
    const auto kind = static_cast<jpeg::RecordKind>(options_.kind);
    if (image::detect_format(file) == image::Format::jpeg)
      return jpeg::make_record(file, {kind, options_.limits, tables_ ? &*tables_ : nullptr,
                                      options_.strict_images, options_.keep_tail});
    const DecodeOptions strict{.strict_images = options_.strict_images, .limits = options_.limits};
    if (const Status status = image::verify_image(file, strict); !status.ok())
      throw Error(status.error());
    return {{}, "png"};
  }

  void make(std::size_t i, Packing& packing) const {
    packing.bad.reset();
    const FileInfo& info = list_.info(i);
    try {
      read(i, packing.file);
      packing.made = record_of(packing.file);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unavailable) throw;
      packing.bad = Error(error.code(), error.cause(),
                          {.shard = list_.path(i),
                           .offset = 0,
                           .index = static_cast<std::int64_t>(i),
                           .stage = "pack",
                           .length = static_cast<std::int64_t>(info.size)});
    }
  }

  /// The file number `next_`.
  void write(const Packing& packing) {
    if (packing.bad) {
      if (!options_.skip_bad) throw Error(*packing.bad);
      ++result_.left_out;
      if (options_.bad) options_.bad(*packing.bad);
      return;
    }
    Frame frame;
    frame.as_it_is = packing.made.record.empty();
    const std::vector<std::byte>& image = frame.as_it_is ? packing.file : packing.made.record;
    const std::string_view key = list_.key(next_);
    frame.key_bytes = key.size();
    frame.image_bytes = image.size();
    frame.label = list_.label(next_);
    frame.number = next_;
    frame.original_bytes = packing.file.size();
    frame.image_crc = crc32c(image);
    writer_.append(frame, key, image);
    count(frame, packing.made.why);
    count_tail(packing.made.tail);
  }

  void count_tail(std::span<const std::byte> tail) {
    if (tail.empty()) return;
    ++result_.tails;
    result_.tail_bytes += tail.size();
    if (std::ranges::all_of(tail, [](std::byte b) { return b == std::byte{0}; }))
      ++result_.zero_tails;
  }

  const ImagePackOptions& options_;
  FileSystemPtr files_;
  ImageList list_;
  std::size_t next_ = 0;  // the file that is packed next
  ImagePackResult result_;
  std::optional<jpeg::SharedTables> tables_;
  std::uint64_t as_they_are_ = 0;
  ImageRecordsWriter writer_;  // last: it reads what was left behind
};

}  // namespace

ImagePackResult pack_images(const std::string& folder_or_pattern, const std::string& path,
                            const ImagePackOptions& options) {
  return Packer(folder_or_pattern, path, options).run();
}

Dataset image_records(const Paths& paths, FileOptions options) {
  return Dataset(make_image_records_source(paths, options));
}

std::string unpack_image(std::string_view image, const Limits& limits) {
  const auto bytes = std::as_bytes(std::span(image));
  if (!jpeg::is_record(bytes)) return std::string(image);
  const jpeg::Record record = jpeg::read_record(bytes);
  const std::vector<std::byte> jpeg = jpeg::jpeg_of(record, limits);
  const std::span<const std::byte> tail = record.read_tail();
  std::string file;
  file.reserve(jpeg.size() + tail.size());
  file.append(reinterpret_cast<const char*>(jpeg.data()), jpeg.size());
  file.append(reinterpret_cast<const char*>(tail.data()), tail.size());
  return file;
}

void check_image_record(std::string_view image) {
  const auto bytes = std::as_bytes(std::span(image));
  if (!jpeg::is_record(bytes)) return;
  const jpeg::Record record = jpeg::read_record(bytes);
  record.check_all();
  static_cast<void>(record.read_tail());
}

}  // namespace penstock
