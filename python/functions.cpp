// Users' functions, and objects of Python that the engine's threads hold.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include <penstock/log.h>

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
std::atomic<int> running{0};       // functions that are called, or wait for the lock
std::atomic<int> returning{0};     // threads that take the lock again
std::atomic<bool> closing{false};  // no function is called any more
std::atomic<bool> ending{false};   // no thread but the main one may take the lock any more
std::thread::id main_thread;       // set before `closing`

std::mutex& open_mutex = *new std::mutex;
std::set<Ending*>& all_open = *new std::set<Ending*>;

void give_up(PyObject* object) noexcept {
  const std::lock_guard lock(given_up_mutex);
  try {
    given_up.push_back(object);
  } catch (...) {  // without memory the object is kept for ever
  }
}

/// The interpreter's state of a thread of the engine. It lasts as long as the thread, as does what
/// a function keeps in threading.local.
class ThreadState {
 public:
  ThreadState() = default;
  ~ThreadState() {
    if (state_ == nullptr) return;
    ++running;
    if (!closing) {
      PyEval_RestoreThread(state_);
      PyGILState_Release(made_);
    }
    --running;
  }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

  /// Makes the state of a thread that Python doesn't know.
  void make() {
    if (PyGILState_GetThisThreadState() != nullptr) return;
    made_ = PyGILState_Ensure();
    state_ = PyEval_SaveThread();
  }

 private:
  PyThreadState* state_ = nullptr;
  PyGILState_STATE made_{};
};

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

Ending::Ending() {
  const std::lock_guard lock(open_mutex);
  all_open.insert(this);
}
void Ending::forget() noexcept {
  const std::lock_guard lock(open_mutex);
  all_open.erase(this);
}

void end_all() {
  for (;;) {
    Ending* next = nullptr;
    {
      const std::lock_guard lock(open_mutex);
      if (all_open.empty()) break;
      next = *all_open.begin();
      all_open.erase(next);
    }
    next->close();
  }
  // As concurrent.futures does. Python would end their threads in the middle of C++.
  main_thread = std::this_thread::get_id();
  closing = true;
  for (int looks = 0; running > 0; ++looks) {
    if (looks == 1000)
      log(LogLevel::warning, "a function of Python still runs; Ctrl-C ends the process without it");
    unlocked([] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); });
    if (PyErr_CheckSignals() != 0) std::_Exit(128 + SIGINT);
  }
  ending = true;
  // They need but the lock, which this thread gives them. It waits for 10 s at most.
  for (int looks = 0; returning > 0 && looks < 10'000; ++looks)
    unlocked([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
}

void take_lock(PyThreadState* state) noexcept {
  ++returning;  // either this sees that the interpreter ends, or its end waits for this
  if (ending && std::this_thread::get_id() != main_thread) {
    --returning;
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  PyEval_RestoreThread(state);
  --returning;
}

void refuse_at_end() {
  if (closing) throw Error(ErrorCode::invalid_argument, "the interpreter ends");
}

void after_fork() noexcept {
  new (&open_mutex) std::mutex;
  new (&given_up_mutex) std::mutex;
  all_open.clear();
  running = 0;
  returning = 0;
}

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

LockTimes lock_times() noexcept {
  return {calls, waited_ns, held_ns};
}

Function::Locked::Locked() : asked_ns_(now_ns()) {
  ++running;
  if (closing && std::this_thread::get_id() != main_thread) {
    --running;
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  thread_local ThreadState this_thread;
  this_thread.make();
  state_ = PyGILState_Ensure();
  got_ns_ = now_ns();
  drop_given_up();
}
Function::Locked::~Locked() {
  ++calls;
  waited_ns += got_ns_ - asked_ns_;
  held_ns += now_ns() - got_ns_;
  PyGILState_Release(state_);
  --running;
}

nb::object text_of(std::string_view bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                                        "backslashreplace"));
}

Raised::Raised(nb::python_error& error) : exception_(keep(error.value())) {
  const auto text_of = [](nb::handle object) {
    const nb::object text = nb::steal(PyObject_Str(object.ptr()));
    const nb::object bytes = nb::steal(
        text.is_valid() ? PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace")
                        : nullptr);
    PyErr_Clear();
    return bytes.is_valid() ? std::string(PyBytes_AsString(bytes.ptr())) : std::string("?");
  };
  text_ = text_of(error.type().attr("__name__")) + ": " + text_of(error.value());
  // The innermost line of the traceback.
  nb::object at = nb::getattr(error.value(), "__traceback__", nb::none());
  if (at.is_none()) return;
  for (nb::object next = at.attr("tb_next"); !next.is_none(); next = at.attr("tb_next")) at = next;
  text_ += " at " + text_of(at.attr("tb_frame").attr("f_code").attr("co_filename")) + ":" +
           text_of(at.attr("tb_lineno"));
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
  const nb::object value = classes.attr("make")(
      name_of(error.code()), text_of(error.what()), text_of(where.shard), where.offset, where.index,
      where.length, text_of(where.stage), text_of(where.member), cause);
  PyErr_SetObject(value.type().ptr(), value.ptr());
}

}  // namespace penstock::python
