#include <penstock/file_system.h>

#include "pipeline/io/memory.h"
#include "pipeline/io/mmap.h"
#include "pipeline/io/posix_files.h"
#include "pipeline/io/pread.h"
#include "pipeline/io/uring.h"

namespace penstock {

void File::read_exactly(std::uint64_t offset, std::span<std::byte> out) {
  ReadRequest request{offset, out.size(), out.data(), {}};
  read({&request, 1});
  if (!request.status.ok()) throw request.status.error();
}

std::vector<std::byte> File::read_all(std::uint64_t limit) {
  if (info().size > limit)
    throw Error(ErrorCode::out_of_range,
                "the file's " + std::to_string(info().size) + " bytes exceed the limit of " +
                    std::to_string(limit),
                {.shard = path()});
  std::vector<std::byte> bytes(info().size);
  read_exactly(0, bytes);
  return bytes;
}

std::optional<FileInfo> FileSystem::read_whole(const std::string& path, const FileInfo& expected,
                                               std::byte* out) {
  const std::shared_ptr<File> file = open(path);
  if (file->info() != expected) return {};
  file->read_exactly(0, {out, expected.size});
  const std::optional<FileInfo> now = file->now();
  return now == expected ? now : std::nullopt;
}

void FileSystem::list_each(const std::string& folder, const Found& found) {
  for (const std::string& path : list(folder)) found(path);
}

void FileSystem::glob_each(const std::string& pattern, bool hidden, const Found& found) {
  for (const std::string& path : glob(pattern, hidden)) found(path);
}

std::unique_ptr<WritableFile> FileSystem::create(const std::string& path) {
  throw Error(ErrorCode::invalid_argument, "can't write: files of " + name() + " are read-only",
              {.shard = path});
}

void FileSystem::remove(const std::string& path) {
  throw Error(ErrorCode::invalid_argument, "can't remove: files of " + name() + " are read-only",
              {.shard = path});
}

FileSystemPtr make_local_file_system(const std::string& name, FileRootPtr root) {
  if (name == "pread") return std::make_shared<PreadFileSystem>(std::move(root));
  if (name == "mmap") return std::make_shared<MmapFileSystem>(std::move(root));
  if (name == "io_uring") {
    if (FileSystemPtr files = make_uring_file_system(root)) return files;
    return std::make_shared<PreadFileSystem>(std::move(root));
  }
  throw Error(ErrorCode::invalid_argument,
              "no file system \"" + name + "\"; there are pread, io_uring and mmap");
}

FileSystemPtr make_memory_file_system(std::vector<std::pair<std::string, std::string>> files) {
  auto memory = std::make_shared<MemoryFileSystem>();
  for (auto& [path, contents] : files) memory->add(path, std::move(contents));
  return memory;
}

}  // namespace penstock
