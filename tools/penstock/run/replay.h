// One batch or one record of a pipeline, made again.
#pragma once

#include <cstdint>
#include <string>

#include <penstock/dataset.h>

#include "tools/penstock/graph/pipeline_spec.h"

namespace penstock::tool {

/// Batch `batch` of epoch `epoch`, as the run delivered it; an error in its place is thrown, as is
/// Error{out_of_range} if there are not as many. Where positions of the input are known nothing
/// before it is computed.
Element replay_batch(const PipelineSpec& spec, const RunOptions& run, std::uint64_t epoch,
                     std::uint64_t batch);

/// A line of a quarantine file.
struct QuarantinedRecord {
  std::string shard;
  std::int64_t offset = -1;
  std::int64_t length = -1;
  std::int64_t index = -1;
  std::string stage;
  std::string cause;
};

/// Line `line`, from 1, of the file. Throws UsageError if there is no such line or it is something
/// else.
QuarantinedRecord read_quarantine(const std::string& path, std::uint64_t line);

/// The record as its source gives it, not yet decoded.
Dataset raw_record(const PipelineSpec& spec, const QuarantinedRecord& record);
/// The same behind those of the pipeline's stages that work on single elements.
Dataset worked_record(const PipelineSpec& spec, const QuarantinedRecord& record);

}  // namespace penstock::tool
