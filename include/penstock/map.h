// Work ops that call a user's callables.
#pragma once

#include <concepts>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/work.h>

namespace penstock {

/// The options of a map.
struct MapOptions {
  /// The name of the callable in errors, explain and the fingerprint. Penstock can't see a change
  /// of a lambda's body: change the name with it.
  std::string name = "map";
  /// The output's spec; by default the input's. Every result is checked against it.
  std::optional<Spec> output{};
  /// Instead of `output`: the components that the callable sets. Each replaces the input's
  /// component of that name, or comes after all others. The type of a value that a callable of form
  /// three returns is compared with this when the graph is built, all else for every element.
  std::vector<ComponentSpec> adds{};
  /// True if the callable may wait (I/O, locks): it then runs off the compute threads.
  bool blocking = false;
  /// False: results are delivered as they finish, the same multiset in any order. Loses the index.
  bool ordered = true;
};

/// Form one: takes an element and returns one, which is copied once into its place. An exception
/// becomes the element's error.
using ElementFn = std::function<Element(Element&&, Rng&)>;
/// Form two: fills `out`, whose components are views of the place in the batch (or of a buffer).
/// Their shapes are those of the declared output spec, which must be of fixed size. If the map is
/// the last stage before a `batch`, `out` is the element's place in the batch. The callable may not
/// keep a view for later.
using ViewFn = std::function<void(const Element& in, Element& out, Rng& rng)>;
/// Form four: takes many elements at a time. Every component of `in` and of `out` has the elements
/// as its outermost dimension, [n, ...]. The engine chooses n, so no result may depend on it.
/// Elements in and out have a fixed size. The callable fills `out` in place or replaces its
/// components. If it throws, it is called again for each element alone, so it may not count calls.
using BatchFn = std::function<void(const Element& in, Element& out)>;
/// A callable that decides whether an element stays.
using Predicate = std::function<bool(const Element&)>;

/// Returns the options of a map of elements of spec `input`, with `output` set to what `adds`
/// describes. Throws Error{invalid_argument} if both were given, or if one component is added
/// twice.
MapOptions resolve_adds(MapOptions options, const Spec& input);

/// Returns an op that calls a callable of form one. This and the functions below take options whose
/// `adds` are resolved. They throw Error{invalid_argument} for other options, and for an empty
/// callable.
WorkOpPtr make_element_op(ElementFn fn, MapOptions options);
/// Returns an op whose callable changes the element where it is. With `draws` false it uses no
/// random numbers, and so does not change the random numbers of other ops.
WorkOpPtr make_in_place_op(std::function<void(Element&, Rng&)> fn, MapOptions options, bool draws);
/// Returns an op that calls a callable of form two. Throws Error{invalid_argument} unless the
/// output spec is given and of fixed size.
WorkOpPtr make_view_op(ViewFn fn, MapOptions options);
/// Returns an op that calls a callable of form four. The output's spec is the declared one or the
/// input's.
WorkOpPtr make_batch_fn_op(BatchFn fn, MapOptions options);
/// Returns the op of a filter.
WorkOpPtr make_predicate_op(Predicate predicate, std::string name);

/// A type that a callable may return to add a component: a tensor, a number or text.
template <typename T>
concept ComponentValue =
    std::same_as<T, Tensor> || TensorValue<Stored<T>> || std::convertible_to<T, std::string_view>;

/// Form three: a callable that returns the value of the one component that it adds.
template <typename F>
concept ValueCallable =
    (std::is_invocable_v<F&, const Element&> &&
     ComponentValue<std::remove_cvref_t<std::invoke_result_t<F&, const Element&>>>) ||
    (std::is_invocable_v<F&, const Element&, Rng&> &&
     ComponentValue<std::remove_cvref_t<std::invoke_result_t<F&, const Element&, Rng&>>>);

/// Anything callable as Element(Element), Element(Element, Rng&), void(const Element&, Element&,
/// Rng&), or, with `adds`, Value(const Element&) or Value(const Element&, Rng&). Value is a number,
/// text or a Tensor. Several threads call it at once: protect state that calls share. It may be
/// called again for an element that was made already, and must then give the same result for the
/// same element and random numbers.
template <typename F>
concept MapCallable = std::is_invocable_r_v<Element, F&, Element> ||
    std::is_invocable_r_v<Element, F&, Element, Rng&> ||
    std::is_invocable_v<F&, const Element&, Element&, Rng&> || ValueCallable<F>;

/// Returns the name of the one component that a callable of form three adds. `returns` is the dtype
/// of its values, if their type tells. Throws Error{invalid_argument} unless `options` add one
/// component that such values fit.
std::string added_component(const MapOptions& options, std::optional<DType> returns);

/// Returns a tensor that holds `value`.
template <typename Value>
Tensor component_value(Value&& value) {
  using T = std::remove_cvref_t<Value>;
  if constexpr (std::same_as<T, Tensor>) {
    return std::forward<Value>(value);
  } else if constexpr (std::convertible_to<T, std::string_view>) {
    return Tensor::copy_bytes(value);
  } else {
    return Tensor::scalar(value);
  }
}

/// Returns an op that calls a callable of form three.
template <ValueCallable F>
WorkOpPtr make_value_op(F fn, MapOptions options) {
  constexpr bool kDraws = !std::is_invocable_v<F&, const Element&>;
  const auto call = [](F& callable, const Element& element, [[maybe_unused]] Rng& rng) {
    if constexpr (kDraws) {
      return callable(element, rng);
    } else {
      return callable(element);
    }
  };
  using T = std::remove_cvref_t<decltype(call(fn, std::declval<Element&>(), std::declval<Rng&>()))>;
  std::optional<DType> returns;
  if constexpr (std::convertible_to<T, std::string_view>) {
    returns = DType::bytes;
  } else if constexpr (!std::same_as<T, Tensor>) {
    returns = dtype_of<Stored<T>>;
  }
  std::string name = added_component(options, returns);
  return make_in_place_op(
      [fn = std::move(fn), name = std::move(name), call](Element& element, Rng& rng) mutable {
        element.set(name, component_value(call(fn, element, rng)));
      },
      std::move(options), kDraws);
}

/// True for functions and function objects whose one parameter is an Element by value.
template <typename F>
struct TakesElement : std::false_type {};
/// @cond
template <>
struct TakesElement<Element (*)(Element)> : std::true_type {};
template <typename F>
requires requires {
  &F::operator();
}
struct TakesElement<F> : TakesElement<decltype(&F::operator())> {};
template <typename F>
struct TakesElement<Element (F::*)(Element)> : std::true_type {};
template <typename F>
struct TakesElement<Element (F::*)(Element) const> : std::true_type {};
/// @endcond

/// Returns an op that calls a callable of any form but the fourth.
template <MapCallable F>
WorkOpPtr make_map_op(F fn, MapOptions options) {
  if constexpr (TakesElement<F>::value) {
    return make_in_place_op(
        [fn = std::move(fn)](Element& element, Rng&) mutable {
          // The parameter takes everything over, so that the result can be made in its place.
          void* const place = &element;
          ::new (place) Element(fn(std::move(element)));
        },
        std::move(options), false);
  } else if constexpr (std::is_invocable_r_v<Element, F&, Element>) {
    return make_in_place_op(
        [fn = std::move(fn)](Element& element, Rng&) mutable { element = fn(std::move(element)); },
        std::move(options), false);
  } else if constexpr (std::is_invocable_r_v<Element, F&, Element, Rng&>) {
    return make_element_op(std::move(fn), std::move(options));
  } else if constexpr (ValueCallable<F>) {
    return make_value_op(std::move(fn), std::move(options));
  } else {
    return make_view_op(std::move(fn), std::move(options));
  }
}

}  // namespace penstock
