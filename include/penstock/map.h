// A user's callables as work ops.
#pragma once

#include <functional>
#include <new>
#include <optional>
#include <string>
#include <type_traits>

#include <penstock/work.h>

namespace penstock {

struct MapOptions {
  /// Names the callable in errors, explain and the fingerprint. A change of a lambda's body can't
  /// be seen: change the name with it.
  std::string name = "map";
  /// The output's spec; by default the input's. Every result is checked against it.
  std::optional<Spec> output{};
  /// The callable may wait (I/O, locks): run it off the compute threads.
  bool blocking = false;
  /// False: results are delivered as they finish, the same multiset in any order.
  bool ordered = true;
};

/// Form one: takes an element, returns one; it is copied once into its place. What it throws
/// becomes the element's error.
using ElementFn = std::function<Element(Element&&, Rng&)>;
/// Form two: fills `out`, whose components are views of the place in the batch (or of a buffer),
/// shaped by the declared output spec, which must be of fixed size. No view may be kept for later.
using ViewFn = std::function<void(const Element& in, Element& out, Rng& rng)>;
/// Form four, for many elements at a time: every component of `in` and of `out` has the elements as
/// its outermost dimension, [n, ...], and n is up to the engine, so that no result may depend on
/// it. Elements in and out have a fixed size. `out` is filled in place, or its components replaced.
using BatchFn = std::function<void(const Element& in, Element& out)>;
/// Decides whether an element stays.
using Predicate = std::function<bool(const Element&)>;

/// Throws Error{invalid_argument} for an empty callable.
WorkOpPtr make_element_op(ElementFn fn, MapOptions options);
/// The same for a callable that changes the element where it is. `draws` false: it uses no random
/// numbers, so that it takes no part in keying those of other ops.
WorkOpPtr make_in_place_op(std::function<void(Element&, Rng&)> fn, MapOptions options, bool draws);
/// Throws Error{invalid_argument} unless the output spec is given and of fixed size.
WorkOpPtr make_view_op(ViewFn fn, MapOptions options);
/// The output's spec is the declared one or the input's.
WorkOpPtr make_batch_fn_op(BatchFn fn, MapOptions options);
WorkOpPtr make_predicate_op(Predicate predicate, std::string name);

/// Anything callable as Element(Element), Element(Element, Rng&) or void(const Element&, Element&,
/// Rng&).
template <typename F>
concept MapCallable = std::is_invocable_r_v<Element, F&, Element> ||
    std::is_invocable_r_v<Element, F&, Element, Rng&> ||
    std::is_invocable_v<F&, const Element&, Element&, Rng&>;

/// True for functions and function objects whose one parameter is an Element by value.
template <typename F>
struct TakesElement : std::false_type {};
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
  } else {
    return make_view_op(std::move(fn), std::move(options));
  }
}

}  // namespace penstock
