#include "pipeline/io/exclusive_file.h"

#include <algorithm>
#include <cerrno>

namespace penstock {

ExclusiveFile::ExclusiveFile(const std::string& path, bool resumable)
    : file_(path, {}, {.exclusive = true, .resumable = resumable}) {
  buffer_.reserve(kBuffer);
}

void ExclusiveFile::keep(std::uint64_t size) {
  file_.keep(size);
  size_ = size;
}

void ExclusiveFile::append(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kBuffer - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(),
                   bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (buffer_.size() == kBuffer) flush();
  }
}

void ExclusiveFile::flush() {
  file_.append(buffer_);
  buffer_.clear();
}

void ExclusiveFile::commit() {
  flush();
  file_.commit();
}

}  // namespace penstock
