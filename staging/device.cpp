#include <penstock/device.h>

#include <map>
#include <utility>

#include "pipeline/core/thread_annotations.h"
#include "staging/cuda/module.h"
#include "staging/host/host_device.h"
#include "staging/host/host_options.h"

namespace penstock {

void Device::check() {
  const Status found = status();
  if (!found.ok()) throw found.error();
}

bool EventView::done() const {
  return device_->done(*state_);
}
void EventView::synchronize(Site site) const {
  device_->synchronize(*state_, site);
}
std::int64_t EventView::completed_ns() const {
  return device_->completed_ns(*state_);
}

void StreamView::record(EventView event, Site site) const {
  device_->record(event.state(), *state_, site);
}
void StreamView::wait(EventView event, Site site) const {
  device_->wait(*state_, event.state(), site);
}
void StreamView::copy(const Copy& copy, Site site) const {
  if (copy.bytes > 0) device_->copy(copy, *state_, site);
}
void StreamView::clear(std::span<std::byte> memory, Site site) const {
  if (!memory.empty()) device_->clear(memory, *state_, site);
}
void StreamView::busy(std::int64_t nanoseconds) const {
  device_->busy(nanoseconds, *state_);
}
void StreamView::synchronize(Site site) const {
  device_->synchronize(*state_, site);
}

Event::Event(const DevicePtr& device) : device_(device), state_(device->create_event()) {}
Stream::Stream(const DevicePtr& device, std::string name)
    : device_(device), state_(device->create_stream(std::move(name))) {}

DevicePtr device(DeviceId id) {
  static Mutex mutex;
  static std::map<DeviceId, std::weak_ptr<Device>> open;
  MutexLock lock(mutex);
  std::weak_ptr<Device>& known = open[id];
  if (DevicePtr device = known.lock()) return device;
  const DevicePtr made =
      id.kind == DeviceKind::cuda ? open_cuda(id.index) : HostDevice::make({.index = id.index});
  known = made;
  return made;
}

std::vector<DevicePtr> devices(std::string_view list) {
  std::vector<DevicePtr> result;
  while (true) {
    const std::size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    if (name == "cuda:*") {
      const int count = cuda_module().count();
      for (int i = 0; i < count; ++i) result.push_back(device({DeviceKind::cuda, i}));
    } else if (is_host_with_options(name)) {
      result.push_back(HostDevice::make(parse_host_options(name)));
    } else {
      result.push_back(device(DeviceId::parse(name)));
    }
    if (comma == std::string_view::npos) return result;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace penstock
