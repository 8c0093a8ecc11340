// Writers of synthetic samples, with one implementation for each format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tools/penstock/synth/picture.h"

namespace penstock::tool {

/// One sample, ready to be written. The format decides which fields are used.
struct Sample {
  std::uint64_t index = 0;
  int label = 0;
  Picture picture;      ///< for formats that hold pixels
  std::string encoded;  ///< for formats that hold files: a JPEG, or a damaged one
  std::string fault;    ///< a fault of the format itself: "crc", "label", "field"; else empty
};

/// The place where a sample was written.
struct Place {
  std::string file;          ///< relative to the folder of the data set
  std::uint64_t offset = 0;  ///< of the whole sample, as errors report it
  std::uint64_t bytes = 0;
};

struct WriterOptions {
  std::string folder;  ///< must exist
  std::uint64_t count = 0;
  int classes = 10;
  int shards = 1;
  std::string compression = "none";  ///< for tfrecord and idx: none, gzip, or (tfrecord only) zlib
};

/// A writer that takes samples in the order of their index. Not synchronised.
class Writer {
 public:
  virtual ~Writer() = default;
  /// Writes a sample. Throws Error{unavailable} with the file and the system's reason.
  virtual Place add(const Sample& sample) = 0;
  /// Completes and closes all files. Call it once, at the end.
  virtual void finish() = 0;
};

std::unique_ptr<Writer> make_folder_writer(const WriterOptions& options);
std::unique_ptr<Writer> make_tar_writer(const WriterOptions& options);
std::unique_ptr<Writer> make_tfrecord_writer(const WriterOptions& options);
std::unique_ptr<Writer> make_cifar10_writer(const WriterOptions& options);
std::unique_ptr<Writer> make_idx_writer(const WriterOptions& options);
std::unique_ptr<Writer> make_csv_writer(const WriterOptions& options);

/// Returns text such as "000042".
std::string sample_key(std::uint64_t index);
/// Returns text such as "class_07".
std::string class_name(int label, int classes);
/// Returns the shard of sample `index`. Each shard has a run of neighbours; the lengths differ by
/// at most one.
int shard_of(std::uint64_t index, std::uint64_t count, int shards);
/// Returns text such as "data-00001-of-00004.tar".
std::string shard_name(int shard, int shards, const std::string& extension);

}  // namespace penstock::tool
