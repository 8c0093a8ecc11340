// A file that retries failed reads as often as the run allows.
#pragma once

#include <memory>

#include <penstock/file_system.h>
#include <penstock/source.h>

namespace penstock {

/// A file that reads through `file`. It asks the context that `context` points to whether to repeat
/// a failed read. For streams, which can't be asked for a record twice. Used by one thread.
class PatientFile final : public File {
 public:
  PatientFile(std::shared_ptr<File> file, ReadContext* const* context)
      : file_(std::move(file)), context_(context) {}

  const FileInfo& info() const noexcept override { return file_->info(); }
  std::optional<FileInfo> now() const noexcept override { return file_->now(); }
  const std::string& path() const noexcept override { return file_->path(); }
  void read(std::span<ReadRequest> requests) override;
  std::size_t depth() const noexcept override { return file_->depth(); }
  bool blocking() const noexcept override { return file_->blocking(); }

 private:
  std::shared_ptr<File> file_;
  ReadContext* const* context_;  // of the record that is being read
};

}  // namespace penstock
