// `penstock serve` and those who connect to it without being a run: it serves runs meanwhile and
// afterwards, with the bytes of a local run, and within its memory.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>

#include <penstock/internal/posix.h>

#include "tests/support/files.h"
#include "tests/support/free_port.h"
#include "tests/support/places.h"
#include "tests/support/process.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Words = std::vector<std::string>;

/// `penstock serve` below some limits of the shell (ulimit).
class LimitedWorker {
 public:
  LimitedWorker(const std::string& root, const std::string& limits)
      : port_(free_port()),
        process_({"/bin/bash", "-c",
                  limits + "; exec \"$0\" serve --listen 127.0.0.1:" + std::to_string(port_) +
                      " --threads 1 --memory 64MiB --root \"$1\" > \"$2\" 2> \"$3\"",
                  program_path(), root, folder_ / "out", folder_ / "err"}) {}

  bool ready() const { return listens(port_); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }
  int wait() { return process_.wait(); }
  std::string said() const { return read_file(folder_ / "err"); }
  /// Returns the most bytes that were resident so far.
  std::uint64_t peak_bytes() const {
    const std::string status = read_file("/proc/" + std::to_string(process_.id()) + "/status");
    return std::stoull(status.substr(status.find("VmHWM:") + 6)) << 10;
  }

 private:
  TempFolder folder_;
  const int port_;
  Process process_;
};

UniqueFd connected(int port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return {};
  return fd;
}

/// Sends bytes. Returns false once the other side has closed.
bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// Returns a frame of HTTP/2.
std::string frame(char type, char flags, char stream, const std::string& payload) {
  const std::size_t size = payload.size();
  return {std::string{static_cast<char>(size >> 16), static_cast<char>(size >> 8),
                      static_cast<char>(size), type, flags, 0, 0, 0, stream} +
          payload};
}

constexpr std::uint64_t kMuch = std::uint64_t{2} << 30;

