// Writes an object to a store.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <penstock/file_system.h>

#include "pipeline/http/object_write.h"

namespace penstock::http {

/// An object that is being written. A small object is one PUT. A larger one is a multipart upload
/// with several parts in flight. The object does not exist before `commit`. Destruction without
/// `commit` aborts the upload. It takes memory of RemoteOptions::upload_bytes, and one part. Used
/// by one thread.
class Upload final : public WritableFile {
 public:
  explicit Upload(ObjectPlace place);
  ~Upload() override;
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  void append(std::span<const std::byte> bytes) override;
  void commit() override;

  /// Returns the size of part `number`, which counts from 1. It is `first`, doubled after each
  /// 2,000 parts. So 10,000 parts, the most that a store allows, are more than 480 GiB.
  static std::size_t part_bytes(std::size_t number, std::size_t first) noexcept;

 private:
  /// Does not move while its request is in flight.
  struct Part {
    std::string bytes;
    std::unique_ptr<ObjectWrite> write;
  };

  /// Carries out a step. After a step that throws, no further step is possible, since bytes may be
  /// missing.
  template <typename Step>
  void take(const Step& step);
  void begin();
  void fill(std::span<const std::byte> bytes);
  void send_part();
  void finish_oldest();
  void complete();
  bool is_there();
  void abort() noexcept;

  const ObjectPlace place_;
  const std::string mark_;
  std::string query_;    // "uploadId=…"; empty: no upload has begun
  std::string filling_;  // contents of the next part
  std::deque<Part> under_way_;
  std::size_t bytes_under_way_ = 0;
  std::vector<std::string> etags_;  // of the parts that the store has accepted
  std::uint64_t size_ = 0;
  bool ended_ = false;  // committed, or a step has thrown
};

}  // namespace penstock::http
