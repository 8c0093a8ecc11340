#include "tests/support/numbers.h"

#include <array>
#include <sstream>
#include <string_view>

namespace penstock::test {
namespace {

const Names* x_names() {
  static const std::array<std::string, 1> names{"x"};
  return Names::intern(names);
}

class NumberSource final : public Source {
 public:
  explicit NumberSource(std::vector<std::int64_t> values) : values_(std::move(values)) {}
  std::string name() const override { return "numbers"; }
  void describe(Description& description) const override {
    for (const std::int64_t value : values_) description.add("value", value);
  }
  Spec spec() const override { return x_spec(); }
  std::optional<std::uint64_t> size() const override { return values_.size(); }
  void read(std::span<WorkItem> items, ReadContext&) const override {
    for (WorkItem& item : items) item.element = x_element(values_[item.index]);
  }
  Provenance locate(std::uint64_t index) const override {
    return {"numbers", static_cast<std::int64_t>(index * 8), static_cast<std::int64_t>(index), {}};
  }

 private:
  std::vector<std::int64_t> values_;
};

class NumberStream final : public RecordStream {
 public:
  explicit NumberStream(const std::vector<std::int64_t>& values) : values_(values) {}
  bool next(WorkItem& item, ReadContext&) override {
    if (next_ >= values_.size()) return false;
    where_ = {"number_stream",
              static_cast<std::int64_t>(next_ * 8),
              static_cast<std::int64_t>(next_),
              {}};
    item.index = next_;
    item.element = x_element(values_[next_++]);
    return true;
  }
  const Provenance& locate() const override { return where_; }

 private:
  const std::vector<std::int64_t>& values_;
  std::size_t next_ = 0;
  Provenance where_;
};

class StreamSource final : public Source {
 public:
  explicit StreamSource(std::vector<std::int64_t> values) : values_(std::move(values)) {}
  std::string name() const override { return "number_stream"; }
  void describe(Description& description) const override {
    description.add("count", static_cast<std::uint64_t>(values_.size()));
  }
  Spec spec() const override { return x_spec(); }
  std::unique_ptr<RecordStream> stream() const override {
    return std::make_unique<NumberStream>(values_);
  }

 private:
  std::vector<std::int64_t> values_;
};

template <typename T>
void append_row(const Tensor& row, std::string& text) {
  const std::vector<T> all = row.to_vector<T>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0) text += " ";
    if constexpr (std::is_same_v<T, std::string_view>) {
      text += all[i].empty() ? "\"\"" : std::string(all[i]);
    } else if constexpr (std::is_floating_point_v<T>) {
      std::ostringstream number;
      number << all[i];
      text += number.str();
    } else {
      text += std::to_string(all[i]);
    }
  }
  if (all.empty()) text += "-";
}

void append(const Tensor& tensor, std::string& text) {
  if (tensor.rank() > 1) {
    for (std::int64_t i = 0; i < tensor.dim(0); ++i) {
      text += i > 0 ? " [" : "[";
      append(tensor[i], text);
      text += "]";
    }
    return;
  }
  switch (tensor.dtype()) {
    case DType::bytes:
      return append_row<std::string_view>(tensor, text);
    case DType::f32:
      return append_row<float>(tensor, text);
    case DType::u8:
      return append_row<std::uint8_t>(tensor, text);
    case DType::i32:
      return append_row<std::int32_t>(tensor, text);
    default:
      return append_row<std::int64_t>(tensor, text);
  }
}

}  // namespace

Spec x_spec() {
  return Spec({{"x", DType::i64, Shape()}});
}

Element x_element(std::int64_t value) {
  Element element(x_names());
  element[0] = Tensor::scalar(value);
  return element;
}

std::string text_of(const Element& element) {
  std::string text;
  if (element.size() == 1) {
    append(element[0], text);
    return text;
  }
  for (std::size_t i = 0; i < element.size(); ++i) {
    text += i == 0 ? "(" : ", ";
    append(element[i], text);
  }
  return text + ")";
}

Dataset numbers(std::vector<std::int64_t> values) {
  return Dataset(std::make_shared<NumberSource>(std::move(values)));
}

Dataset numbers(std::int64_t count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = i;
  return numbers(std::move(values));
}

Dataset stream(std::vector<std::int64_t> values) {
  return Dataset(std::make_shared<StreamSource>(std::move(values)));
}

Dataset counting(const Dataset& input, std::shared_ptr<std::atomic<int>> made) {
  return input.map(
      [made](Element element) {
        ++*made;
        return element;
      },
      {.name = "counting"});
}

Dataset failing_at(const Dataset& input, std::int64_t bad) {
  return input.map(
      [bad](Element element) {
        if (element["x"].item<std::int64_t>() == bad) throw std::runtime_error("bad element");
        return element;
      },
      {.name = "failing"});
}

std::string run(const Dataset& dataset, RunOptions options, std::size_t limit) {
  std::string text;
  Iterator iterator = dataset.iterate(options);
  bool batches = false;
  std::size_t count = 0;
  std::vector<std::vector<std::string>> epochs;
  do {
    epochs.emplace_back();
    for (; count < limit; ++count) {
      Next next = iterator.next();
      if (next.is_end()) break;
      batches = batches || (next.has_value() && next->valid_rows >= 0);
      epochs.back().push_back(next.is_error() ? "E" : text_of(*next));
    }
  } while (iterator.next_epoch());
  for (const std::vector<std::string>& epoch : epochs) {
    for (std::size_t i = 0; i < epoch.size(); ++i) {
      text += (i == 0 ? "" : batches ? " | " : " ") + epoch[i];
    }
    if (options.epochs > 1) text += " ;";
  }
  return text;
}

std::vector<std::int64_t> values(const Dataset& dataset, RunOptions options) {
  std::vector<std::int64_t> all;
  Iterator iterator = dataset.iterate(options);
  do {
    for (;;) {
      Next next = iterator.next();
      if (next.is_end()) break;
      const std::vector<std::int64_t> some = next.value()[0].to_vector<std::int64_t>();
      all.insert(all.end(), some.begin(), some.end());
    }
  } while (iterator.next_epoch());
  return all;
}

std::vector<Error> errors(const Dataset& dataset, RunOptions options) {
  std::vector<Error> all;
  Iterator iterator = dataset.iterate(options);
  for (;;) {
    Next next = iterator.next();
    if (next.is_end()) return all;
    if (next.is_error()) all.push_back(next.error());
  }
}

}  // namespace penstock::test
