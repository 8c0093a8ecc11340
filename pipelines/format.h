// The formats of data files.
#pragma once

namespace penstock::tool {

enum class Format {
  folder,
  jpeg,
  png,
  tar,
  tfrecord,
  idx,
  cifar10,
  npy,
  csv,
  lines,
  records,
  tokens,
  unknown
};

}  // namespace penstock::tool
