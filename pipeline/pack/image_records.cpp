// The public functions of include/penstock/image_records.h.
#include <penstock/image_records.h>
#include <penstock/internal/crc32c.h>
#include <penstock/internal/thread_annotations.h>

#include <algorithm>
#include <optional>
#include <span>

#include "pipeline/core/codec_budget.h"
#include "pipeline/core/machine.h"
#include "pipeline/core/sizes.h"
#include "pipeline/image/decoders.h"
#include "pipeline/jpeg/records/make.h"
#include "pipeline/sources/image_list.h"
#include "pipeline/sources/image_records.h"
#include "pipeline/sources/image_records_writer.h"
#include "pipeline/sources/parallel.h"

namespace penstock {

namespace {

using records_file::Frame;

/// Number of files, for each thread, that are read, converted and written in one batch.
constexpr std::size_t kImagesEach = 16;
/// Number of images from which Huffman tables are computed.
constexpr std::size_t kSample = 256;

/// The memory of files that are being converted, and of what decoders need for them. Thread-safe.
class PackMemory {
 public:
  explicit PackMemory(std::uint64_t limit) : limit_(limit) {}

  std::uint64_t limit() const noexcept { return limit_; }
  bool take(std::uint64_t bytes) noexcept EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (bytes > limit_ - used_) return false;
    used_ += bytes;
    return true;
  }
  void give(std::uint64_t bytes) noexcept EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    used_ -= bytes;
  }

 private:
  const std::uint64_t limit_;
  Mutex mutex_;
  std::uint64_t used_ GUARDED_BY(mutex_) = 0;
};

/// The part of it that one file holds.
class Share final : public CodecBudget {
 public:
  explicit Share(PackMemory& memory) noexcept : memory_(memory) {}
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() { memory_.give(held_); }

  void take(std::uint64_t bytes) override {
    if (!memory_.take(bytes)) {
      constexpr std::uint64_t kMebibyte = 1 << 20;
      const std::uint64_t all = saturating_sum(held_, bytes);
      throw Error(ErrorCode::resource_exhausted,
                  "packing it takes " + std::to_string(all) +
                      " bytes at once, but the memory budget of " +
                      std::to_string(memory_.limit()) +
                      " has no room for them; raise it to at least --memory " +
                      std::to_string(all / kMebibyte + 1) + "MiB");
    }
    held_ += bytes;
  }
  void give(std::uint64_t bytes) noexcept override {
    memory_.give(bytes);
    held_ -= bytes;
  }

 private:
  PackMemory& memory_;
  std::uint64_t held_ = 0;
};

/// One file that is being converted to a record.
struct Packing {
  std::vector<std::byte> file;
  jpeg::Made made;
  std::optional<Error> bad;
  std::optional<Error> lacks_memory;  ///< while others hold some of it
  std::optional<Share> share;