/// Sends headers without end, many fields or one. Returns the bytes that the other side took, at
/// most kMuch.
std::uint64_t send_headers(int fd, char stream, bool one_field) {
  std::string block = "\x10\x06x-more\x7f";  // a name that the dictionary does not keep
  if (one_field) {
    block += "\x81\xff\xff\xff\x07";  // the size of a value: 2 GiB
  } else {
    const std::string field = block + "\x81\x02" + std::string(384, 'x');
    for (block = field; block.size() + field.size() < 16'000;) block += field;
  }
  bool open = send_all(fd, frame(1, 0, stream, block));
  if (one_field) block.assign(16'000, 'x');
  std::uint64_t sent = 0;
  for (; open && sent < kMuch; sent += block.size())
    open = send_all(fd, frame(9, 0, stream, block));
  return open ? kMuch : sent;
}

/// Sends frames of an unknown type, which HTTP/2 ignores. Returns the same.
std::uint64_t send_unknown_frames(int fd) {
  const std::string unknown = frame(0x42, 0, 0, std::string(16'000, 'x'));
  std::uint64_t sent = 0;
  while (sent < kMuch && send_all(fd, unknown)) sent += unknown.size();
  return sent;
}

/// Sends one message of so many bytes to a worker, as gRPC does, as fast as the worker's windows
/// allow. Returns the bytes that it took until it closed the connection.
std::uint64_t send_message(int fd, std::uint32_t bytes) {
  const auto literal = [](const std::string& name, const std::string& value) {
    return std::string{0, static_cast<char>(name.size())} + name +
           std::string{static_cast<char>(value.size())} + value;
  };
  const std::string headers =
      literal(":method", "POST") + literal(":scheme", "http") +
      literal(":path", "/penstock.Workers/Stream") + literal(":authority", "worker") +
      literal("content-type", "application/grpc") + literal("te", "trailers");
  std::string begin =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "") + frame(1, 4, 1, headers);
  if (!send_all(fd, begin)) return 0;
  std::string message{0, static_cast<char>(bytes >> 24), static_cast<char>(bytes >> 16),
                      static_cast<char>(bytes >> 8), static_cast<char>(bytes)};
  std::int64_t windows[] = {65'535, 65'535};  // of the connection, and of the stream
  std::string came;
  for (std::uint64_t sent = 0;;) {
    const auto window =
        static_cast<std::size_t>(std::max<std::int64_t>(0, std::min(windows[0], windows[1])));
    const std::size_t now = std::min<std::size_t>({window, 16'000, bytes + 5 - sent});
    if (now > 0) {
      message.resize(now, 'x');
      if (!send_all(fd, frame(0, 0, 1, message))) return sent;
      message.clear();
      sent += now;
      for (std::int64_t& left : windows) left -= static_cast<std::int64_t>(now);
    }
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, now > 0 ? 0 : -1) == 0) continue;
    char more[4096];
    const ssize_t n = ::recv(fd, more, sizeof more, 0);
    if (n <= 0) return sent;
    came.append(more, static_cast<std::size_t>(n));
    const auto number = [&](std::size_t at, std::size_t size) {
      std::uint32_t value = 0;
      for (std::size_t i = at; i < at + size; ++i)
        value = value << 8 | static_cast<unsigned char>(came[i]);
      return value;
    };
    while (came.size() >= 9 && came.size() >= 9 + number(0, 3)) {
      const std::uint32_t size = number(0, 3);
      if (came[3] == 8) windows[number(5, 4) == 0 ? 0 : 1] += number(9, 4);
      for (std::uint32_t at = 9; came[3] == 4 && at < 9 + size; at += 6)
        if (number(at, 2) == 4) windows[1] += static_cast<std::int64_t>(number(at + 2, 4)) - 65'535;
      came.erase(0, 9 + size);
    }
  }
}

/// Passes on the bytes of one run to a worker. Once the worker has sent elements, sends frames
/// without end in the run's name.
class RunThatTurns {
 public:
  explicit RunThatTurns(int worker) : worker_(worker) {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::listen(listener_.get(), 1) != 0 ||
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("can't listen");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { pass(); });
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  /// Waits for the end. Returns the bytes of these frames that the worker took.
  std::uint64_t taken() {
    thread_.join();
    return taken_;
  }

 private:
  void pass() {
    const UniqueFd run(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const UniqueFd worker = connected(worker_);
    listener_ = {};
    std::string of_run;  // what is not passed on yet: less than a frame
    bool preface = true;
    for (std::uint64_t of_worker = 0;;) {
      pollfd ready[] = {{run.get(), POLLIN, 0}, {worker.get(), POLLIN, 0}};
      ::poll(ready, 2, -1);
      char bytes[16'384];
      if (ready[1].revents != 0) {
        const ssize_t n = ::recv(worker.get(), bytes, sizeof bytes, 0);
        if (n <= 0 || !send_all(run.get(), {bytes, static_cast<std::size_t>(n)})) return;
        of_worker += static_cast<std::uint64_t>(n);
      }
      if (ready[0].revents != 0) {
        const ssize_t n = ::recv(run.get(), bytes, sizeof bytes, 0);
        if (n <= 0) return;
        of_run.append(bytes, static_cast<std::size_t>(n));
      }
      for (;;) {  // whole frames alone, so that one of ours fits between them
        const auto at = [&](std::size_t i) {
          return std::size_t{static_cast<unsigned char>(of_run[i])};
        };
        if (of_run.size() < 24) break;
        const std::size_t frame_size = preface ? 24 : 9 + (at(0) << 16 | at(1) << 8 | at(2));
        if (of_run.size() < frame_size) break;
        preface = false;
        if (!send_all(worker.get(), of_run.substr(0, frame_size))) return;
        of_run.erase(0, frame_size);
      }
      if (of_worker < 10'000) continue;
      taken_ = send_unknown_frames(worker.get());
      return;
    }
  }

  const int worker_;
  UniqueFd listener_;
  int port_ = 0;
  std::uint64_t taken_ = 0;
  std::thread thread_;
};

class HostileClients : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_program(
                  {"synth", folder_ / "photos", "--images", "60", "--size", "64x64", "--seed", "1"})
                  .code,
              0);
    std::filesystem::current_path(folder_.path());
    alone_ = profile({})["digest"];
  }
  static nlohmann::json profile(const Words& more) {
    Words words{"photos",   "--shuffle", "--random-resized-crop",
                "32",       "--batch",   "16",
                "--epochs", "2",         "--seed",
                "7",        "--digest",  "--threads",
                "1"};
    words.insert(words.end(), more.begin(), more.end());
    return profile_json(words);
  }
  /// Checks that the worker alone makes all elements of a run.
  void expect_served(const LimitedWorker& worker) const {
    const nlohmann::json json = profile({"--workers", worker.address(), "--local-threads", "0"});
    EXPECT_EQ(json["digest"], alone_);
    EXPECT_EQ(json["groups_made_here"], 0) << json["workers"].dump(1);
  }

  TempFolder folder_;
  std::string alone_;
  const TimeLimit limit_{100};
};

TEST_F(HostileClients, ConnectionsThatSayNothing) {
  const LimitedWorker worker(folder_.path(), "ulimit -n 200");
  ASSERT_TRUE(worker.ready());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 600; ++i) silent.push_back(connected(worker.port()));
  expect_served(worker);
  for (int i = 0; i < 200; ++i) silent.push_back(connected(worker.port()));
  silent.clear();
  expect_served(worker);
}

TEST_F(HostileClients, WorkersAlmostWithoutDescriptors) {
  for (const char* limit : {"ulimit -n 8", "ulimit -n 16", "ulimit -n 24"}) {
    LimitedWorker worker(folder_.path(), limit);
    EXPECT_EQ(worker.wait(), 1) << limit;
    EXPECT_THAT(worker.said(), HasSubstr("raise ulimit -n")) << limit;
  }
}

TEST_F(HostileClients, HeadersWithoutEnd) {
  const LimitedWorker worker(folder_.path(), "true");
  ASSERT_TRUE(worker.ready());
  expect_served(worker);
  const std::uint64_t before = worker.peak_bytes();
  for (int i = 0; i < 4; ++i) {
    const UniqueFd fd = connected(worker.port());
    ASSERT_TRUE(fd);
    ASSERT_TRUE(send_all(fd.get(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "")));
    EXPECT_LT(send_headers(fd.get(), 1, i % 2 == 0), kMuch);
  }
  expect_served(worker);
  EXPECT_LE(worker.peak_bytes(), before + (std::uint64_t{100} << 20));
}

TEST_F(HostileClients, GraphsOf60Megabytes) {
  const LimitedWorker worker(folder_.path(), "true");
  ASSERT_TRUE(worker.ready());
  expect_served(worker);
  const std::uint64_t before = worker.peak_bytes();
  for (int i = 0; i < 3; ++i) {
    const UniqueFd fd = connected(worker.port());
    ASSERT_TRUE(fd);
    const std::uint64_t sent = send_message(fd.get(), 60'000'000);
    EXPECT_GT(sent, 1U << 20) << "it was read as a message";
    EXPECT_LT(sent, 60'000'000U);
  }
  expect_served(worker);
  EXPECT_LE(worker.peak_bytes(), before + (std::uint64_t{64} << 20));
}

TEST_F(HostileClients, FramesWithoutEndOfARun) {
  const LimitedWorker worker(folder_.path(), "true");
  ASSERT_TRUE(worker.ready());
  expect_served(worker);
  const std::uint64_t before = worker.peak_bytes();
  RunThatTurns turned(worker.port());
  Program run({"profile", "photos", "--random-resized-crop", "32", "--batch", "16", "--epochs",
               "100", "--workers", turned.address(), "--local-threads", "0", "--quiet"});
  const std::uint64_t taken = turned.taken();
  run.signal(SIGKILL);  // it would wait for another worker
  EXPECT_GT(taken, 64U << 20) << "it was no stranger's connection";
  EXPECT_LT(taken, kMuch);
  expect_served(worker);
  EXPECT_LE(worker.peak_bytes(), before + (std::uint64_t{100} << 20));
}

}  // namespace
}  // namespace penstock::test
