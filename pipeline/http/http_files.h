// Files on http:// and https:// servers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/file_system.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/remote_files.h>

#include "pipeline/http/object_files.h"

namespace penstock::http {

/// The file system of http:// and https://. Paths are URLs with hidden secrets (hide_secrets).
/// Folders and patterns come from RemoteOptions::list. Thread-safe.
class HttpFileSystem final : public ObjectFileSystem {
 public:
  using ObjectFileSystem::ObjectFileSystem;

  std::string name() const override { return "http"; }
  bool is_directory(const std::string& path) override;
  std::vector<std::string> list(const std::string& folder) override;
  std::vector<std::string> glob(const std::string& pattern, bool hidden = false) override;
  /// Always throws Error{invalid_argument}.
  std::unique_ptr<WritableFile> create(const std::string& path) override;

 protected:
  Url url_of(const std::string& path) const override;

 private:
  /// Returns every name of the list, sorted. If there is no list, throws Error{invalid_argument}
  /// naming `asked`.
  const std::vector<std::string>& names(const std::string& asked) EXCLUDES(mutex_);

  Mutex mutex_;
  std::optional<std::vector<std::string>> names_ GUARDED_BY(mutex_);
};

/// Returns the process-wide file system for a remote path, with the options of choose_remote.
std::shared_ptr<FileSystem> remote_file_system(const std::string& path);

}  // namespace penstock::http
