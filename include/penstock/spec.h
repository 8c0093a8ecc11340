// Specs: the dtypes and shapes of elements, known before anything runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock {

/// The name, dtype and shape of one component.
struct ComponentSpec {
  std::string name;         ///< unique within a spec
  DType dtype = DType::u8;  ///< of its values
  Shape shape;              ///< dimensions may be Shape::kUnknown, and so may the rank

  friend bool operator==(const ComponentSpec&, const ComponentSpec&) = default;
};

class Element;
class Names;

/// The ordered components of an element. Names are unique; dimensions may be unknown. Immutable, so
/// threads may share it.
class Spec {
 public:
  /// A spec without components.
  Spec() = default;
  /// A spec of these components. Throws Error{invalid_argument} for an empty or repeated name.
  Spec(std::vector<ComponentSpec> components);  // NOLINT(google-explicit-constructor)

  /// Returns the number of components.
  std::size_t size() const noexcept { return components_.size(); }
  /// Returns component i. REQUIRES: i < size().
  const ComponentSpec& operator[](std::size_t i) const noexcept { return components_[i]; }
  /// Returns an iterator over the components, in order.
  auto begin() const noexcept { return components_.begin(); }
  /// Returns the end of the components.
  auto end() const noexcept { return components_.end(); }
  /// Returns the position of a component, or -1.
  int find(std::string_view name) const noexcept;
  /// Returns the position of a component. Throws Error{not_found} that lists the names of the spec.
  std::size_t require(std::string_view name) const;
  /// Returns the components' names, interned.
  const Names* names() const;
  /// Returns a copy in which the component of that name is replaced, or appended if there is none.
  Spec with(ComponentSpec component) const;
  /// Returns true if every dimension of every component is known.
  bool is_static() const noexcept;
  /// Returns true if every dimension is known and no component is of dtype bytes, so that a batch
  /// has a fixed size.
  bool is_fixed_size() const noexcept;
  /// Returns "{image: u8 [?,?,3], label: i64 []}".
  std::string to_string() const;
  /// Returns an empty text if `element` fits, else the difference: "component image: expected u8
  /// [?,?,3], got f32 [3]".
  std::string mismatch(const Element& element) const;
  /// Returns the tightest spec that both fit, for concatenation. Throws Error{invalid_argument}
  /// naming both specs.
  static Spec relax(const Spec& a, const Spec& b, std::string_view stage);

  friend bool operator==(const Spec&, const Spec&) = default;

 private:
  std::vector<ComponentSpec> components_;
};

}  // namespace penstock
