// The data that `penstock train` is given.
#pragma once

#include <string>

#include <penstock/dataset.h>

namespace penstock::tool {

/// Elements by what `path` looks like: texts (.csv with a header) or labelled images, tar shards
/// (.tar), CIFAR-10's binary files (.bin), a pair of IDX files "IMAGES,LABELS" (MNIST), or a folder
/// or pattern of image files. `range` "A:B" keeps the records from A up to B; either may be
/// missing. Throws UsageError or Error.
Dataset open_train_data(const std::string& path, const std::string& range = {});

}  // namespace penstock::tool
