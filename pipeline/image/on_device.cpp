#include "pipeline/image/on_device.h"

#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "pipeline/codec/exif.h"
#include "pipeline/core/device_scans.h"
#include "pipeline/image/decoders.h"
#include "pipeline/image/device/jpeg_plan.h"
#include "pipeline/image/device/record_plan.h"
#include "pipeline/image/fused.h"
#include "pipeline/image/pass_runner.h"
#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/header.h"

namespace penstock::image {

namespace {

using jpeg::DevicePlan;
using jpeg::PlanKind;

struct DeviceCounters {
  std::atomic<std::uint64_t> packed{0};
  std::atomic<std::uint64_t> scans{0};
  std::array<std::atomic<std::uint64_t>, kWhyHostCount> host{};
};

DeviceCounters& device_counters() noexcept {
  static DeviceCounters counters;
  return counters;
}

void count(WhyHost why, std::uint64_t images = 1) noexcept {
  device_counters().host[static_cast<std::size_t>(why)].fetch_add(images,
                                                                  std::memory_order_relaxed);
}

/// Returns the steps that the host carries out for images that it decodes.
std::shared_ptr<const ImageOps::Chain> without_finish(const ImageOps::Chain& chain) {
  auto rest = std::make_shared<ImageOps::Chain>(chain);
  rest->on_device = false;
  std::erase_if(rest->steps, [](const ImageOps::Step& step) {
    return std::holds_alternative<NormalizeStep>(step.any) ||
           std::holds_alternative<CastStep>(step.any);
  });
  return rest;
}

class DeviceOp final : public WorkOp {
 public:
  explicit DeviceOp(std::shared_ptr<const ImageOps::Chain> chain)
      : chain_(std::move(chain)),
        plan_name_(plan_component(chain_->component)),
        pixels_(make_fused_op(without_finish(*chain_))) {
    const Size size = size_on_device(*chain_);
    pixel_bytes_ = static_cast<std::uint64_t>(size.height) *
                   static_cast<std::uint64_t>(size.width) *
                   static_cast<std::uint64_t>(output_format(*chain_).channels);
  }

  std::string name() const override { return name_of(*chain_); }
  void describe(Description& description) const override {
    penstock::image::describe(*chain_, description);
  }
  std::size_t preferred_group() const override { return pixels_->preferred_group(); }
  bool random() const override { return pixels_->random(); }

  Spec infer(const Spec& input) const override {
    const Spec decoded = pixels_->infer(input);
    if (input.find(plan_name_) >= 0) {
      throw Error(ErrorCode::invalid_argument, name() + ": there is a component \"" + plan_name_ +
                                                   "\" already, in " + input.to_string());
    }
    return decoded.with({chain_->component, DType::bytes, {}})
        .with({plan_name_, DType::u8, Shape({sizeof(DevicePlan)})});
  }

