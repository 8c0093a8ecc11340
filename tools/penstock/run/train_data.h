// The data that `penstock train` is given.
#pragma once

#include <string>

#include <penstock/dataset.h>

namespace penstock::tool {

/// Elements by what the name of `path` looks like: texts (.csv with a header) or labelled images:
/// tar shards (.tar), image records (.pnr), CIFAR-10's binary files (.bin), a pair of IDX files
/// "IMAGES,LABELS" (MNIST), or a folder or pattern of image files. Throws UsageError or Error.
Dataset open_train_data(const std::string& path);

/// The records from A up to B for a `range` "A:B"; either may be missing, and the range be empty.
/// Throws UsageError.
Dataset records_in(const Dataset& dataset, const std::string& range);

}  // namespace penstock::tool
