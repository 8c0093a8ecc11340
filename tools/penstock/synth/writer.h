// Where synthetic samples are written to: one implementation for each format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tools/penstock/synth/picture.h"

namespace penstock::tool {

/// One sample, ready to be written. Which fields count depends on the format.
struct Sample {
  std::uint64_t index = 0;
  int label = 0;
  Picture picture;      ///< formats of pixels
  std::string encoded;  ///< formats of files: a JPEG, or the damage done to one
  std::string fault;    ///< a fault of the format itself: "crc", "label", "field"; else empty
};

/// Where a sample came to lie.
struct Place {
  std::string file;          ///< relative to the data set
  std::uint64_t offset = 0;  ///< of the whole sample, as errors give it
  std::uint64_t bytes = 0;
};

struct WriterOptions {
  std::string folder;  ///< exists
  std::uint64_t count = 0;
  int classes = 10;
  int shards = 1;
  std::string compression = "none";  ///< tfrecord, idx: none, gzip, zlib (tfrecord alone)
};

/// Takes samples in the order of their index. Not synchronised.
class Writer {
 public:
  virtual ~Writer() = default;
  /// Throws Error{unavailable} with the file and the system's reason.
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

/// "000042".
std::string sample_key(std::uint64_t index);
/// "class_07".
std::string class_name(int label, int classes);
/// The shard that sample `index` belongs to: runs of neighbours, lengths differing by at most one.
int shard_of(std::uint64_t index, std::uint64_t count, int shards);
/// "data-00001-of-00004.tar".
std::string shard_name(int shard, int shards, const std::string& extension);

}  // namespace penstock::tool
