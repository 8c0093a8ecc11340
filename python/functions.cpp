// Users' functions, and objects of Python that the engine's threads hold.
#include <atomic>
#include <chrono>
#include <mutex>

#include "python/bindings.h"

namespace penstock::python {
namespace {

std::int64_t now_ns() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Never destroyed: threads may still give objects up while the process ends.
std::mutex& given_up_mutex = *new std::mutex;
std::vector<PyObject*>& given_up = *new std::vector<PyObject*>;
std::atomic<std::int64_t> calls{0}, waited_ns{0}, held_ns{0};

void give_up(PyObject* object) noexcept {
  const std::lock_guard lock(given_up_mutex);
  try {
    given_up.push_back(object);
  } catch (...) {  // without memory the object is kept for ever
  }
}

class KeptBuffer final : public Buffer {
 public:
  KeptBuffer(Kept object, void* data, std::size_t bytes) : object_(std::move(object)) {
    data_ = static_cast<std::byte*>(data);
    size_ = bytes;
  }

 private:
  void dispose() noexcept override { delete this; }
  Kept object_;
};

}  // namespace

Kept keep(nb::handle object) {
  return {nb::borrow(object).release().ptr(), give_up};
}

void drop_given_up() noexcept {
  std::vector<PyObject*> all;
  {
    const std::lock_guard lock(given_up_mutex);
    all.swap(given_up);
  }
  for (PyObject* const object : all) Py_DECREF(object);
}

BufferPtr buffer_of(nb::handle object, void* data, std::size_t bytes) {
  return BufferPtr(new KeptBuffer(keep(object), data, bytes));
}

LockTimes lock_times() noexcept {
  return {calls, waited_ns, held_ns};
}

Function::Locked::Locked() : asked_ns_(now_ns()), state_(PyGILState_Ensure()) {
  got_ns_ = now_ns();
  drop_given_up();
}
Function::Locked::~Locked() {
  ++calls;
  waited_ns += got_ns_ - asked_ns_;
  held_ns += now_ns() - got_ns_;
  PyGILState_Release(state_);
}

Raised::Raised(nb::python_error& error) : exception_(keep(error.value())) {
  text_ = nb::cast<std::string>(nb::str(error.type().attr("__name__"))) + ": " +
          nb::cast<std::string>(nb::str(error.value()));
  // The innermost line of the traceback.
  nb::object at = nb::getattr(error.value(), "__traceback__", nb::none());
  if (at.is_none()) return;
  for (nb::object next = at.attr("tb_next"); !next.is_none(); next = at.attr("tb_next")) at = next;
  text_ += " at " + nb::cast<std::string>(at.attr("tb_frame").attr("f_code").attr("co_filename")) +
           ":" + nb::cast<std::string>(nb::str(nb::object(at.attr("tb_lineno"))));
}

void raise(const Error& error) {
  const nb::module_ classes = nb::module_::import_("penstock._errors");
  const Provenance& where = error.where();
  nb::object cause = nb::none();
  try {
    if (error.original()) std::rethrow_exception(error.original());
  } catch (const Raised& raised) {
    cause = nb::borrow(raised.exception());
  } catch (...) {  // its text is part of the error's
  }
  const nb::object value = classes.attr("make")(std::string(name_of(error.code())), error.what(),
                                                where.shard, where.offset, where.index,
                                                where.length, where.stage, where.member, cause);
  PyErr_SetObject(value.type().ptr(), value.ptr());
}

}  // namespace penstock::python
