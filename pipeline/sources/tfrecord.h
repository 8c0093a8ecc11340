// TFRecord files as a source.
#pragma once

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// {record: bytes}. Plain files are indexed; if any file is compressed the source is a stream.
/// Damaged data is the error of that record, the next goes on. Behind a damaged length, a cut or
/// what does not inflate nothing can be found: one error, the rest of the shard is lost, the next
/// shard goes on. Throws Error{not_found} that lists what is missing.
SourcePtr make_tfrecord_source(const Paths& paths, const TFRecordOptions& options);

}  // namespace penstock
