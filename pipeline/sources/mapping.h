// Views of mapped files.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include <penstock/buffer.h>
#include <penstock/file_system.h>

#include "pipeline/io/posix.h"

namespace penstock {

/// A mapped file as the memory of tensors. While it is used, another process may write to the file,
/// which the tensors then show. So results of these tensors are good only if `check` passes after
/// they were made.
class Mapping final : public Buffer {
 public:
  /// Views the whole of `file`, which was `found` to be so at the start.
  Mapping(std::shared_ptr<File> file, const FileInfo& found)
      : file_(std::move(file)), found_(found) {
    const std::span<const std::byte> bytes = file_->mapped();
    data_ = const_cast<std::byte*>(bytes.data());
    size_ = bytes.size();
    if (mapping() != nullptr) any_.store(true, std::memory_order_relaxed);
  }

  /// Returns true once there was a mapping of a file that others may write to.
  static bool any() noexcept { return any_.load(std::memory_order_relaxed); }
  /// Null for a file that only this process has.
  const Mapping* mapping() const noexcept override { return found_.ctime_ns == 0 ? nullptr : this; }
  /// Throws Error{data_loss} if the file has changed.
  void check(bool trust_data) const {
    check_unchanged(file_->path(), found_, file_->now(), trust_data);
  }
  const std::string& path() const noexcept { return file_->path(); }

 private:
  void dispose() noexcept override { delete this; }

  static inline std::atomic<bool> any_{false};
  const std::shared_ptr<File> file_;
  const FileInfo found_;
};

}  // namespace penstock
