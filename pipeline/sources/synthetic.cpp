#include "pipeline/sources/synthetic.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "pipeline/sources/synthetic_jpeg.h"

namespace penstock {
namespace {

// The purposes of a record's random numbers.
enum Purpose : std::uint32_t { kBytes, kRead, kCost, kFault, kLabel };

constexpr std::size_t kNoiseBytes = 1 << 20;
constexpr std::uint64_t kLabels = 1000;
constexpr int kLongestSide = 65500;
constexpr std::size_t kComment = 2 + 2 + 8;

Rng rng_for(const SyntheticOptions& options, std::uint64_t index, Purpose purpose) {
  return {mix64(options.seed), index, purpose};
}

std::string key_of(std::uint64_t index) {
  std::string digits = std::to_string(index);
  return std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
}

bool is_zero(const Distribution& d) {
  return d.kind == Distribution::Kind::constant && d.a == 0;
}

void check(const char* option, const Distribution& d) {
  const bool shaped = d.kind != Distribution::Kind::constant;
  if (!std::isfinite(d.a) || !std::isfinite(d.b) || !(d.a >= 0) || !(d.max >= 0) ||
      (d.kind == Distribution::Kind::uniform && d.b < d.a) || (shaped && d.b < 0) ||
      (d.kind == Distribution::Kind::pareto && d.b <= 0)) {
    throw Error(ErrorCode::invalid_argument,
                std::string("synthetic: '") + option + "' can't be " + to_text(d));
  }
}

void check(const SyntheticOptions& options) {
  check("bytes", options.bytes);
  check("read_us", options.read_us);
  check("cost_us", options.cost_us);
  if (!(options.fault_share >= 0 && options.fault_share <= 1)) {
    throw Error(ErrorCode::invalid_argument, "synthetic: 'faults' must be from 0 to 1");
  }
  const auto [low, high] = std::minmax(options.image_height, options.image_width);
  if (low < 0 || high > kLongestSide || (low == 0 && high > 0)) {
    throw Error(ErrorCode::invalid_argument,
                "synthetic: 'image' must have sides from 1 to " + std::to_string(kLongestSide));
  }
}

void describe_options(const SyntheticOptions& options, Description& description) {
  description.add("count", options.count);
  if (options.image_height > 0) {
    description.add("image_height", options.image_height);
    description.add("image_width", options.image_width);
  } else {
    description.add("bytes", to_text(options.bytes));
  }
  description.add("faults", options.fault_share);
  description.add("seed", options.seed);
}

/// Delays and faults, common to both kinds of records.
class SyntheticSource : public Source {
 public:
  explicit SyntheticSource(const SyntheticOptions& options) : options_(options) {}

  std::string name() const override { return "synthetic"; }
  void describe(Description& description) const override {
    describe_options(options_, description);
  }
  std::optional<std::uint64_t> size() const override { return options_.count; }
  bool blocking() const override { return !is_zero(options_.read_us); }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    for (ReadItem& item : items) {
      if (blocking()) {
        const double wait = draw(options_.read_us, rng_for(options_, item.index, kRead));
        std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(wait));
      }
      if (options_.fault_share > 0 &&
          rng_for(options_, item.index, kFault).coin(options_.fault_share)) {
        item.status = Status(ErrorCode::unavailable, "a synthetic fault");
        continue;
      }
      try {
        make(item, context);
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }

 protected:
  virtual void make(ReadItem& item, ReadContext& context) const = 0;

  const SyntheticOptions options_;
};

class SyntheticBytes final : public SyntheticSource {
 public:
  explicit SyntheticBytes(const SyntheticOptions& options)
      : SyntheticSource(options),
        names_(Names::intern(std::vector<std::string>{"data", "index"})) {}

  Spec spec() const override {
    return Spec({{"data", DType::bytes, {}}, {"index", DType::i64, {}}});
  }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    return static_cast<std::uint64_t>(draw(options_.bytes, rng_for(options_, index, kBytes)));
  }

 private:
  void make(ReadItem& item, ReadContext& context) const override {
    const std::size_t size = record_bytes(item.index);
    BufferPtr buffer = context.allocate(size);
    fill({buffer->data(), size}, item.index);
    item.element.reset(names_);
    const std::string_view bytes(reinterpret_cast<const char*>(buffer->data()), size);
    item.element[0] = Tensor::bytes(bytes, std::move(buffer));
    item.element[1] = Tensor::scalar(static_cast<std::int64_t>(item.index));
  }

