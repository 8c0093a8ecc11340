// Views of mapped files.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <penstock/buffer.h>
#include <penstock/file_system.h>
#include <penstock/source.h>
#include <penstock/tensor.h>

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
  /// Throws Error{changed} if the file has changed.
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

/// Returns a key as a tensor. It is a view of `owner` if the key lies there, and no other process
/// may write there. Otherwise it is a copy, so that a batch keeps its keys whatever happens to the
/// file.
inline Tensor key_tensor(std::string_view key, const BufferPtr& owner, ReadContext& context) {
  if (owner && owner->mapping() == nullptr) {
    const auto* const begin = reinterpret_cast<const char*>(owner->data());
    const std::less_equal<const char*> before;
    if (before(begin, key.data()) && before(key.data() + key.size(), begin + owner->size()))
      return Tensor::bytes(key, owner);
  }
  const BufferPtr copy = context.allocate(key.size());
  if (!key.empty()) std::memcpy(copy->data(), key.data(), key.size());
  return Tensor::bytes({reinterpret_cast<const char*>(copy->data()), key.size()}, copy);
}

}  // namespace penstock
