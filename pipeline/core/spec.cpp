#include <penstock/spec.h>

#include <algorithm>
#include <unordered_set>

#include <penstock/element.h>
#include <penstock/error.h>

namespace penstock {
namespace {

std::string describe(DType dtype, const Shape& shape) {
  return std::string(name_of(dtype)) + " " + shape.to_string();
}

}  // namespace

Spec::Spec(std::vector<ComponentSpec> components) : components_(std::move(components)) {
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i < components_.size(); ++i) {
    const std::string& name = components_[i].name;
    if (name.empty()) {
      throw Error(ErrorCode::invalid_argument, "component " + std::to_string(i) + " has no name");
    }
    if (!names.insert(name).second) {
      throw Error(ErrorCode::invalid_argument, "two components are named '" + name + "'");
    }
  }
}

int Spec::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < components_.size(); ++i) {
    if (components_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::size_t Spec::require(std::string_view name) const {
  const int position = find(name);
  if (position < 0) {
    throw Error(ErrorCode::not_found, "no component '" + std::string(name) + "' in " + to_string());
  }
  return static_cast<std::size_t>(position);
}

const Names* Spec::names() const {
  std::vector<std::string> names;
  for (const ComponentSpec& component : components_) names.push_back(component.name);
  return Names::intern(names);
}

Spec Spec::with(ComponentSpec component) const {
  std::vector<ComponentSpec> components = components_;
  const int position = find(component.name);
  if (position < 0) {
    components.push_back(std::move(component));
  } else {
    components[static_cast<std::size_t>(position)] = std::move(component);
  }
  return components;
}

bool Spec::is_static() const noexcept {
  return std::ranges::all_of(components_, [](const auto& c) { return c.shape.is_static(); });
}

bool Spec::is_fixed_size() const noexcept {
  return is_static() &&
         std::ranges::none_of(components_, [](const auto& c) { return c.dtype == DType::bytes; });
}

std::string Spec::to_string() const {
  std::string text = "{";
  for (const ComponentSpec& component : components_) {
    if (text.size() > 1) text += ", ";
    text += component.name + ": " + describe(component.dtype, component.shape);
  }
  return text + "}";
}

std::string Spec::mismatch(const Element& element) const {
  for (std::size_t i = 0; i < components_.size(); ++i) {
    const ComponentSpec& component = components_[i];
    const auto expected = [&] {
      return "component " + component.name + ": expected " +
             describe(component.dtype, component.shape) + ", got ";
    };
    if (i >= element.size()) return expected() + "nothing";
    if (element.name(i) != component.name) return expected() + "component " + element.name(i);
    const Tensor& tensor = element[i];
    if (tensor.dtype() != component.dtype || !component.shape.accepts(tensor.shape())) {
      return expected() + describe(tensor.dtype(), tensor.shape());
    }
  }
  if (element.size() > size()) {
    return "component " + element.name(size()) + ": not expected, the spec is " + to_string();
  }
  return {};
}

Spec Spec::relax(const Spec& a, const Spec& b, std::string_view stage) {
  const auto same = [](const ComponentSpec& x, const ComponentSpec& y) {
    return x.name == y.name && x.dtype == y.dtype;
  };
  if (!std::equal(a.begin(), a.end(), b.begin(), b.end(), same)) {
    throw Error(ErrorCode::invalid_argument,
                "inputs differ in names or dtypes: " + a.to_string() + " and " + b.to_string(),
                {.shard = {}, .stage = std::string(stage)});
  }
  std::vector<ComponentSpec> components = a.components_;
  for (std::size_t i = 0; i < components.size(); ++i) {
    components[i].shape = Shape::relax(a[i].shape, b[i].shape);
  }
  return components;
}

}  // namespace penstock