  void clear() noexcept {
    file = {};
    made = {};
    bad.reset();
    lacks_memory.reset();
    share.reset();
  }
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
        memory_(options.memory_bytes > 0 ? options.memory_bytes : default_memory_bytes()),
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
      const std::span<Packing> files(chunk.data(), fitting(chunk.size()));
      for_each_parallel(
          files.size(), [&](std::size_t i) { make(next_ + i, files[i]); }, threads);
      write_all(files);
    }
    if (options_.progress) options_.progress(next_, list_.size());
    result_.bytes_out = writer_.commit(as_they_are_, list_.class_names());
    return std::move(result_);
  }

 private:
  /// Returns how many of the next files to convert at once: as many as take half of the memory with
  /// their records, at least one.
  std::size_t fitting(std::size_t most) const {
    most = std::min(most, list_.size() - next_);
    std::uint64_t bytes = 2 * list_.info(next_).size;
    std::size_t count = 1;
    for (; count < most; ++count) {
      bytes += 2 * list_.info(next_ + count).size;
      if (bytes > memory_.limit() / 2) break;
    }
    return count;
  }

  /// Writes the records in order. A file that found no memory is converted now, when no other is.
  /// If the records behind it are in the way, they are dropped, and made again later.
  void write_all(std::span<Packing> files) {
    bool dropped = false;
    for (std::size_t i = 0; i < files.size() && !dropped; ++i, ++next_) {
      if (files[i].lacks_memory) make(next_, files[i]);
      if (files[i].lacks_memory) {
        dropped = true;
        for (Packing& later : files.subspan(i + 1)) later.clear();
        make(next_, files[i]);
      }
      if (files[i].lacks_memory) throw Error(*files[i].lacks_memory);
      write(files[i]);
      files[i].clear();
    }
  }

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
    // A file is read once or twice, so another ctime does no harm.
    check_unchanged(path, info, files_->read_whole(path, info, file.data()), true);
  }

  /// Computes the tables from images evenly spread over all files. Their errors are found when they
  /// are packed.
  void find_tables(std::size_t threads) {
    const std::size_t count = std::min(list_.size(), kSample);
    std::vector<jpeg::TableSample> samples(count);
    std::vector<char> lacks_memory(count, 0);
    const auto sample = [&](std::size_t i) {
      Share share(memory_);
      TakenBytes taken(&share);
      std::vector<std::byte> file;
      jpeg::CoefficientImage image;
      const std::size_t number = i * list_.size() / count;
      try {
        taken.take(list_.info(number).size);
        read(number, file);
        if (image::detect_format(file) != image::Format::jpeg) return true;
        if (jpeg::read_coefficients(file, options_.limits, image, &taken) != jpeg::Foreign::none)
          return true;
      } catch (const Error& error) {
        // A failed read is passed on, so that it is retried: the tables depend on the file.
        if (error.code() == ErrorCode::unavailable || error.code() == ErrorCode::changed) throw;
        return error.code() != ErrorCode::resource_exhausted;
      }
      samples[i].add(image);
      return true;
    };
    for_each_parallel(
        count, [&](std::size_t i) { lacks_memory[i] = sample(i) ? 0 : 1; }, threads);
    // Packing an image takes more than that. So one that finds no memory now is refused later.
    for (std::size_t i = 0; i < count; ++i) {
      if (lacks_memory[i] != 0) sample(i);
    }
    jpeg::TableSample all;
    for (const jpeg::TableSample& each : samples) all.add(each);
    tables_ = all.tables();
  }

  jpeg::Made record_of(std::span<const std::byte> file, CodecBudget& budget) const {
    const auto kind = static_cast<jpeg::RecordKind>(options_.kind);
    if (image::detect_format(file) == image::Format::jpeg)
      return jpeg::make_record(file, {kind, options_.limits, tables_ ? &*tables_ : nullptr,
                                      options_.strict_images, options_.keep_tail, &budget});
    const DecodeOptions strict{.strict_images = options_.strict_images, .limits = options_.limits};
    if (const Status status = image::verify_image(file, strict, &budget); !status.ok())
      throw Error(status.error());
    return {{}, "png"};
  }

  void make(std::size_t i, Packing& packing) {
    packing.clear();
    const FileInfo& info = list_.info(i);
    packing.share.emplace(memory_);
    try {
      packing.share->take(info.size);
      read(i, packing.file);
      packing.made = record_of(packing.file, *packing.share);
      packing.share->take(packing.made.record.size());
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unavailable) throw;
      const Error placed(error.code(), error.cause(),
                         {.shard = list_.path(i),
                          .offset = 0,
                          .index = static_cast<std::int64_t>(i),
                          .stage = "pack",
                          .length = static_cast<std::int64_t>(info.size)});
      packing.clear();
      (error.code() == ErrorCode::resource_exhausted ? packing.lacks_memory : packing.bad) = placed;
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
  PackMemory memory_;
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
