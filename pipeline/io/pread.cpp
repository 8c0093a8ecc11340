#include "pipeline/io/pread.h"

namespace penstock {

std::shared_ptr<File> PreadFileSystem::open(const std::string& path) {
  return std::make_shared<PosixFile>(path, pread_);
}

bool PreadFileSystem::read_whole(const std::string& path, const FileInfo& expected,
                                 std::byte* out) {
  const OpenedFile file = open_regular(path);
  if (file.info != expected) return false;
  const ReadRequest request{0, expected.size, out, {}};
  const Status status = read_rest(file.fd.get(), path, expected.size, request, 0, pread_);
  if (info_of_open(file.fd.get()) != expected) return false;
  if (!status.ok()) throw status.error();
  return true;
}

}  // namespace penstock
