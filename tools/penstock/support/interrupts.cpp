#include "tools/penstock/support/interrupts.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

sigset_t handled() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

[[noreturn]] void leave_now(int code) {
  if (isatty(STDERR_FILENO) == 1) {
    const auto written = write(STDERR_FILENO, Canvas::kRestore.data(), Canvas::kRestore.size());
    static_cast<void>(written);
  }
  _exit(code);
}

}  // namespace

Interrupts::Interrupts(int terminated) : terminated_(terminated) {
  const sigset_t set = handled();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (signals_ < 0 || wake_ < 0)
    throw std::system_error(errno, std::generic_category(), "can't wait for signals");
  thread_ = std::thread([this] { wait(); });
}

Interrupts::~Interrupts() {
  eventfd_write(wake_, 1);
  thread_.join();
  close(signals_);
  close(wake_);
  if (received() != 0) return;  // the process ends, as it was asked to: a late twin changes nothing
  const sigset_t set = handled();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void Interrupts::on_signal(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  begun_ = true;
  callback_ = std::move(callback);
  if (received() != 0 && callback_) callback_();
}

int Interrupts::exit_code() const noexcept {
  return received() == SIGTERM ? terminated_ : kInterrupted;
}

void Interrupts::wait() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point first;
  for (;;) {
    std::array<pollfd, 2> ready{{{signals_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return;
    if (ready[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signals_, &info, sizeof info) != sizeof info) continue;
    const int signal = static_cast<int>(info.ssi_signo);
    if (received() != 0) {
      if (Clock::now() - first >= kInsists)
        leave_now(signal == SIGTERM ? kTerminated : kInterrupted);
      continue;
    }
    first = Clock::now();
    const std::lock_guard lock(mutex_);
    received_.store(signal, std::memory_order_release);
    if (!begun_) leave_now(exit_code());
    if (callback_) callback_();
  }
}

}  // namespace penstock::tool
