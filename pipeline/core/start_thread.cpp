#include <penstock/internal/start_thread.h>

#include <cstddef>
#include <string>
#include <system_error>

#include <pthread.h>

#include <penstock/error.h>
#include <penstock/internal/slow_work.h>

namespace penstock {
namespace {

constexpr std::size_t kStack = 8 << 20;  // what Linux gives by default

/// Attributes of a thread with at least this stack.
class Attributes {
 public:
  Attributes() noexcept {
    if (::pthread_getattr_default_np(&value_) != 0) return;
    made_ = true;
    std::size_t bytes = 0;
    if (::pthread_attr_getstacksize(&value_, &bytes) == 0 && bytes < kStack) {
      ::pthread_attr_setstacksize(&value_, kStack);
    }
  }
  ~Attributes() {
    if (made_) ::pthread_attr_destroy(&value_);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  const pthread_attr_t* get() const noexcept { return made_ ? &value_ : nullptr; }

 private:
  pthread_attr_t value_{};
  bool made_ = false;
};

}  // namespace

Thread::Thread(std::string_view what, std::unique_ptr<Body> body) : stop_() {
  slow_work("a thread is started");
  body->stop = stop_.get_token();
  const auto run = [](void* given) -> void* {
    const std::unique_ptr<Body> own(static_cast<Body*>(given));
    own->run();
    return nullptr;
  };
  const int failed = ::pthread_create(&handle_, Attributes().get(), run, body.get());
  if (failed != 0) {
    throw Error(ErrorCode::resource_exhausted,
                "no thread for " + std::string(what) +
                    " can be started: RLIMIT_NPROC, RLIMIT_AS or the container's pids.max (" +
                    std::generic_category().message(failed) + ")");
  }
  static_cast<void>(body.release());  // the thread's
  started_ = true;
}

Thread::Thread(Thread&& other) noexcept
    : handle_(other.handle_),
      started_(std::exchange(other.started_, false)),
      stop_(std::exchange(other.stop_, std::stop_source(std::nostopstate))) {}

Thread& Thread::operator=(Thread&& other) noexcept {
  Thread before(std::move(*this));
  handle_ = other.handle_;
  started_ = std::exchange(other.started_, false);
  stop_ = std::exchange(other.stop_, std::stop_source(std::nostopstate));
  return *this;
}

Thread::~Thread() {
  if (!started_) return;
  request_stop();
  join();
}

void Thread::join() noexcept {
  ::pthread_join(handle_, nullptr);
  started_ = false;
}

void Thread::detach() noexcept {
  ::pthread_detach(handle_);
  started_ = false;
}

}  // namespace penstock
