#include "pipeline/http/object_files.h"

#include "pipeline/http/http_file.h"

namespace penstock::http {
namespace {

constexpr std::size_t kMostPinned = 1'000'000;

}  // namespace

std::shared_ptr<File> ObjectFileSystem::open(const std::string& path) {
  return std::make_shared<HttpFile>(client_, pinned(path));
}

std::optional<FileInfo> ObjectFileSystem::read_whole(const std::string& path,
                                                     const FileInfo& expected, std::byte* out) {
  PinnedObject object{path, {}, expected, {}};
  {
    const MutexLock lock(mutex_);
    const auto found = pins_.find(path);
    if (found != pins_.end() && found->second.object.info == expected)
      object = found->second.object;
  }
  if (object.url.host.empty()) object.url = url_of(path);
  if (expected.size == 0) return expected;
  ObjectRead read{&object, {{0, expected.size, out}}};
  read_objects(*client_, {&read, 1}, false);
  for (const RangeGet& get : read.gets) {
    if (get.status.ok()) continue;
    if (get.status.error().code() == ErrorCode::changed) return {};
    throw get.status.error();
  }
  return expected;
}

FileInfo ObjectFileSystem::info(const std::string& path) {
  {
    const MutexLock lock(mutex_);
    const auto found = pins_.find(path);
    if (found != pins_.end() && std::exchange(found->second.listed, false))
      return found->second.object.info;
  }
  return find(path).info;
}

PinnedObject ObjectFileSystem::pinned(const std::string& path) {
  {
    const MutexLock lock(mutex_);
    const auto found = pins_.find(path);
    if (found != pins_.end()) return found->second.object;
  }
  return find(path);
}

PinnedObject ObjectFileSystem::find(const std::string& path) {
  PinnedObject object = client_->find(path, url_of(path));
  pin({object, false});
  return object;
}

void ObjectFileSystem::pin_listed(PinnedObject object) {
  pin({std::move(object), true});
}

void ObjectFileSystem::unpin(const std::string& path) {
  const MutexLock lock(mutex_);
  pins_.erase(path);
}

void ObjectFileSystem::pin(Pin pin) {
  const MutexLock lock(mutex_);
  if (pins_.size() < kMostPinned || pins_.contains(pin.object.path))
    pins_[pin.object.path] = std::move(pin);
}

}  // namespace penstock::http
