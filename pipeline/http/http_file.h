// An open object on a server.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/http/object_read.h"
#include "pipeline/io/together.h"

namespace penstock::http {

/// An object on a server as a file. Requests close to each other become one request to the server,
/// and large ones are split. Small reads from front to back, as scans and streams make them, are
/// served from a block that is read ahead and doubles each time. Thread-safe.
class HttpFile final : public TogetherFile {
 public:
  HttpFile(std::shared_ptr<HttpClient> client, PinnedObject object)
      : client_(std::move(client)), object_(std::move(object)) {}
  ~HttpFile() override;
  HttpFile(const HttpFile&) = delete;
  HttpFile& operator=(const HttpFile&) = delete;

  const FileInfo& info() const noexcept override { return object_.info; }
  std::optional<FileInfo> now() const noexcept override {
    return changed_.load(std::memory_order_relaxed) ? std::nullopt : std::optional(object_.info);
  }
  const std::string& path() const noexcept override { return object_.path; }
  void read(std::span<ReadRequest> requests) override;
  void read_uncached(std::span<ReadRequest> requests) override { fetch(requests, true); }
  const void* reader() const noexcept override { return client_.get(); }
  void read_together(std::span<Reads> all) override;
  std::size_t depth() const noexcept override { return client_->options().connections; }

 private:
  struct Block {
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
    bool holds(const ReadRequest& request) const noexcept {
      return request.offset >= offset && request.offset - offset <= bytes.size() &&
             request.size <= bytes.size() - (request.offset - offset);
    }
  };

  void fetch(std::span<ReadRequest> requests, bool fresh);
  /// Returns the parts to request from the server. Requests beyond the end get their error here.
  std::vector<RangePart> wanted(std::span<ReadRequest> requests) const;
  void answer(std::span<ReadRequest> requests, std::span<const RangeGet> gets);
  /// Returns true if the requests are one small read that was answered from the block read ahead,
  /// or failed with it.
  bool read_ahead(std::span<ReadRequest> requests) EXCLUDES(mutex_);
  /// Returns the block, or null. Then `failure` is the error of a server that could not be reached,
  /// or ok for any other reason.
  std::shared_ptr<Block> next_block(std::uint64_t offset, std::size_t size, Status& failure);

  const std::shared_ptr<HttpClient> client_;
  const PinnedObject object_;
  std::atomic<bool> changed_{false};

  Mutex mutex_;
  std::shared_ptr<Block> block_ GUARDED_BY(mutex_);
  std::uint64_t last_end_ GUARDED_BY(mutex_) = 0;  // end of the last small read
  std::size_t window_ GUARDED_BY(mutex_) = 0;      // bytes of the last block; 0: none yet
  bool filling_ GUARDED_BY(mutex_) = false;
};

}  // namespace penstock::http
