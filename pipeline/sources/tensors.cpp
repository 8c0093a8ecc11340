// Sources of tensors that are in memory already.
#include <penstock/sources.h>

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace {

std::uint64_t hash_of(const Tensor& tensor) {
  if (tensor.dtype() != DType::bytes) {
    const Tensor flat = tensor.contiguous() ? tensor : tensor.clone();
    return XXH3_64bits(flat.data(), flat.nbytes());
  }
  std::uint64_t hash = 0;
  for (const std::string_view text : tensor.to_vector<std::string_view>()) {
    hash = XXH3_64bits_withSeed(text.data(), text.size(), hash + text.size() + 1);
  }
  return hash;
}

Spec spec_of(const Element& element, bool rows) {
  std::vector<ComponentSpec> components;
  for (std::size_t i = 0; i < element.size(); ++i) {
    const Tensor& tensor = element[i];
    components.push_back(
        {element.name(i), tensor.dtype(), rows ? tensor.shape().drop_front() : tensor.shape()});
  }
  return components;
}

void describe_values(const Element& element, Description& description) {
  for (std::size_t i = 0; i < element.size(); ++i) {
    description.add(element.name(i), std::string(name_of(element[i].dtype())) + " " +
                                         element[i].shape().to_string());
    description.add("hash", hash_of(element[i]));
  }
}

class TensorsSource final : public Source {
 public:
  explicit TensorsSource(Element columns)
      : columns_(std::move(columns)), spec_(spec_of(columns_, true)) {}

  std::string name() const override { return "tensors"; }
  void describe(Description& description) const override { describe_values(columns_, description); }
  Spec spec() const override { return spec_; }
  std::optional<std::uint64_t> size() const override {
    return static_cast<std::uint64_t>(columns_[0].dim(0));
  }

  bool columnar() const override {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!columns_[i].contiguous() || columns_[i].dtype() == DType::bytes) return false;
    }
    return true;
  }
  void read_columns(std::span<const std::uint64_t> indices, Element& out) const override {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::size_t row = columns_[i].nbytes() / static_cast<std::size_t>(columns_[i].dim(0));
      std::byte* place = out[i].mutable_data();
      for (const std::uint64_t index : indices) {
        std::memcpy(place, columns_[i].data() + row * index, row);
        place += row;
      }
    }
  }
  void read(std::span<ReadItem> items, ReadContext&) const override {
    for (ReadItem& item : items) {
      item.element.reset(columns_.names());
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        item.element[i] = columns_[i][static_cast<std::int64_t>(item.index)];
      }
    }
  }

 private:
  Element columns_;
  Spec spec_;
};

class ElementSource final : public Source {
 public:
  explicit ElementSource(Element element) : element_(std::move(element)) {}

  std::string name() const override { return "from_element"; }
  void describe(Description& description) const override { describe_values(element_, description); }
  Spec spec() const override { return spec_of(element_, false); }
  std::optional<std::uint64_t> size() const override { return 1; }

  void read(std::span<ReadItem> items, ReadContext&) const override {
    for (ReadItem& item : items) item.element = element_;
  }

 private:
  Element element_;
};

}  // namespace

SourcePtr make_tensors_source(Element columns) {
  if (columns.empty()) throw Error(ErrorCode::invalid_argument, "tensors: no component is given");
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].rank() == 0) {
      throw Error(ErrorCode::invalid_argument,
                  "tensors: component '" + columns.name(i) + "' is a scalar and has no rows");
    }
    if (columns[i].dim(0) != columns[0].dim(0)) {
      throw Error(ErrorCode::invalid_argument, "tensors: component '" + columns.name(i) + "' has " +
                                                   std::to_string(columns[i].dim(0)) + " rows, '" +
                                                   columns.name(0) + "' has " +
                                                   std::to_string(columns[0].dim(0)));
    }
  }
  return std::make_shared<TensorsSource>(std::move(columns));
}

SourcePtr make_element_source(Element element) {
  if (element.empty()) {
    throw Error(ErrorCode::invalid_argument, "from_element: the element has no components");
  }
  return std::make_shared<ElementSource>(std::move(element));
}

}  // namespace penstock
