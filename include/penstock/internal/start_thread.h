// Threads with a stack of a known size, whose start fails with a clear error.
#pragma once

#include <memory>
#include <stop_token>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

namespace penstock {

/// A thread that `start_thread` has started, or none. Like std::jthread, it is asked to stop and
/// waited for when this object is destroyed or assigned to. Used by one thread at a time.
class Thread {
 public:
  Thread() noexcept = default;
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&& other) noexcept;
  ~Thread();

  bool joinable() const noexcept { return started_; }
  /// Waits for the end of the thread, which must be joinable.
  void join() noexcept;
  /// Lets the thread, which must be joinable, end by itself.
  void detach() noexcept;
  void request_stop() noexcept { stop_.request_stop(); }

 private:
  template <typename F>
  friend Thread start_thread(std::string_view what, F body);

  struct Body {
    virtual ~Body() = default;
    virtual void run() = 0;
    std::stop_token stop;
  };
  Thread(std::string_view what, std::unique_ptr<Body> body);

  std::thread::native_handle_type handle_{};
  bool started_ = false;
  std::stop_source stop_{std::nostopstate};
};

/// Returns a thread that runs `body`, which must not throw; it may take a std::stop_token. The
/// stack has at least 8 MiB, whatever RLIMIT_STACK is, because graphs are walked recursively.
/// `what` is its purpose: "computing". Throws Error{resource_exhausted} that names the purpose and
/// the limits that may be the reason. `body` is then destroyed.
template <typename F>
Thread start_thread(std::string_view what, F body) {
  struct Callable final : Thread::Body {
    explicit Callable(F&& body) : body_(std::move(body)) {}
    void run() override {
      if constexpr (std::is_invocable_v<F&, std::stop_token>) {
        body_(this->stop);
      } else {
        body_();
      }
    }
    F body_;
  };
  return {what, std::make_unique<Callable>(std::move(body))};
}

}  // namespace penstock
