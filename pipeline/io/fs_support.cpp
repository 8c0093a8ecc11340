#include "pipeline/io/fs_support.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <penstock/internal/slow_work.h>
#include <penstock/log.h>

#include "pipeline/io/posix.h"

namespace penstock {
namespace {

constexpr std::array kUnsupported = {
    Unsupported{FsCall::lock, ENOLCK, "NFS without a lock daemon"},
    Unsupported{FsCall::lock, EBADF, "NFSv4 and EFS, for a descriptor that can't write"},
    Unsupported{FsCall::lock, EINVAL, "some FUSE"},
    Unsupported{FsCall::lock, ENOSYS, "FUSE without locks, Lustre without -o flock"},
    Unsupported{FsCall::lock, EOPNOTSUPP, "SMB with nobrl, GlusterFS"},
    Unsupported{FsCall::sync_file, EINVAL, "some FUSE and shared folders of virtual machines"},
    Unsupported{FsCall::sync_file, EROFS, "files that can't be synced"},
    Unsupported{FsCall::sync_file, ENOSYS, "FUSE without fsync"},
    Unsupported{FsCall::sync_file, EOPNOTSUPP, "some FUSE"},
    Unsupported{FsCall::sync_folder, EINVAL, "SMB, shared folders of virtual machines"},
    Unsupported{FsCall::sync_folder, EROFS, "some FUSE"},
    Unsupported{FsCall::sync_folder, EBADF, "SMB"},
    Unsupported{FsCall::sync_folder, EISDIR, "some FUSE"},
    Unsupported{FsCall::sync_folder, ENOSYS, "FUSE without fsyncdir"},
    Unsupported{FsCall::sync_folder, EOPNOTSUPP, "some FUSE"},
    Unsupported{FsCall::sync_folder, EACCES, "folders that may be written but not read"},
    Unsupported{FsCall::sync_folder, EPERM, "folders that may be written but not read"},
    Unsupported{FsCall::set_mode, EPERM, "FAT, SMB"},
    Unsupported{FsCall::set_mode, EINVAL, "some FUSE"},
    Unsupported{FsCall::set_mode, ENOSYS, "FUSE without chmod"},
    Unsupported{FsCall::set_mode, EOPNOTSUPP, "stores behind FUSE"},
    Unsupported{FsCall::check_access, EPERM, "containers whose filter does not know faccessat2"},
    Unsupported{FsCall::check_access, EINVAL, "old kernels and C libraries"},
    Unsupported{FsCall::check_access, ENOSYS, "old kernels"},
    Unsupported{FsCall::nameless_file, EOPNOTSUPP, "NFS, FUSE, overlayfs"},
    Unsupported{FsCall::nameless_file, EISDIR, "old kernels"},
    Unsupported{FsCall::nameless_file, ENOENT, "old kernels"},
    Unsupported{FsCall::nameless_file, EINVAL, "SMB"},
    Unsupported{FsCall::nameless_file, ENOSYS, "some FUSE"},
    Unsupported{FsCall::map, ENODEV, "FUSE with direct_io, 9P without a cache"},
    Unsupported{FsCall::map, EINVAL, "some FUSE"},
    Unsupported{FsCall::map, ENOSYS, "some FUSE"},
    Unsupported{FsCall::map, EOPNOTSUPP, "some FUSE"},
};

struct Magic {
  std::uint32_t type;  // statfs::f_type
  FsTraits traits;
};

// Source of the numbers: statfs(2), include/uapi/linux/magic.h, and the file systems' own sources.
constexpr std::array kMagics = {
    Magic{0x65735546, {false, false}},  // FUSE, virtiofs
    Magic{0x6969, {true, false}},       // NFS
    Magic{0x517b, {false, false}},      // SMB
    Magic{0xff534d42, {false, false}},  // CIFS
    Magic{0xfe534d42, {false, false}},  // SMB2
    Magic{0x01021997, {false, false}},  // 9P
    Magic{0x786f4256, {false, false}},  // vboxsf
    Magic{0xbacbacbc, {false, false}},  // VMware's hgfs
    Magic{0x7c7c6673, {false, false}},  // Parallels' prl_fs
    Magic{0x4d44, {false, true}},       // FAT
    Magic{0x2011bab0, {false, true}},   // exFAT
    Magic{0x5346414f, {true, false}},   // OpenAFS
    Magic{0x6b414653, {true, false}},   // kAFS
    Magic{0x73757245, {true, false}},   // Coda
    Magic{0x00c36400, {true, false}},   // Ceph
    Magic{0x0bd00bd0, {true, false}},   // Lustre
    Magic{0x47504653, {true, false}},   // GPFS
    Magic{0x19830326, {true, false}},   // BeeGFS
    Magic{0x20030528, {true, false}},   // OrangeFS
    Magic{0x7461636f, {true, false}},   // OCFS2
    Magic{0x01161970, {true, false}},   // GFS2
};

/// Logs `path` and `text` once for each text.
void say_once(LogLevel level, const std::string& path, const char* text) noexcept {
  try {
    log_once(level, text, path + text);
  } catch (const std::exception&) {  // no memory for the message
  }
}

}  // namespace

std::span<const Unsupported> unsupported_calls() noexcept {
  return kUnsupported;
}

bool is_unsupported(FsCall call, int error) noexcept {
  return std::ranges::any_of(
      kUnsupported, [=](const Unsupported& one) { return one.call == call && one.error == error; });
}

FsTraits fs_traits(const std::string& path) noexcept {
  struct statfs found {};
  if (::statfs(path.c_str(), &found) != 0) return {};
  const auto type = static_cast<std::uint32_t>(found.f_type);
  const auto* const known =
      std::ranges::find_if(kMagics, [=](const Magic& magic) { return magic.type == type; });
  return known != kMagics.end() ? known->traits : FsTraits();
}

int sync_file(int fd, const std::string& path) noexcept {
  slow_work("a file is synced");
  // EINTR of a sync is an error like any other: its data may be gone.
  if (::fsync(fd) == 0) return 0;
  const int error = errno;
  if (!is_unsupported(FsCall::sync_file, error)) return error;
  struct stat st {};
  if (::fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
    say_once(LogLevel::warning, path,
             ": the file system can't sync files, so a power failure may lose it");
  return 0;
}

int sync_folder_of(const std::string& path) noexcept try {
  const std::string name = folder_of(path);
  UniqueFd folder;
  do {
    folder = UniqueFd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  } while (!folder && errno == EINTR);
  if (folder && ::fsync(folder.get()) == 0) return 0;
  const int error = errno;
  if (!is_unsupported(FsCall::sync_folder, error)) return error;
  say_once(LogLevel::info, name,
           ": folders can't be synced here, so a power failure may lose the names of new files");
  return 0;
} catch (const std::exception&) {
  return ENOMEM;
}

}  // namespace penstock
