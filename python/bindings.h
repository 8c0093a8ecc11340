// Declarations that the files of the Python module share. Names, arguments and
// errors are those of the C++ methods.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <penstock/dlpack.h>
#include <penstock/penstock.h>
#include <penstock/pipelines.h>
#include <penstock/report.h>

namespace penstock::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

/// Returns the comment of a C++ declaration, "Dataset::shuffle", as docstrings.py found it.
const char* doc(std::string_view name);

// Types as they stand in signatures.
using SpecDict = nb::typed<nb::mapping, nb::str, nb::typed<nb::tuple, nb::str, nb::object>>;
using Values = nb::typed<nb::dict, nb::str, nb::object>;

/// Returns the dtype of a name of ours or of numpy's.
DType dtype_of_name(const std::string& name);
/// Returns the dtype that a name, numpy.float32, numpy.dtype("f4") or torch.float32 stands for.
DType dtype_of(nb::handle dtype);
/// Returns text that may not be UTF-8 as a str.
nb::object text_of(std::string_view bytes);
Shape shape_of(nb::handle dims);
nb::tuple shape_tuple(const Shape& shape);
Spec spec_of(nb::handle dict);
nb::dict dict_of(const Spec& spec);

/// Returns a tensor of a Tensor, a number, text, a list of texts, or an array that DLPack or the
/// buffer protocol gives. Arrays are viewed, or copied with `copy`.
Tensor tensor_of(nb::handle value, bool copy);
/// Returns a capsule over a tensor that it owns until a consumer takes it.
nb::object dlpack_capsule(dlpack::DLManagedTensor* managed);
nb::object dlpack_capsule(dlpack::DLManagedTensorVersioned* managed);
/// Returns an element of an Element or of a mapping of names to such values. Numbers of Python, and
/// lists of them, become what `expected` says.
Element element_of(nb::handle values, bool copy, const Spec* expected = nullptr);
/// Returns a tensor of such a value; numbers of Python, and lists of them, are of this dtype.
Tensor tensor_as(nb::handle value, DType dtype, bool copy);

/// A reference to a Python object that any thread may drop without the interpreter's lock: the
/// object goes when Python code next comes by.
using Kept = std::shared_ptr<PyObject>;
Kept keep(nb::handle object);
/// Drops the objects that threads without the lock gave up. REQUIRES: the lock.
void drop_given_up() noexcept;
/// Returns a buffer over the memory of `object`, which it keeps.
BufferPtr buffer_of(nb::handle object, void* data, std::size_t bytes);

/// An object that ends with the interpreter: its threads call functions of Python. Derived classes
/// call `forget` first in their destructors.
class Ending {
 public:
  virtual void close() = 0;

 protected:
  Ending();
  virtual ~Ending() { forget(); }
  void forget() noexcept;
};
/// Closes all that is open, and waits for functions that still run. REQUIRES: the lock.
void end_all();
/// Takes the lock again. While the interpreter ends, a thread but the main one stays here for ever:
/// Python would end it, in the middle of C++.
void take_lock(PyThreadState* state) noexcept;
/// Forgets, in the child of a fork, the runs and threads of its parent.
void after_fork() noexcept;
/// Throws Error{invalid_argument} if the interpreter ends: no function is called any more.
void refuse_at_end();
/// Raises KeyboardInterrupt if Ctrl-C was pressed. REQUIRES: the lock.
void check_signals();

/// The nanoseconds that threads of this process waited for the interpreter's lock in order to call
/// users' functions, and held it in them.
struct LockTimes {
  std::int64_t calls = 0, waited_ns = 0, held_ns = 0;
};
LockTimes lock_times() noexcept;

/// A report, and the time that functions took and waited for the interpreter's lock.
struct PythonReport {
  Report report;
  LockTimes lock;
  std::string warning;
};
/// Returns the report of a run that has these figures, and began when the times were `before`.
PythonReport with_lock(Report report, const Stats& stats, const LockTimes& before);

/// An exception of a user's function, with Python's own behind it.
class Raised : public std::exception {
 public:
  /// REQUIRES: the lock.
  explicit Raised(nb::python_error& error);
  const char* what() const noexcept override { return text_.c_str(); }
  nb::handle exception() const noexcept { return exception_.get(); }

 private:
  std::string text_;
  Kept exception_;
};

/// A Python function that any thread of the engine calls.
class Function {
 public:
  explicit Function(nb::handle function) : function_(keep(function)) {}
  /// Takes the lock, calls the function with what `arguments` returns (a tuple), and returns what
  /// `use` makes of the result.
  template <typename Arguments, typename Use>
  auto operator()(const Arguments& arguments, const Use& use) const {
    const Locked locked;
    try {
      const nb::object result =
          nb::steal(PyObject_CallObject(function_.get(), nb::object(arguments()).ptr()));
      if (!result.is_valid()) throw nb::python_error();
      return use(result);
    } catch (nb::python_error& error) {
      // This is the main thread. The call that waits in it raises the exception again.
      if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
      throw Raised(error);
    } catch (const nb::cast_error&) {
      throw Error(ErrorCode::user, "a Python function returned a value of another type");
    }
  }

  /// Holds the interpreter's lock, and counts how long that took and took others.
  class Locked {
   public:
    Locked();
    ~Locked();
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

   private:
    std::int64_t asked_ns_, got_ns_;
    PyGILState_STATE state_;
  };

 private:
  Kept function_;
};

/// Raises penstock.Error, or a class below it, for the error.
void raise(const Error& error);

/// A guard: this thread does not hold the interpreter's lock.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { take_lock(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};
/// Releases the interpreter's lock in a call: it may wait, or call users' functions.
template <typename F>
auto unlocked(const F& call) {
  const Unlocked released;
  return call();
}

void bind_values(nb::module_& m);  // Tensor, Element
void bind_images(nb::module_& m);  // ImageOps and other ops
void bind_sources(nb::module_& m);
void bind_datasets(nb::module_& m);  // Dataset and its stages
void bind_runs(nb::module_& m);      // Iterator, Report
void bind_arrow(nb::module_& m);
void bind_feeds(nb::module_& m);

}  // namespace penstock::python
