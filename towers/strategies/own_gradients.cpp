#include "towers/strategies/own_gradients.h"

#include <cstring>
#include <string>
#include <utility>

#include <penstock/buffer.h>

namespace penstock::towers {

std::size_t bytes_of(const OwnParameter& parameter) {
  return static_cast<std::size_t>(parameter.shape.volume()) * size_of(parameter.dtype);
}

/// Copies use a stream of their own, so that they overlap with the backward pass.
struct OwnGradients::OnDevice {
  OnDevice(const DevicePtr& device, std::size_t buckets, std::size_t wanted)
      : stream(device, "exchange of gradients"),
        given(device),
        memory(device->pinned()),
        bytes(wanted),
        data(memory->allocate(wanted)) {
    for (std::size_t b = 0; b < buckets; ++b) made.emplace_back(device);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    try {
      stream.view().synchronize();
    } catch (...) {  // a lost device makes no more copies
    }
    memory->deallocate(data, bytes);
  }

  Stream stream;
  std::vector<Event> made;  // one for each bucket
  Event given;
  const std::shared_ptr<Allocator> memory;
  const std::size_t bytes;
  std::byte* const data;
};

OwnGradients::OwnGradients(OwnTower tower, std::span<const OwnBucket> buckets)
    : tower_(std::move(tower)), buckets_(buckets.begin(), buckets.end()) {
  if (!tower_.stream) {
    for (const OwnParameter& parameter : tower_.parameters) host_.push_back(parameter.gradient);
    return;
  }
  std::vector<std::size_t> at;
  std::size_t bytes = 0;
  for (const OwnParameter& parameter : tower_.parameters) {
    at.push_back(bytes);
    bytes += (bytes_of(parameter) + Allocator::kAlignment - 1) / Allocator::kAlignment *
             Allocator::kAlignment;
  }
  on_device_ = std::make_unique<OnDevice>(tower_.stream->device().shared_from_this(),
                                          buckets_.size(), bytes);
  for (const std::size_t offset : at) host_.push_back(on_device_->data + offset);
}
OwnGradients::OwnGradients(OwnGradients&&) noexcept = default;
OwnGradients::~OwnGradients() = default;

void OwnGradients::reached(std::size_t bucket) {
  if (on_device_) tower_.stream->record(on_device_->made[bucket]);
}

void OwnGradients::fetch(std::size_t bucket) {
  if (!on_device_) return;
  const StreamView stream = on_device_->stream;
  stream.wait(on_device_->made[bucket]);
  for (std::size_t p = buckets_[bucket].first; p < buckets_[bucket].last; ++p)
    stream.copy({host_[p], tower_.parameters[p].gradient, bytes_of(tower_.parameters[p])});
  stream.synchronize();
  tower_.stream->device().check();
}

void OwnGradients::give(std::size_t bucket) {
  if (!on_device_) return;
  const StreamView stream = on_device_->stream;
  for (std::size_t p = buckets_[bucket].first; p < buckets_[bucket].last; ++p)
    stream.copy({tower_.parameters[p].gradient, host_[p], bytes_of(tower_.parameters[p])});
  stream.record(on_device_->given);
}

void OwnGradients::follow() {
  if (on_device_) tower_.stream->wait(on_device_->given);
}

void OwnGradients::read_value(std::size_t parameter, std::span<std::byte> to) const {
  const OwnParameter& from = tower_.parameters[parameter];
  if (!tower_.stream) {
    std::memcpy(to.data(), from.value, to.size());
    return;
  }
  tower_.stream->copy({to.data(), from.value, to.size()});
  tower_.stream->synchronize();
}

void OwnGradients::write_value(std::size_t parameter, std::span<const std::byte> from) const {
  const OwnParameter& to = tower_.parameters[parameter];
  if (!tower_.stream) {
    std::memcpy(to.value, from.data(), from.size());
    return;
  }
  tower_.stream->copy({to.value, from.data(), from.size()});
  tower_.stream->synchronize();
}

}  // namespace penstock::towers
