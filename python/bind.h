// Binds C++ functions whose last parameter is an options struct as Python functions with keyword
// arguments. Types that Python has no like of are given as what `Given` says.
#pragma once

#include <filesystem>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>

#include "python/bindings.h"

namespace penstock::python {

/// Returns what a function of Python returned as an R.
template <typename R>
R result(nb::handle value) {
  if constexpr (std::is_same_v<R, bool>) {
    const int truth = PyObject_IsTrue(value.ptr());
    if (truth < 0) throw nb::python_error();
    return truth == 1;
  } else if constexpr (std::is_same_v<R, Element>) {
    return element_of(value, true);
  } else if constexpr (std::is_same_v<R, std::pair<Element, Element>>) {
    const auto both = nb::cast<std::pair<nb::object, nb::object>>(value);
    return {element_of(both.first, true), element_of(both.second, true)};
  } else {
    return nb::cast<R>(value);
  }
}

/// How Python gives a T: as a `type`, which `take` converts; `show` returns a default as Python
/// shows it.
template <typename T>
struct Given {
  using type = T;
  static T take(type value) { return value; }
  static nb::object show(const T& value) { return nb::cast(value); }
};
template <>
struct Given<DType> {
  using type = nb::object;
  static DType take(const type& dtype) { return dtype_of(dtype); }
  static nb::object show(DType dtype) { return nb::cast(name_of(dtype)); }
};
template <>
struct Given<Shape> {
  using type = std::optional<std::vector<std::optional<std::int64_t>>>;
  static Shape take(const type& dims) { return shape_of(nb::cast(dims)); }
};
template <>
struct Given<Spec> {
  using type = SpecDict;
  static Spec take(const type& spec) { return spec_of(spec); }
};
template <>
struct Given<Element> {
  using type = std::variant<Element, Values>;
  static Element take(const type& values) {
    const auto* const element = std::get_if<Element>(&values);
    return element != nullptr ? *element : element_of(std::get<Values>(values), false);
  }
};
template <typename T>
struct Given<std::optional<T>> {
  using type = std::optional<typename Given<T>::type>;
  static std::optional<T> take(type value) {
    return value ? std::optional<T>(Given<T>::take(std::move(*value))) : std::nullopt;
  }
  static nb::object show(const std::optional<T>&) { return nb::none(); }
};
template <typename T>
struct Given<std::vector<T>> {
  using type = std::vector<typename Given<T>::type>;
  static std::vector<T> take(type values) {
    std::vector<T> all;
    for (auto& value : values) all.push_back(Given<T>::take(std::move(value)));
    return all;
  }
  static nb::object show(const std::vector<T>&) { return nb::list(); }
};
/// One name or path, or several.
template <>
struct Given<std::vector<std::string>> {
  using One = std::variant<std::string, std::filesystem::path>;
  using type = std::variant<std::string, std::filesystem::path, std::vector<One>>;
  static std::vector<std::string> take(const type& given) {
    if (const auto* const text = std::get_if<std::string>(&given)) return {*text};
    if (const auto* const path = std::get_if<std::filesystem::path>(&given)) return {*path};
    std::vector<std::string> all;
    for (const One& one : std::get<2>(given))
      std::visit([&](const auto& name) { all.push_back(name); }, one);
    return all;
  }
  static nb::object show(const std::vector<std::string>&) { return nb::list(); }
};
template <>
struct Given<Function> {
  using type = nb::callable;
  static Function take(const type& function) { return Function(function); }
};
template <typename R, typename... A>
struct Given<std::function<R(A...)>> {
  using type = std::optional<nb::callable>;
  static std::function<R(A...)> take(const type& function) {
    if (!function) return {};
    return calling(Function(*function));
  }
  static std::function<R(A...)> calling(Function function) {
    return [call = std::move(function)](A... arguments) -> R {
      return call([&] { return nb::make_tuple(arguments...); }, result<R>);
    };
  }
  static nb::object show(const std::function<R(A...)>&) { return nb::none(); }
};
/// An op, which shares its ownership with datasets.
struct Op {
  WorkOpPtr op;
};
template <>
struct Given<WorkOpPtr> {
  using type = Op;
  static WorkOpPtr take(const type& given) { return given.op; }
};
/// An enumeration, by the names of its values in their order.
template <typename E>
struct Named {
  using type = std::string;
  static E take(const type& name) {
    for (std::size_t i = 0; i < std::size(Given<E>::names); ++i)
      if (name == Given<E>::names[i]) return static_cast<E>(i);
    std::string all;
    for (const char* const each : Given<E>::names)
      all += std::string(all.empty() ? "" : ", ") + each;
    throw Error(ErrorCode::invalid_argument, "\"" + name + "\" is none of " + all);
  }
  static nb::object show(E value) {
    return nb::cast(Given<E>::names[static_cast<std::size_t>(value)]);
  }
};
template <>
struct Given<Layout> : Named<Layout> {
  static constexpr const char* names[] = {"hwc", "chw"};
};
template <>
struct Given<Compression> : Named<Compression> {
  static constexpr const char* names[] = {"automatic", "none", "gzip", "zlib"};
};
template <>
struct Given<OnError> : Named<OnError> {
  static constexpr const char* names[] = {"fail", "skip", "retry"};
};
template <>
struct Given<FeedMode> : Named<FeedMode> {
  static constexpr const char* names[] = {"split", "per_tower", "sharded"};
};
template <>
struct Given<EpochEnd> : Named<EpochEnd> {
  static constexpr const char* names[] = {"drop", "pad", "wrap", "stop"};
};
/// A saved state.
struct Bytes {
  std::string value;
};
template <>
struct Given<Bytes> {
  using type = nb::bytes;
  static Bytes take(const type& state) { return {{state.c_str(), state.size()}}; }
};

/// A member of an options struct, as a keyword argument.
template <typename S, typename T>
struct Field {
  using type = T;
  const char* name;
  T S::*member;
};
template <typename S, typename T>
Field(const char*, T S::*) -> Field<S, T>;

/// A member that is a path.
struct FilePath {};
template <>
struct Given<FilePath> {
  using type = std::filesystem::path;
  static std::string take(const type& given) { return given.string(); }
  static nb::object show(const std::string& value) { return nb::cast(value); }
};
template <typename S>
struct PathField {
  using type = FilePath;
  const char* name;
  std::string S::*member;
};
template <typename S>
PathField(const char*, std::string S::*) -> PathField<S>;

/// The members of the options struct O; fields.h lists them.
template <typename O>
struct Fields;
template <typename O>
concept Options = requires {
  Fields<O>::all;
};

// Splits parameter types into those that are given by position and the options struct behind them.
template <typename... T>
struct Types {};
template <typename Done, typename... Left>
struct Split;
template <typename... Done>
struct Split<Types<Done...>> {
  using before = Types<Done...>;
  using options = void;
};
template <typename... Done, typename First, typename... Left>
struct Split<Types<Done...>, First, Left...> : Split<Types<Done..., First>, Left...> {};
template <typename... Done, Options Last>
struct Split<Types<Done...>, Last> {
  using before = Types<Done...>;
  using options = Last;
};

/// Calls `call` without the lock, and raises what Ctrl-C left behind.
template <typename F>
auto without_lock(const F& call) {
  auto made = unlocked(call);
  check_signals();
  return made;
}

/// Makes `f(Self, Before..., O)` a function of Python values, and calls `define` with it.
template <typename O, typename... Self, typename... Before, typename F, typename Define>
void with_options(Types<Self...>, Types<Before...>, const F& f, const Define& define) {
  if constexpr (std::is_void_v<O>) {
    define([f](Self... self, typename Given<Before>::type... before) {
      std::tuple<Before...> values(Given<Before>::take(std::move(before))...);
      return without_lock([&] {
        return std::apply([&](auto&... each) { return f(self..., std::move(each)...); }, values);
      });
    });
  } else {
    std::apply(
        [&]<typename... Each>(Each... fields) {
          define(
              [f, fields...](Self... self, typename Given<Before>::type... before,
                             typename Given<typename Each::type>::type... given) {
                std::tuple<Before..., O> values(Given<Before>::take(std::move(before))..., O{});
                O& options = std::get<sizeof...(Before)>(values);
                ((options.*fields.member = Given<typename Each::type>::take(std::move(given))),
                 ...);
                return without_lock([&] {
                  return std::apply([&](auto&... each) { return f(self..., std::move(each)...); },
                                    values);
                });
              },
              nb::kw_only(),
              (nb::arg(fields.name) = Given<typename Each::type>::show(O{}.*fields.member))...);
        },
        Fields<O>::all);
  }
}

/// Returns a name without the number of its overload: "cache" of "cache#2".
inline std::string plain(std::string_view name) {
  return std::string(name.substr(0, name.find('#')));
}

/// Defines a method; `names` are those of the arguments that are given by position.
template <typename C, typename R, typename... P, typename... Names>
void def(nb::class_<C>& type, const char* name, R (C::*method)(P...) const, const Names&... names) {
  using Parts = Split<Types<>, std::decay_t<P>...>;
  with_options<typename Parts::options>(
      Types<const C&>(), typename Parts::before(),
      [method](const C& self, auto&&... values) { return (self.*method)(std::move(values)...); },
      [&](const auto& function, const auto&... options) {
        const std::string full = nb::cast<std::string>(nb::type_name(type));
        type.def(plain(name).c_str(), function, names..., options...,
                 doc(full.substr(full.rfind('.') + 1) + "::" + name));
      });
}
/// Defines a function.
template <typename R, typename... P, typename... Names>
void def(nb::module_& m, const char* name, R (*function)(P...), const char* text,
         const Names&... names) {
  using Parts = Split<Types<>, std::decay_t<P>...>;
  with_options<typename Parts::options>(
      Types<>(), typename Parts::before(),
      [function](auto&&... values) { return function(std::move(values)...); },
      [&](const auto& bound, const auto&... options) {
        m.def(name, bound, names..., options..., text);
      });
}

}  // namespace penstock::python
