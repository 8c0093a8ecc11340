#include "tools/penstock/support/interrupts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <penstock/internal/start_thread.h>
#include <penstock/remote_files.h>

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

/// Returns the bytes that this process has written to disks and servers so far, as far as known.
/// Source: proc_pid_io(5).
std::uint64_t written_bytes() noexcept {
  const std::uint64_t sent = remote_stats().bytes_written;
  std::array<char, 512> text{};
  const int file = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
  if (file < 0) return sent;
  const ssize_t size = read(file, text.data(), text.size() - 1);
  close(file);
  constexpr std::string_view kName = "\nwrite_bytes: ";
  const std::string_view all(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const std::size_t at = all.find(kName);
  const std::uint64_t here =
      at == all.npos ? 0 : std::strtoull(text.data() + at + kName.size(), nullptr, 10);
  return here + sent;
}

[[noreturn]] void leave_now(int code) {
  if (isatty(STDERR_FILENO) == 1) {
    const auto written = write(STDERR_FILENO, Canvas::kRestore.data(), Canvas::kRestore.size());
    static_cast<void>(written);
  }
  _exit(code);
}

}  // namespace

Interrupts::Interrupts(int terminated, std::chrono::seconds patience, Clock::time_point (*now)())
    : terminated_(terminated), patience_(patience), now_(now) {
  const sigset_t set = handled();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (signals_ < 0 || wake_ < 0)
    throw std::system_error(errno, std::generic_category(), "can't wait for signals");
  thread_ = start_thread("signals", [this] { wait(); });
}

Interrupts::~Interrupts() {
  eventfd_write(wake_, 1);
  thread_.join();
  close(signals_);
  close(wake_);
  // The process ends as requested; a late second signal changes nothing.
  if (received() != 0) return;
  const sigset_t set = handled();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void Interrupts::on_signal(std::function<void()> callback) {
  const MutexLock lock(mutex_);
  begun_ = true;
  callback_ = std::move(callback);
  if (received() != 0 && callback_) callback_();
}

int Interrupts::exit_code() const noexcept {
  return received() == SIGTERM ? terminated_ : kInterrupted;
}

void Interrupts::wait() noexcept {
  Clock::time_point first;
  Clock::time_point none_pending;  // the last time that this was so
  for (;;) {
    constexpr int kLook_ms = 200;
    std::array<pollfd, 2> ready{{{signals_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    const int found = poll(ready.data(), ready.size(), received() == 0 ? -1 : kLook_ms);
    if (found < 0 && errno != EINTR) return;
    if (ready[1].revents != 0) return;
    const Clock::time_point now = now_();
    if (received() != 0) look_whether_it_hangs(now);
    signalfd_siginfo info{};
    if (read(signals_, &info, sizeof info) != sizeof info) {
      none_pending = now;
      continue;
    }
    const int signal = static_cast<int>(info.ssi_signo);
    if (received() != 0) {
      if (none_pending - first >= kInsists)
        leave_now(signal == SIGTERM ? kTerminated : kInterrupted);
      continue;
    }
    first = none_pending = patient_since_ = now;
    written_ = written_bytes();
    const MutexLock lock(mutex_);
    received_.store(signal, std::memory_order_release);
    if (!begun_) leave_now(exit_code());
    if (callback_) callback_();
  }
}

void Interrupts::look_whether_it_hangs(Clock::time_point now) noexcept {
  constexpr std::uint64_t kMuch = 1U << 20;
  if (now - patient_since_ < patience_) return;
  const std::uint64_t written = written_bytes();
  if (written >= written_ + kMuch) {
    written_ = written;
    patient_since_ = now;
    return;
  }
  constexpr std::string_view kWhy = "penstock: ending now: part of the run did not stop in time\n";
  static_cast<void>(write(STDERR_FILENO, kWhy.data(), kWhy.size()) < 0);
  leave_now(received() == SIGTERM ? kTerminated : kInterrupted);
}

}  // namespace penstock::tool