  // Copies pieces of one block of noise, from a start that depends on the record. This is as fast
  // as memory.
  void fill(std::span<std::byte> out, std::uint64_t index) const {
    static const std::vector<std::uint64_t> noise = [] {
      std::vector<std::uint64_t> words(kNoiseBytes / sizeof(std::uint64_t));
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = mix_path(0, i);
      return words;
    }();
    const auto* block = reinterpret_cast<const std::byte*>(noise.data());
    std::size_t at = mix_path(options_.seed, index) % kNoiseBytes;
    while (!out.empty()) {
      const std::size_t n = std::min(out.size(), kNoiseBytes - at);
      std::memcpy(out.data(), block + at, n);
      out = out.subspan(n);
      at = 0;
    }
  }

  const Names* names_;
};

class SyntheticImages final : public SyntheticSource {
 public:
  explicit SyntheticImages(const SyntheticOptions& options)
      : SyntheticSource(options),
        names_(Names::intern(std::vector<std::string>{"image", "label", "key"})) {
    const std::size_t pixels = static_cast<std::size_t>(options.image_height) *
                               static_cast<std::size_t>(options.image_width);
    pictures_ = std::vector<Picture>(std::clamp<std::size_t>((64 << 20) / pixels, 2, 64));
  }

  Spec spec() const override {
    return Spec(
        {{"image", DType::bytes, {}}, {"label", DType::i64, {}}, {"key", DType::bytes, {}}});
  }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    return picture(index).size() + kComment + key_of(index).size();
  }

 private:
  struct Picture {
    std::once_flag once;
    std::string jpeg;
  };

  // Encoding costs more than the work to be measured, so pictures repeat. A comment behind the
  // first marker holds the record's index, so that the bytes still differ.
  const std::string& picture(std::uint64_t index) const {
    Picture& picture = pictures_[index % pictures_.size()];
    std::call_once(picture.once, [&] {
      picture.jpeg = make_synthetic_jpeg(options_.image_height, options_.image_width,
                                         mix_path(options_.seed, index % pictures_.size()));
    });
    return picture.jpeg;
  }

  void make(ReadItem& item, ReadContext& context) const override {
    const std::string& jpeg = picture(item.index);
    const std::string key = key_of(item.index);
    const std::size_t size = jpeg.size() + kComment;
    BufferPtr buffer = context.allocate(size + key.size());
    char* out = reinterpret_cast<char*>(buffer->data());
    std::array<char, kComment> comment = {'\xff', '\xfe', 0, kComment - 2};
    std::memcpy(comment.data() + 4, &item.index, sizeof(item.index));
    std::memcpy(out, jpeg.data(), 2);
    std::memcpy(out + 2, comment.data(), kComment);
    std::memcpy(out + 2 + kComment, jpeg.data() + 2, jpeg.size() - 2);
    std::memcpy(out + size, key.data(), key.size());
    item.element.reset(names_);
    item.element[0] = Tensor::bytes({out, size}, buffer);
    const std::uint64_t label = rng_for(options_, item.index, kLabel).below(kLabels);
    item.element[1] = Tensor::scalar(static_cast<std::int64_t>(label));
    item.element[2] = Tensor::bytes({out + size, key.size()}, std::move(buffer));
  }

  mutable std::vector<Picture> pictures_;  // each made once, when it is first needed
  const Names* names_;
};

class CostOp final : public WorkOp {
 public:
  explicit CostOp(const SyntheticOptions& options) : options_(options) {}

  std::string name() const override { return "synthetic_cost"; }
  void describe(Description&) const override {}
  Spec infer(const Spec& input) const override { return input; }
  bool can_fail() const override { return false; }

  void run(std::span<WorkItem> items, WorkContext&) const override {
    using Clock = std::chrono::steady_clock;
    for (const WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      const double cost = draw(options_.cost_us, rng_for(options_, item.ordinal, kCost));
      const auto end = Clock::now() + std::chrono::duration<double, std::micro>(cost);
      while (Clock::now() < end) {
      }
    }
  }

 private:
  SyntheticOptions options_;
};

}  // namespace

SourcePtr make_synthetic_source(const SyntheticOptions& options) {
  check(options);
  if (options.image_height > 0) return std::make_shared<SyntheticImages>(options);
  return std::make_shared<SyntheticBytes>(options);
}

WorkOpPtr make_synthetic_cost_op(const SyntheticOptions& options) {
  return is_zero(options.cost_us) ? nullptr : std::make_shared<CostOp>(options);
}

}  // namespace penstock
