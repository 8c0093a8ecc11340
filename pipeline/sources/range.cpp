// The source of integers.
#include <penstock/sources.h>

#include <cstring>

namespace penstock {
namespace {

// Unsigned, because the distance between two i64 may exceed i64.
std::uint64_t count_of(std::int64_t start, std::int64_t stop, std::int64_t step) {
  const auto from = static_cast<std::uint64_t>(start);
  const auto to = static_cast<std::uint64_t>(stop);
  const auto stride = static_cast<std::uint64_t>(step);
  if (step > 0) return start < stop ? (to - from - 1) / stride + 1 : 0;
  return start > stop ? (from - to - 1) / (0 - stride) + 1 : 0;
}

class RangeSource final : public Source {
 public:
  RangeSource(std::int64_t start, std::int64_t stop, std::int64_t step)
      : start_(start),
        stop_(stop),
        step_(step),
        count_(count_of(start, stop, step)),
        names_(Names::intern(std::vector<std::string>{"value"})) {}

  std::string name() const override { return "range"; }
  void describe(Description& description) const override {
    description.add("start", start_);
    description.add("stop", stop_);
    description.add("step", step_);
  }
  Spec spec() const override { return Spec({{"value", DType::i64, {}}}); }
  std::optional<std::uint64_t> size() const override { return count_; }

  bool columnar() const override { return true; }
  void read_columns(std::span<const std::uint64_t> indices, Element& out) const override {
    std::int64_t* value = out[0].mutable_values<std::int64_t>().data();
    for (const std::uint64_t index : indices) *value++ = at(index);
  }
  void read(std::span<ReadItem> items, ReadContext&) const override {
    for (ReadItem& item : items) {
      const std::int64_t value = at(item.index);
      item.element.start(names_);
      if (std::byte* place = item.row ? item.row.data(0) : nullptr) {
        std::memcpy(place, &value, sizeof(value));
        item.element.append(DType::i64, Shape(), place, BufferPtr());
      } else {
        Tensor& tensor = item.element.append(DType::i64, Shape(), nullptr, BufferPtr());
        std::memcpy(tensor.mutable_data(), &value, sizeof(value));
      }
    }
  }

 private:
  std::int64_t at(std::uint64_t index) const noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(start_) +
                                     static_cast<std::uint64_t>(step_) * index);
  }

  std::int64_t start_;
  std::int64_t stop_;
  std::int64_t step_;
  std::uint64_t count_;
  const Names* names_;
};

}  // namespace

SourcePtr make_range_source(std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step == 0) throw Error(ErrorCode::invalid_argument, "a range with a step of 0");
  return std::make_shared<RangeSource>(start, stop, step);
}

}  // namespace penstock
