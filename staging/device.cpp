#include <penstock/device_backend.h>

#include <map>
#include <utility>

#include <penstock/internal/thread_annotations.h>

#include "staging/cuda/module.h"
#include "staging/host/host_device.h"
#include "staging/host/host_options.h"
#include "staging/shared_stream.h"

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
  device().backend().record(event.state(), state(), site);
}
void StreamView::wait(EventView event, Site site) const {
  device().backend().wait(state(), event.state(), site);
}
void StreamView::copy(const Copy& copy, Site site) const {
  StreamState& to = state();
  if (copy.bytes > 0) device().backend().copy(copy, to, site);
}
void StreamView::clear(std::span<std::byte> memory, Site site) const {
  StreamState& to = state();
  if (!memory.empty()) device().backend().clear(memory, to, site);
}
void StreamView::busy(std::int64_t nanoseconds) const {
  device().backend().busy(nanoseconds, state());
}
void StreamView::synchronize(Site site) const {
  slow_work("a stream is waited for");
  device().backend().synchronize(state(), site);
}
void* StreamView::native() const {
  return state().native();
}

Event::Event(const DevicePtr& device) : device_(device), state_(device->backend().create_event()) {}
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&& other) noexcept {
  state_ = std::move(other.state_);  // before its device, which this may be the last to hold
  device_ = std::move(other.device_);
  return *this;
}
Event::~Event() = default;
EventView Event::view() const {
  return {*not_moved(device_, "event"), *state_};
}

Stream::Stream(const DevicePtr& device, std::unique_ptr<StreamState> state)
    : core_(std::make_shared<SharedStream>(device, std::move(state))) {}
Stream::Stream(const DevicePtr& device, std::string name)
    : Stream(device, device->backend().create_stream(std::move(name))) {}
Stream Stream::wrap(const DevicePtr& device, void* native) {
  return {device, device->backend().wrap_stream(native)};
}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  end();
  core_ = std::move(other.core_);
  return *this;
}
Stream::~Stream() {
  end();
}

StreamView Stream::view() const {
  return StreamView(not_moved(core_, "stream"));
}

void Stream::end() noexcept {
  if (core_) static_cast<SharedStream&>(*core_).end(core_.use_count() > 1);
}

DevicePtr device(DeviceId id) {
  static SlowMutex mutex;  // held while a device is opened
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
