// Shows a folder of files somewhere else, read only, where each read takes a while:
//   penstock_slow_mount FOLDER MOUNT_POINT [ms=MS] [one=1] [cached=1] [slow=NAME:MS]
// `one`: reads are done one after the other, as by a disk with one arm; else all at once. `cached`:
// what was read once lies in the page cache, which is empty when the folder is mounted. `slow`: the
// file of that name takes so long instead. Stays in the foreground until SIGTERM or `umount`.
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <fcntl.h>
#include <fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace {

struct Mount {
  std::string folder;
  std::chrono::duration<double, std::milli> each{0};
  std::chrono::duration<double, std::milli> slow{0};
  std::string slow_name;
  bool one = false;
  bool cached = false;
  std::mutex arm;
} mount;

std::string below(const char* path) {
  return mount.folder + path;
}

int get_attributes(const char* path, struct stat* out, fuse_file_info* /*file*/) {
  return lstat(below(path).c_str(), out) == 0 ? 0 : -errno;
}

int list(const char* path, void* out, fuse_fill_dir_t fill, off_t /*from*/, fuse_file_info* /*dir*/,
         fuse_readdir_flags /*flags*/) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(below(path).c_str()), closedir);
  if (!folder) return -errno;
  while (const dirent* entry = readdir(folder.get()))
    if (fill(out, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0)) != 0) break;
  return 0;
}

int open_file(const char* path, fuse_file_info* file) {
  const int descriptor = open(below(path).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return -errno;
  file->fh = static_cast<std::uint64_t>(descriptor);
  file->direct_io = mount.cached ? 0 : 1;
  file->keep_cache = mount.cached ? 1 : 0;
  return 0;
}

int release_file(const char* /*path*/, fuse_file_info* file) {
  close(static_cast<int>(file->fh));
  return 0;
}

int read_file(const char* path, char* out, std::size_t size, off_t offset, fuse_file_info* file) {
  const char* const name = std::strrchr(path, '/');
  const bool slow = name != nullptr && !mount.slow_name.empty() && mount.slow_name == name + 1;
  const auto wait = slow ? mount.slow : mount.each;
  if (mount.one) {
    const std::lock_guard lock(mount.arm);
    std::this_thread::sleep_for(wait);
  } else {
    std::this_thread::sleep_for(wait);
  }
  const ssize_t got = pread(static_cast<int>(file->fh), out, size, offset);
  return got >= 0 ? static_cast<int>(got) : -errno;
}

void* begin(fuse_conn_info* connection, fuse_config* config) {
  // Each read is a request of its own, however many are asked for at once.
  connection->max_background = 256;
  config->attr_timeout = config->entry_timeout = 60;
  config->use_ino = 1;
  return nullptr;
}

bool option(const std::string& text) {
  const std::size_t at = text.find('=');
  const std::string name = text.substr(0, at);
  const std::string value = at == text.npos ? "" : text.substr(at + 1);
  if (name == "ms") {
    mount.each = decltype(mount.each)(std::stod(value));
  } else if (name == "one") {
    mount.one = value == "1";
  } else if (name == "cached") {
    mount.cached = value == "1";
  } else if (name == "slow" && value.find(':') != value.npos) {
    mount.slow_name = value.substr(0, value.find(':'));
    mount.slow = decltype(mount.slow)(std::stod(value.substr(value.find(':') + 1)));
  } else {
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) try {
  bool understood = argc >= 3;
  for (int i = 3; i < argc; ++i) understood = understood && option(argv[i]);
  if (!understood) {
    std::fprintf(stderr,
                 "usage: penstock_slow_mount FOLDER MOUNT_POINT [ms=MS] [one=1] [cached=1] "
                 "[slow=NAME:MS]\n");
    return 2;
  }
  mount.folder = argv[1];
  fuse_operations operations{};
  operations.getattr = get_attributes;
  operations.readdir = list;
  operations.open = open_file;
  operations.release = release_file;
  operations.read = read_file;
  operations.init = begin;
  std::string foreground = "-f";
  std::string flag = "-o";
  std::string flags = "ro,default_permissions,max_idle_threads=64";
  char* arguments[] = {argv[0], foreground.data(), flag.data(), flags.data(), argv[2], nullptr};
  return fuse_main(5, arguments, &operations, nullptr);
} catch (const std::exception& error) {
  std::fprintf(stderr, "penstock_slow_mount: %s\n", error.what());
  return 1;
}
