#include "pipeline/io/pread.h"

namespace penstock {

std::shared_ptr<File> PreadFileSystem::open(const std::string& path) {
  return std::make_shared<PosixFile>(path, pread_, root());
}

std::optional<FileInfo> PreadFileSystem::read_whole(const std::string& path,
                                                    const FileInfo& expected, std::byte* out) {
  const OpenedFile file = open_regular(path, root());
  if (file.info != expected) return {};
  const ReadRequest request{0, expected.size, out, {}};
  const Status status = read_rest(file.fd.get(), path, expected.size, request, 0, pread_);
  const std::optional<FileInfo> now = info_of_open(file.fd.get());
  if (now != expected) return {};
  if (!status.ok()) throw status.error();
  return now;
}

}  // namespace penstock
