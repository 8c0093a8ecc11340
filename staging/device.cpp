#include <penstock/device_backend.h>

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
  return device_->backend().done(*state_);
}
void EventView::synchronize(Site site) const {
  device_->backend().synchronize(*state_, site);
}
std::int64_t EventView::completed_ns() const {
  return device_->backend().completed_ns(*state_);
}

void StreamView::record(EventView event, Site site) const {
  device_->backend().record(event.state(), *state_, site);
}
void StreamView::wait(EventView event, Site site) const {
  device_->backend().wait(*state_, event.state(), site);
}
void StreamView::copy(const Copy& copy, Site site) const {
  if (copy.bytes > 0) device_->backend().copy(copy, *state_, site);
}
void StreamView::clear(std::span<std::byte> memory, Site site) const {
  if (!memory.empty()) device_->backend().clear(memory, *state_, site);
}
void StreamView::busy(std::int64_t nanoseconds) const {
  device_->backend().busy(nanoseconds, *state_);
}
void StreamView::synchronize(Site site) const {
  device_->backend().synchronize(*state_, site);
}

const std::string& StreamView::name() const noexcept {
  return state_->name();
}
void* StreamView::native() const noexcept {
  return state_->native();
}

Event::Event(const DevicePtr& device) : device_(device), state_(device->backend().create_event()) {}
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&& other) noexcept {
  state_ = std::move(other.state_);  // before its device, which this may be the last to hold
  device_ = std::move(other.device_);
  return *this;
}
Event::~Event() = default;

Stream::Stream(DevicePtr device, std::unique_ptr<StreamState> state)
    : device_(std::move(device)), state_(std::move(state)) {}
Stream::Stream(const DevicePtr& device, std::string name)
    : Stream(device, device->backend().create_stream(std::move(name))) {}
Stream Stream::wrap(const DevicePtr& device, void* native) {
  return {device, device->backend().wrap_stream(native)};
}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  state_ = std::move(other.state_);
  device_ = std::move(other.device_);
  return *this;
}
Stream::~Stream() = default;

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
