#include "pipeline/image/fused.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "pipeline/image/decoders.h"
#include "pipeline/image/pipe.h"

namespace penstock::image {

namespace {

/// The most images that any decoder works on at once.
constexpr std::size_t kMaxLanes = 32;
/// The memory that all pipes of a thread keep for the next images.
constexpr std::size_t kMostKept = 3U << 20;
/// As many items as keep a decoder's lanes busy.
constexpr std::size_t kGroup = kMaxLanes;

/// One group in this many is timed. Reading the clock for a few rows costs as much as a little
/// work.
constexpr unsigned kTimed = 16;

struct ThreadState {
  Decoders decoders;
  std::array<Pipe, kMaxLanes> pipes;
  unsigned groups = 0;

  bool is_timed(std::span<const DecodeJob> jobs) noexcept {
    return groups++ % kTimed == 0 && std::ranges::all_of(jobs, [](const DecodeJob& job) {
             return detect_format(job.bytes) == Format::jpeg;
           });
  }

  void decode_timed(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept {
    for (std::size_t i = 0; i < jobs.size(); ++i) pipes[i].time_rows(true);
    const auto start = std::chrono::steady_clock::now();
    decoders.decode(jobs, options);
    const auto took = std::chrono::steady_clock::now() - start;
    std::uint64_t pixels = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      pixels += pipes[i].rows_took();
      pipes[i].time_rows(false);
    }
    count_timed(static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count()), pixels);
  }

  void keep_little() noexcept {
    std::size_t kept = 0;
    for (Pipe& pipe : pipes) {
      kept += pipe.kept();
      if (kept <= kMostKept) continue;
      kept -= pipe.kept();
      pipe.let_go_of_all();
    }
  }
};

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

class FusedOp final : public WorkOp {
 public:
  explicit FusedOp(std::shared_ptr<const ImageOps::Chain> chain)
      : FusedOp(chain, output_format(*chain)) {}
  FusedOp(std::shared_ptr<const ImageOps::Chain> chain, const OutputFormat& format)
      : chain_(std::move(chain)), format_(format) {}

  std::string name() const override { return name_of(*chain_); }
  void describe(Description& description) const override {
    penstock::image::describe(*chain_, description);
  }
  std::size_t preferred_group() const override { return kGroup; }
  bool random() const override {
    return std::any_of(chain_->steps.begin(), chain_->steps.end(), [](const auto& step) {
      return std::holds_alternative<RandomResizedCropStep>(step.any) ||
             std::holds_alternative<RandomPadCropStep>(step.any) ||
             std::holds_alternative<RandomFlipStep>(step.any) ||
             std::holds_alternative<ColorJitterStep>(step.any);
    });
  }

  Spec infer(const Spec& input) const override {
    const ComponentSpec& from = input[input.require(chain_->component)];
    Size size{-1, -1};
    int channels = 0;
    if (chain_->decode) {
      if (from.dtype != DType::bytes || !from.shape.accepts(Shape())) {
        refuse(input, "to decode must be bytes [] and not yet batched");
      }
      channels = chain_->decode->channels;
    } else {
      const bool known = from.shape.has_rank() && from.shape.rank() == 3;
      const std::int64_t last = known ? from.shape[2] : -1;
      if (from.dtype != DType::u8 || (last != 1 && last != 3)) {
        refuse(input, "with pixels must be u8 [height,width,1 or 3]");
      }
      channels = static_cast<int>(last);
      size = {static_cast<int>(from.shape[0]), static_cast<int>(from.shape[1])};
    }
    size = infer_size(*chain_, size);
    const Shape shape = format_.layout == Layout::hwc ? Shape({size.height, size.width, channels})
                                                      : Shape({channels, size.height, size.width});
    return input.with({chain_->component, format_.dtype, shape});
  }

  const std::string& component() const noexcept { return chain_->component; }
  const OutputFormat& format() const noexcept { return format_; }
  WorkOpPtr without_finish() const {
    OutputFormat planes;
    planes.layout = Layout::chw;
    planes.channels = format_.channels;
    return std::make_shared<FusedOp>(chain_, planes);
  }

  void run(std::span<WorkItem> items, WorkContext& context) const override {
    if (chain_->decode) {
      decode(items, context);
    } else {
      for (WorkItem& item : items) {
        if (item.status.ok() && item.keep) item.status = process(item, context);
      }
    }
  }

