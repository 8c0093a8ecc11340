// Repeats one batch or one record of a pipeline.
#pragma once

#include <cstdint>
#include <string>

#include <penstock/dataset.h>

#include "pipelines/pipeline_spec.h"

namespace penstock::tool {

/// Returns batch `batch` of epoch `epoch`, as the run delivered it. Throws the error that is in its
/// place, or Error{out_of_range} if there are not enough batches. If positions of the input are
/// known, computes nothing before the batch.
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

/// Reads line `line` of the file, counted from 1. Throws UsageError if there is no such line, or if
/// it is not from a quarantine file, and the errors of `error_from_errno` if the file can't be
/// read.
QuarantinedRecord read_quarantine(const std::string& path, std::uint64_t line);

/// Returns the record as its source reads it, before decoding.
Dataset raw_record(const PipelineSpec& spec, const QuarantinedRecord& record);
/// Returns the record after those of the pipeline's stages that work on single elements.
Dataset worked_record(const PipelineSpec& spec, const QuarantinedRecord& record);

}  // namespace penstock::tool
