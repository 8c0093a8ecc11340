// What an element looks like, known before anything runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock {

struct ComponentSpec {
  std::string name;
  DType dtype = DType::u8;
  Shape shape;

  friend bool operator==(const ComponentSpec&, const ComponentSpec&) = default;
};

class Element;
class Names;

/// The ordered components of an element: names are unique, dimensions may be unknown.
class Spec {
 public:
  Spec() = default;
  /// Throws Error{invalid_argument} for an empty or repeated name.
  Spec(std::vector<ComponentSpec> components);  // NOLINT(google-explicit-constructor)

  std::size_t size() const noexcept { return components_.size(); }
  const ComponentSpec& operator[](std::size_t i) const noexcept { return components_[i]; }
  auto begin() const noexcept { return components_.begin(); }
  auto end() const noexcept { return components_.end(); }
  /// Position of a component, or -1.
  int find(std::string_view name) const noexcept;
  /// Position of a component. Throws Error{not_found} that lists the names there are.
  std::size_t require(std::string_view name) const;
  /// The components' names, interned.
  const Names* names() const;
  /// A copy in which the component of that name is replaced or, if there is none, appended.
  Spec with(ComponentSpec component) const;
  /// Every dimension of every component is known.
  bool is_static() const noexcept;
  /// Every dimension is known and no component is of dtype bytes, so that a batch has a fixed size.
  bool is_fixed_size() const noexcept;
  /// "{image: u8 [?,?,3], label: i64 []}".
  std::string to_string() const;
  /// Empty if `element` fits, else what differs: "component image: expected u8 [?,?,3], got f32
  /// [3]".
  std::string mismatch(const Element& element) const;
  /// The tightest spec both fit, for concatenation. Throws Error{invalid_argument} naming both
  /// specs.
  static Spec relax(const Spec& a, const Spec& b, std::string_view stage);

  friend bool operator==(const Spec&, const Spec&) = default;

 private:
  std::vector<ComponentSpec> components_;
};

}  // namespace penstock