 private:
  [[noreturn]] void refuse(const Spec& input, const std::string& expected) const {
    throw Error(ErrorCode::invalid_argument, name() + ": component \"" + chain_->component + "\" " +
                                                 expected + ", in " + input.to_string());
  }

  std::size_t position(const Element& element) const {
    const int found = element.names() == nullptr ? -1 : element.names()->find(chain_->component);
    if (found < 0) {
      throw Error(ErrorCode::not_found, "no component \"" + chain_->component + "\"");
    }
    return static_cast<std::size_t>(found);
  }

  static std::byte* place(const WorkItem& item, std::size_t component) {
    return item.row ? item.row.data(component) : nullptr;
  }

  /// Decodes as many items at once as the decoder has lanes.
  void decode(std::span<WorkItem> items, WorkContext& context) const {
    ThreadState& state = thread_state();
    const std::size_t lanes = std::min(state.decoders.lanes(), kMaxLanes);
    std::array<DecodeJob, kMaxLanes> jobs;
    std::array<std::optional<StepRandom>, kMaxLanes> randoms;
    std::array<WorkItem*, kMaxLanes> owners{};
    std::size_t count = 0;
    const auto flush = [&] {
      const std::span<DecodeJob> group(jobs.data(), count);
      if (state.is_timed(group)) {
        state.decode_timed(group, *chain_->decode);
      } else {
        state.decoders.decode(group, *chain_->decode);
      }
      for (std::size_t i = 0; i < count; ++i) complete(jobs[i], state.pipes[i], *owners[i]);
      state.keep_little();
      count = 0;
    };
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      try {
        const std::size_t component = position(item.element);
        const std::string_view bytes = item.element[component].bytes_at();
        randoms[count].emplace(context.rng(item), item.ordinal);
        state.pipes[count].begin(*chain_, format_, *randoms[count], context,
                                 place(item, component));
        jobs[count] = {std::as_bytes(std::span(bytes)), &state.pipes[count]};
      } catch (...) {
        item.status = status_from_current_exception();
        continue;
      }
      owners[count++] = &item;
      if (count == lanes) flush();
    }
    if (count > 0) flush();
  }

  void complete(const DecodeJob& job, Pipe& pipe, WorkItem& item) const noexcept {
    item.status = job.status;
    try {
      if (item.status.ok()) item.element[position(item.element)] = pipe.finish();
    } catch (...) {
      item.status = status_from_current_exception();
    }
    if (!item.status.ok()) pipe.abandon();
  }

  Status process(WorkItem& item, WorkContext& context) const noexcept try {
    const std::size_t component = position(item.element);
    Tensor pixels = item.element[component];
    if (pixels.dtype() != DType::u8 || pixels.rank() != 3 ||
        (pixels.dim(2) != 1 && pixels.dim(2) != 3)) {
      return {ErrorCode::mismatch,
              "component \"" + chain_->component + "\" must hold u8 [height,width,1 or 3]"};
    }
    check_pixels(static_cast<std::uint64_t>(pixels.dim(1)),
                 static_cast<std::uint64_t>(pixels.dim(0)), Limits());
    if (!pixels.contiguous()) pixels = pixels.clone();
    Pipe& pipe = thread_state().pipes.front();
    const StepRandom random(context.rng(item), item.ordinal);
    pipe.begin(*chain_, format_, random, context, place(item, component));
    try {
      pipe.take(pixels);
      item.element[component] = pipe.finish();
    } catch (...) {
      pipe.abandon();
      throw;
    }
    return {};
  } catch (...) {
    return status_from_current_exception();
  }

  std::shared_ptr<const ImageOps::Chain> chain_;
  OutputFormat format_;
};

}  // namespace

WorkOpPtr make_fused_op(std::shared_ptr<const ImageOps::Chain> chain) {
  return std::make_shared<FusedOp>(std::move(chain));
}

const OutputFormat* output_of(const WorkOp& op, std::string_view& component) noexcept {
  const auto* const fused = dynamic_cast<const FusedOp*>(&op);
  if (fused == nullptr) return nullptr;
  component = fused->component();
  return &fused->format();
}

WorkOpPtr without_finish(const WorkOp& op) {
  return dynamic_cast<const FusedOp&>(op).without_finish();
}

}  // namespace penstock::image
