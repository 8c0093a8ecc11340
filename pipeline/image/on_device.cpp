#include "pipeline/image/on_device.h"

#include <atomic>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "pipeline/image/device/record_plan.h"
#include "pipeline/image/fused.h"
#include "pipeline/image/pass_runner.h"
#include "pipeline/jpeg/decoder.h"

namespace penstock::image {

namespace {

using jpeg::DevicePlan;
using jpeg::PlanKind;

struct DeviceCounters {
  std::atomic<std::uint64_t> packed{0};
  std::atomic<std::uint64_t> pixels{0};
};

DeviceCounters& device_counters() noexcept {
  static DeviceCounters counters;
  return counters;
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
    static_cast<void>(size_on_device(*chain_));
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
    std::vector<WorkItem*> left;
    std::vector<Pass> passes;
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      try {
        if (!hand_on(item, passes, context)) left.push_back(&item);
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

  /// Passes a record on. Returns false if the host has to decode it.
  bool hand_on(WorkItem& item, std::vector<Pass>& passes, WorkContext& context) const {
    const std::size_t at = position(item.element);
    const Tensor& image = item.element[at];
    const auto bytes = std::as_bytes(std::span(image.bytes_at()));
    if (!jpeg::is_record(bytes) || !jpeg::own_back_end()) return false;
    const jpeg::Record record = jpeg::read_record(bytes);
    if (record.kind != jpeg::RecordKind::coefficients) return false;
    const DecodeOptions& options = *chain_->decode;
    if (options.orient && record.orientation != 1) return false;
    const Size size{record.header.height, record.header.width};
    check_pixels(static_cast<std::uint64_t>(size.width), static_cast<std::uint64_t>(size.height),
                 options.limits);
    plan_passes(*chain_, size, StepRandom(context.rng(item), item.ordinal),
                options.limits.max_pixels, passes);
    if (passes.size() != 1 || passes.front().adjustments.count > 0) return false;
    const std::optional<jpeg::PackedImage> packed =
        jpeg::plan_record(record, passes.front().geometry, options.channels);
    if (!packed) return false;
    BufferPtr owner = image.owner();
    const std::string_view text(reinterpret_cast<const char*>(packed->bytes.data()),
                                packed->bytes.size());
    give(item, at, Tensor::bytes(text, std::move(owner)), packed->plan, context);
    device_counters().packed.fetch_add(1, std::memory_order_relaxed);
    return true;
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
      device_counters().pixels.fetch_add(1, std::memory_order_relaxed);
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

DeviceCounts device_counts() noexcept {
  return {device_counters().packed.load(std::memory_order_relaxed),
          device_counters().pixels.load(std::memory_order_relaxed)};
}

}  // namespace penstock::image