  void run(std::span<WorkItem> items, WorkContext& context) const override {
    const auto* const scans = dynamic_cast<const DeviceScans*>(&context);
    const std::uint64_t scan_bytes = scans == nullptr ? 0 : scans->scan_bytes();
    std::vector<WorkItem*> left;
    std::vector<Pass> passes;
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      try {
        const std::optional<WhyHost> why = hand_on(item, scan_bytes, passes, context);
        if (!why) continue;
        count(*why);
        left.push_back(&item);
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
    if (!left.empty()) decode(left, context);
  }

 private:
  std::size_t position(const Element& element) const {
    const int found = element.names() == nullptr ? -1 : element.names()->find(chain_->component);
    if (found < 0) throw Error(ErrorCode::not_found, "no component \"" + chain_->component + "\"");
    return static_cast<std::size_t>(found);
  }

  /// Passes an image on. Returns the reason if the host has to decode it.
  std::optional<WhyHost> hand_on(WorkItem& item, std::uint64_t scan_bytes,
                                 std::vector<Pass>& passes, WorkContext& context) const {
    const std::size_t at = position(item.element);
    const Tensor& image = item.element[at];
    const auto bytes = std::as_bytes(std::span(image.bytes_at()));
    if (!jpeg::own_back_end()) return WhyHost::backend;
    jpeg::PackedImage packed;
    const std::optional<WhyHost> why =
        jpeg::is_record(bytes) ? pack_record(bytes, item, passes, context, packed)
                               : pack_jpeg(bytes, scan_bytes, item, passes, context, packed);
    if (why) return why;
    BufferPtr owner = image.owner();
    const std::string_view text(reinterpret_cast<const char*>(packed.bytes.data()),
                                packed.bytes.size());
    give(item, at, Tensor::bytes(text, std::move(owner)), packed.plan, context);
    auto& counter =
        packed.plan.kind == PlanKind::jpeg ? device_counters().scans : device_counters().packed;
    counter.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }

  std::optional<WhyHost> pack_record(std::span<const std::byte> bytes, const WorkItem& item,
                                     std::vector<Pass>& passes, const WorkContext& context,
                                     jpeg::PackedImage& packed) const {
    const jpeg::Record record = jpeg::read_record(bytes);
    if (record.kind != jpeg::RecordKind::coefficients) return WhyHost::format;
    if (chain_->decode->orient && record.orientation != 1) return WhyHost::orientation;
    if (!plan_pass(record.header, item, context, passes)) return WhyHost::ops;
    auto made = jpeg::plan_record(record, passes.front().geometry, chain_->decode->channels);
    if (!made) return WhyHost::size;
    packed = std::move(*made);
    return std::nullopt;
  }

  std::optional<WhyHost> pack_jpeg(std::span<const std::byte> bytes, std::uint64_t scan_bytes,
                                   const WorkItem& item, std::vector<Pass>& passes,
                                   const WorkContext& context, jpeg::PackedImage& packed) const {
    if (detect_format(bytes) != Format::jpeg) return WhyHost::format;
    // Elsewhere than in a batch, something that reads the bytes may follow, or keep them.
    if (scan_bytes == 0 || !item.row) return WhyHost::unchecked;
    thread_local jpeg::Header header;
    if (jpeg::read_header(bytes, header) != jpeg::Foreign::none) return WhyHost::header;
    const DecodeOptions& options = *chain_->decode;
    if (options.orient && jpeg_orientation(bytes) != 1) return WhyHost::orientation;
    // A batch that the host makes has pixels instead, and has to fit as well.
    if (scan_bytes < pixel_bytes_ || bytes.size() - header.scan > scan_bytes ||
        options.limits.max_codec_bytes < std::uint64_t{jpeg::kDeviceImageBytes})
      return WhyHost::room;
    if (!plan_pass(header, item, context, passes)) return WhyHost::ops;
    auto made = jpeg::plan_jpeg(header, bytes, passes.front().geometry, options.channels);
    if (!made) return WhyHost::size;
    packed = std::move(*made);
    return std::nullopt;
  }

  /// Returns false if the ops are more than one pass of geometry.
  bool plan_pass(const jpeg::Header& header, const WorkItem& item, const WorkContext& context,
                 std::vector<Pass>& passes) const {
    const Size size{header.height, header.width};
    const Limits& limits = chain_->decode->limits;
    check_pixels(static_cast<std::uint64_t>(size.width), static_cast<std::uint64_t>(size.height),
                 limits);
    plan_passes(*chain_, size, StepRandom(context.rng(item), item.ordinal), limits.max_pixels,
                passes);
    return passes.size() == 1 && passes.front().adjustments.count == 0;
  }

  void decode(std::span<WorkItem* const> left, WorkContext& context) const {
    std::vector<WorkItem> items(left.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      items[i].element = left[i]->element;
      items[i].index = left[i]->index;
      items[i].ordinal = left[i]->ordinal;
    }
    pixels_->run(items, context);
    DevicePlan plan;
    plan.kind = PlanKind::pixels;
    for (std::size_t i = 0; i < left.size(); ++i) {
      left[i]->status = items[i].status;
      if (!items[i].status.ok()) continue;
      const std::size_t at = position(items[i].element);
      const Tensor& pixels = items[i].element[at];
      const std::string_view text(reinterpret_cast<const char*>(pixels.data()), pixels.nbytes());
      give(*left[i], at, Tensor::bytes(text, pixels.owner()), plan, context);
    }
  }

  /// Replaces the image by its bytes, and appends the plan.
  void give(WorkItem& item, std::size_t at, Tensor bytes, const DevicePlan& plan,
            WorkContext& context) const {
    Element& element = item.element;
    const std::size_t end = element.size();
    BufferPtr buffer;
    std::byte* memory = item.row ? item.row.data(end) : nullptr;
    if (memory == nullptr) {
      buffer = context.allocate(sizeof(plan));
      memory = buffer->data();
    }
    std::memcpy(memory, &plan, sizeof(plan));
    Element out(names_behind(*element.names()));
    for (std::size_t i = 0; i < end; ++i) out[i] = std::move(element[i]);
    out[at] = std::move(bytes);
    out[end] = Tensor(DType::u8, Shape({sizeof(plan)}), memory, std::move(buffer));
    element = std::move(out);
  }

  /// Returns the names, with the plan's name behind them.
  const Names* names_behind(const Names& names) const {
    struct Known {
      const Names* from = nullptr;
      const Names* to = nullptr;
    };
    thread_local Known known;  // of the last op that ran on this thread
    if (known.from == &names && (*known.to)[names.size()] == plan_name_) return known.to;
    std::vector<std::string> all;
    for (std::size_t i = 0; i < names.size(); ++i) all.push_back(names[i]);
    all.push_back(plan_name_);
    known = {&names, Names::intern(all)};
    return known.to;
  }

  const std::shared_ptr<const ImageOps::Chain> chain_;
  const std::string plan_name_;
  const WorkOpPtr pixels_;
  std::uint64_t pixel_bytes_ = 0;  // of an image that the host decodes
};

}  // namespace

std::string plan_component(const std::string& component) {
  return component + "_plan";
}

Size size_on_device(const ImageOps::Chain& chain) {
  if (!chain.decode) {
    throw Error(ErrorCode::invalid_argument,
                name_of(chain) + ": only images that are decoded here can be made on a device");
  }
  const Size size = infer_size(chain, {-1, -1});
  if (size.height < 1 || size.width < 1) {
    throw Error(ErrorCode::invalid_argument,
                name_of(chain) +
                    ": on a device, all images must have one size; end with a crop or resize to a "
                    "height and a width");
  }
  return size;
}

WorkOpPtr make_device_op(std::shared_ptr<const ImageOps::Chain> chain) {
  return std::make_shared<DeviceOp>(std::move(chain));
}

const char* name_of(WhyHost why) noexcept {
  switch (why) {
    case WhyHost::backend:
      return "libjpeg-turbo";
    case WhyHost::format:
      return "format";
    case WhyHost::unchecked:
      return "unchecked";
    case WhyHost::header:
      return "header";
    case WhyHost::orientation:
      return "orientation";
    case WhyHost::room:
      return "room";
    case WhyHost::ops:
      return "ops";
    case WhyHost::size:
      return "size";
    case WhyHost::undecoded:
      return "undecoded";
  }
  return "";
}

void count_undecoded(std::uint64_t images) noexcept {
  count(WhyHost::undecoded, images);
}

DeviceCounts device_counts() noexcept {
  const DeviceCounters& all = device_counters();
  DeviceCounts counts{all.packed.load(std::memory_order_relaxed),
                      all.scans.load(std::memory_order_relaxed)};
  for (std::size_t i = 0; i < kWhyHostCount; ++i)
    counts.host[i] = all.host[i].load(std::memory_order_relaxed);
  return counts;
}

}  // namespace penstock::image
