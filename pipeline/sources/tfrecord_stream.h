// Reading TFRecords from front to back, through decompression.
#pragma once

#include <memory>
#include <vector>

#include <penstock/source.h>
#include <penstock/sources.h>

#include "pipeline/sources/shards.h"

namespace penstock::tfrecord_file {

/// Makes a stream over all records of the shards. `formats` has none, gzip or zlib for each shard.
std::unique_ptr<RecordStream> make_stream(std::shared_ptr<const Shards> shards,
                                          std::vector<Compression> formats, bool verify,
                                          const Limits& limits);

}  // namespace penstock::tfrecord_file
