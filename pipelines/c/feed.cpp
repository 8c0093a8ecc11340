#include <deque>
#include <memory>
#include <utility>

#include <penstock/feed.h>
#include "pipelines/c/handles.h"

struct penstock_feed {
  penstock::Feed value;
  const penstock::Names* names;
};

namespace {

using penstock::DeviceTensor;
using penstock::DType;
using penstock::Element;
using penstock::Feed;
using penstock::FeedOptions;
using penstock::StagedBatch;
using penstock::c::guarded;
using penstock::c::require;

static_assert(PENSTOCK_FEED_SPLIT == static_cast<int>(penstock::FeedMode::split) &&
              PENSTOCK_FEED_PER_TOWER == static_cast<int>(penstock::FeedMode::per_tower) &&
              PENSTOCK_FEED_SHARDED == static_cast<int>(penstock::FeedMode::sharded));
static_assert(PENSTOCK_EPOCH_DROP == static_cast<int>(penstock::EpochEnd::drop) &&
              PENSTOCK_EPOCH_PAD == static_cast<int>(penstock::EpochEnd::pad) &&
              PENSTOCK_EPOCH_WRAP == static_cast<int>(penstock::EpochEnd::wrap) &&
              PENSTOCK_EPOCH_STOP == static_cast<int>(penstock::EpochEnd::stop));

/// The memory that the tensors of a batch share: the slot, and views of its byte strings.
class Lease final : public penstock::Buffer {
 public:
  explicit Lease(StagedBatch batch) : batch_(std::move(batch)) {}

  const StagedBatch& batch() const noexcept { return batch_; }
  /// Returns the values of a component in host memory. They live as long as this object.
  std::byte* values_of(const DeviceTensor& component) {
    if (component.dtype != DType::bytes) return component.data;
    const auto count = static_cast<std::size_t>(component.shape.volume());
    const auto* const offsets = reinterpret_cast<const std::uint64_t*>(component.data);
    std::vector<std::string_view>& views = texts_.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i)
      views[i] = {reinterpret_cast<const char*>(component.text) + offsets[i],
                  offsets[i + 1] - offsets[i]};
    return reinterpret_cast<std::byte*>(views.data());
  }

 private:
  void dispose() noexcept override { delete this; }

  StagedBatch batch_;
  std::deque<std::vector<std::string_view>> texts_;
};

/// Waits for the batch, which is on a host device, and returns it as an element.
Element element_of(StagedBatch batch, const penstock::Names& names) {
  batch.synchronize();
  auto* const lease = new Lease(std::move(batch));
  const penstock::BufferPtr owner(lease);
  Element element;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!lease->batch().has(names[i])) continue;
    const DeviceTensor& component = lease->batch()[names[i]];
    element.set(names[i], {component.dtype, component.shape, lease->values_of(component), owner});
  }
  element.valid_rows = lease->batch().valid_rows();
  return element;
}

std::vector<penstock::DevicePtr> host_devices(int towers) {
  std::vector<penstock::DevicePtr> devices;
  for (int tower = 0; tower < towers; ++tower)
    devices.push_back(penstock::device({penstock::DeviceKind::host, tower}));
  return devices;
}

}  // namespace

penstock_status penstock_feed_start(const penstock_pipeline* pipeline, int32_t towers,
                                    penstock_feed_mode mode, penstock_epoch_end end,
                                    const void* state, size_t state_size, penstock_feed** feed) {
  return guarded([&] {
    require(feed, "feed") = nullptr;
    const penstock::Pipeline& from = require(pipeline, "pipeline").value;
    if (towers < 1 || towers > PENSTOCK_MAX_TOWERS || mode < PENSTOCK_FEED_SPLIT ||
        mode > PENSTOCK_FEED_SHARDED || end < PENSTOCK_EPOCH_DROP || end > PENSTOCK_EPOCH_STOP)
      throw penstock::Error(penstock::ErrorCode::invalid_argument,
                            "unknown mode or end, or the number of towers is not 1 to 1,024");
    FeedOptions options;
    options.mode = static_cast<penstock::FeedMode>(mode);
    options.end = static_cast<penstock::EpochEnd>(end);
    options.run = from.options;
    const std::string_view saved(static_cast<const char*>(state),
                                 state == nullptr ? 0 : state_size);
    *feed = new penstock_feed{
        state == nullptr ? Feed(from.dataset, host_devices(towers), options)
                         : Feed::restore(saved, from.dataset, host_devices(towers), options),
        from.dataset.spec().names()};
    return PENSTOCK_OK;
  });
}

penstock_status penstock_feed_next(penstock_feed* feed, int32_t tower, penstock_element** batch) {
  return guarded([&] {
    require(batch, "batch") = nullptr;
    require(feed, "feed");
    auto place = std::make_unique<penstock_element>();
    std::optional<StagedBatch> next = feed->value.next(tower);
    if (!next) return PENSTOCK_END;
    place->value = element_of(std::move(*next), *feed->names);
    *batch = place.release();
    return PENSTOCK_OK;
  });
}

int32_t penstock_feed_ended(const penstock_feed* feed, int32_t tower) {
  if (feed == nullptr || tower < 0 || tower >= feed->value.towers()) return 1;
  return feed->value.ended(tower) ? 1 : 0;
}

penstock_status penstock_feed_save(const penstock_feed* feed, void** state, size_t* state_size) {
  return penstock::c::save_for_caller(feed, state, state_size);
}

penstock_status penstock_feed_report(const penstock_feed* feed, char** json) {
  return penstock::c::report_for_caller(feed, json);
}

void penstock_feed_cancel(penstock_feed* feed) {
  if (feed != nullptr) feed->value.cancel();
}

void penstock_feed_close(penstock_feed* feed) {
  delete feed;
}
