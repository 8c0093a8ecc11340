// Links between processes of one machine: memory that both see, and what a stranger may send.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/internal/posix.h>

#include "pipeline/remote/local_link.h"
#include "pipeline/remote/shared_memory.h"
#include "tests/cluster/worker_peers.h"
#include "tests/support/free_port.h"
#include "tests/support/local_frames.h"
#include "tests/support/sanitizer.h"
#include "tests/support/time_limit.h"

namespace penstock::remote {
namespace {

using namespace std::chrono_literals;
using cluster::test::echoes;
using cluster::test::Heard;
using cluster::test::message_of;
using cluster::test::text_of;
using penstock::test::local_socket_of;
using penstock::test::send_with_descriptor;
using penstock::test::TimeLimit;

std::string free_address() {
  return "127.0.0.1:" + std::to_string(penstock::test::free_port());
}

/// Connects as a process that is no run.
UniqueFd stranger_at(const std::string& address) {
  const auto [to, size] = local_socket_of(address);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), size) != 0) return {};
  return fd;
}

/// Reads until the other side has closed, or for ten seconds. Returns true in the first case.
bool closes(int fd) {
  const timeval most{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
    if (got < 0) return false;
  }
}

TEST(SharedParts, OverlapNever) {
  constexpr std::size_t kSize = 1 << 20;
  const std::shared_ptr<SharedMemory> memory = SharedMemory::make(kSize);
  ASSERT_NE(memory, nullptr);
  std::minstd_rand random(3);
  std::map<std::size_t, BufferPtr> parts;  // by place
  std::size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (!parts.empty() && random() % 2 == 0) {
      auto at = parts.begin();
      std::advance(at, random() % parts.size());
      parts.erase(at);
      continue;
    }
    BufferPtr part = memory->allocate(random() % 60'000);
    if (!part) {
      ++refused;
      continue;
    }
    const auto place = memory->offset_of({part->data(), part->size()});
    ASSERT_TRUE(place);
    ASSERT_EQ(*place % Allocator::kAlignment, 0U);
    const auto after = parts.lower_bound(*place);
    ASSERT_TRUE(after == parts.end() || *place + part->size() <= after->first);
    ASSERT_TRUE(after == parts.begin() ||
                std::prev(after)->first + std::prev(after)->second->size() <= *place);
    parts.emplace(*place, std::move(part));
  }
  EXPECT_GT(refused, 0U);
  parts.clear();
  EXPECT_TRUE(memory->allocate(kSize)) << "what was given back is not one range again";
  EXPECT_FALSE(memory->allocate(kSize + 1));
  EXPECT_FALSE(memory->allocate(SIZE_MAX));
  memory->close();
  EXPECT_FALSE(memory->allocate(1));
}

TEST(SharedParts, PlacesOfOtherMemory) {
  const std::shared_ptr<SharedMemory> memory = SharedMemory::make(1 << 16);
  ASSERT_NE(memory, nullptr);
  const std::vector<std::byte> other(100);
  EXPECT_FALSE(memory->offset_of(other));
  const BufferPtr all = memory->allocate(1 << 16);
  EXPECT_EQ(memory->offset_of({all->data() + 7, 100}), std::size_t{7});
  EXPECT_FALSE(memory->offset_of({all->data() + 7, 1 << 16}));
}

TEST(SharedParts, FilesThatMayShrink) {
  for (const unsigned flags : {0U, static_cast<unsigned>(MFD_ALLOW_SEALING)}) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | flags));
    ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
    EXPECT_THROW(SharedView::open(std::move(fd)), Error) << flags;
  }
  EXPECT_THROW(SharedView::open(UniqueFd(::open("/dev/zero", O_RDONLY | O_CLOEXEC))), Error);
  UniqueFd empty(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_THROW(SharedView::open(std::move(empty)), Error);
}

TEST(SharedParts, PlacesBeyondTheEnd) {
  const std::shared_ptr<SharedMemory> memory = SharedMemory::make(4096);
  const auto view = SharedView::open(UniqueFd(::dup(memory->fd())));
  EXPECT_EQ(view->at(4096, 0).size(), 0U);
  EXPECT_EQ(view->at(0, 4096).size(), 4096U);
  for (const auto& [offset, bytes] :
       {std::pair<std::size_t, std::size_t>{4096, 1}, {0, 4097}, {SIZE_MAX, 2}, {2, SIZE_MAX}})
    EXPECT_THROW(static_cast<void>(view->at(offset, bytes)), Error) << offset << " " << bytes;
}

TEST(SharedParts, LimitsOfFilesAndAddresses) {
  for (const auto kind : {RLIMIT_FSIZE, RLIMIT_AS}) {
    if (kind == RLIMIT_AS && penstock::test::kThreadSanitizer) continue;  // which needs addresses
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit few{1 << 20, 1 << 20};
      ::setrlimit(kind, &few);
      ::_exit(SharedMemory::make(std::size_t{48} << 20) == nullptr ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << kind;
  }
}

/// A worker that sends messages whose pieces lie in shared memory, between others.
class Sharing final : public LinkListener {
 public:
  explicit Sharing(WorkerLink& link) : link_(link) { link.admit(); }
  void received(WireBytes message) noexcept override {
    const std::string text = text_of(message);
    if (!memory) {
      memory = SharedMemory::make(1 << 20);
      link_.share(memory);
    }
    const BufferPtr part = memory->allocate(text.size());
    if (!part) return link_.send(message_of("no room"));
    std::memcpy(part->data(), text.data(), text.size());
    const auto owner = std::make_shared<std::pair<std::string, BufferPtr>>(text, part);
    const auto of_text = std::as_bytes(std::span(owner->first));
    const std::span<const std::byte> of_part(part->data(), text.size());
    link_.send({{of_text.first(3), of_part.first(text.size() / 2), of_part.subspan(text.size() / 2),
                 of_text.last(2)},
                owner});
  }
  void lost(const Status& /*why*/) noexcept override {}
  std::shared_ptr<SharedMemory> memory;

 private:
  WorkerLink& link_;
};

/// Keeps the messages themselves.
class Keeper final : public LinkListener {
 public:
  void received(WireBytes message) noexcept override {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(message));
    changed_.notify_all();
  }
  void lost(const Status& /*why*/) noexcept override {}
  WireBytes next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 20s, [this] { return !kept_.empty(); })) return {};
    WireBytes message = std::move(kept_.front());
    kept_.erase(kept_.begin());
    return message;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WireBytes> kept_;
};

TEST(SharedMessages, BytesUntilTheyAreReleased) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  std::shared_ptr<Sharing> worker;
  const auto port = listen_locally(
      address, [&](WorkerLink& link) { return worker = std::make_shared<Sharing>(link); });
  ASSERT_NE(port, nullptr);
  Keeper keeper;
  auto link = connect_locally(address, 5s, keeper);
  ASSERT_NE(link, nullptr);
  EXPECT_TRUE(link->on_this_machine());
  std::vector<std::pair<std::string, WireBytes>> kept;
  const auto ask = [&](std::size_t bytes, char fill) {
    const std::string text = "ab" + std::string(bytes, fill) + "yz";
    link->send(message_of(text));
    WireBytes message = keeper.next();
    return std::pair(text.substr(0, 3) + text + text.substr(text.size() - 2), std::move(message));
  };
  // One half of the memory is being read, until there is no room for another.
  for (char fill = 'A';; ++fill) {
    kept.push_back(ask(100'000, fill));
    if (text_of(kept.back().second) == "no room") break;
    ASSERT_LT(fill, 'Z');
  }
  EXPECT_EQ(kept.size(), 11U);
  kept.pop_back();
  for (const auto& [text, message] : kept) EXPECT_TRUE(text_of(message) == text);
  kept.erase(kept.begin() + 3, kept.begin() + 6);
  // The worker hears of it before the next question, which comes later on the same socket. The
  // thread that sent a message may still be about to release it.
  for (const char fill : {'a', 'b', 'c'}) {
    auto asked = ask(100'000, fill);
    for (int tries = 0; tries < 2000 && text_of(asked.second) == "no room"; ++tries) {
      std::this_thread::sleep_for(5ms);
      asked = ask(100'000, fill);
    }
    kept.push_back(std::move(asked));
  }
  for (const auto& [text, message] : kept) EXPECT_TRUE(text_of(message) == text);
  EXPECT_EQ(text_of(ask(100'000, 'd').second), "no room");
  // What was received stands after the link has gone, and the worker gives its place to nobody.
  link.reset();
  for (int tries = 0; tries < 2000 && worker->memory->allocate(1); ++tries)
    std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(worker->memory->allocate(1));
  for (const auto& [text, message] : kept) EXPECT_TRUE(text_of(message) == text);
}

struct Frame {
  const char* name;
  std::vector<std::uint64_t> words;  ///< magic and kind, number, parts, and the parts
};
constexpr std::uint64_t kMagic = penstock::test::kMagicOfFrames;
constexpr std::uint64_t kMessage = kMagic | std::uint64_t{1} << 32;
constexpr std::uint64_t kInline = UINT64_MAX;

const Frame kBad[] = {
    {"of another protocol", {0x2a20495250, 0, 0}},
    {"of no kind", {kMagic | std::uint64_t{77} << 32, 0, 0}},
    {"memory without a descriptor", {kMagic | std::uint64_t{2} << 32, 0, 0}},
    {"with too many parts", {kMessage, 0, std::uint64_t{1} << 40}},
    {"of more than 64 MiB",
     {kMessage, 0, 2, std::uint64_t{40} << 20, kInline, std::uint64_t{40} << 20, kInline}},
    {"whose size is no number", {kMessage, 0, 2, UINT64_MAX, kInline, 2, kInline}},
    {"in memory that is not shared", {kMessage, 1, 1, 8, 0}},
    {"too much for a stranger", {kMessage, 0, 1, std::uint64_t{5} << 20, kInline}},
};

TEST(LocalStrangers, Frames) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  std::atomic<int> lost{0};
  class Counts final : public LinkListener {
   public:
    explicit Counts(std::atomic<int>& lost) : lost_(lost) {}
    void received(WireBytes /*message*/) noexcept override {}
    void lost(const Status& why) noexcept override {
      EXPECT_EQ(why.error().code(), ErrorCode::unavailable);
      ++lost_;
    }

   private:
    std::atomic<int>& lost_;
  };
  const auto port =
      listen_locally(address, [&](WorkerLink&) { return std::make_shared<Counts>(lost); });
  int count = 0;
  for (const Frame& frame : kBad) {
    const UniqueFd fd = stranger_at(address);
    ASSERT_TRUE(fd);
    ASSERT_GT(::send(fd.get(), frame.words.data(), frame.words.size() * 8, MSG_NOSIGNAL), 0);
    EXPECT_TRUE(closes(fd.get())) << frame.name;
    ++count;
    for (int tries = 0; tries < 2000 && lost < count; ++tries) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(lost, count) << frame.name;
  }
  // Descriptors that a stranger sends are closed by the kernel, and are not kept.
  const UniqueFd fd = stranger_at(address);
  ASSERT_TRUE(fd);
  const std::uint64_t head[] = {kMagic | std::uint64_t{2} << 32, 0, 0};
  ASSERT_TRUE(send_with_descriptor(fd.get(), std::as_bytes(std::span(head)), fd.get()));
  EXPECT_TRUE(closes(fd.get()));
}

TEST(LocalStrangers, ProcessesThatSayNothing) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  // A process that listens, and is no worker.
  const auto [at, size] = local_socket_of(address);
  const UniqueFd silent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<const sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(silent.get(), 4), 0);
  Heard heard;
  const auto link = connect_locally(address, 300ms, heard);
  ASSERT_NE(link, nullptr);
  ASSERT_TRUE(heard.waits_lost());
  EXPECT_EQ(heard.connected_times(), 0);
  EXPECT_EQ(heard.code(), ErrorCode::unavailable);
  EXPECT_THAT(heard.why(), testing::HasSubstr(address));
  EXPECT_EQ(listen_locally(address, echoes()), nullptr) << "the name is another process's";
}

TEST(LocalStrangers, OtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const TimeLimit limit(60);
  const std::string address = free_address();
  const auto port = listen_locally(address, echoes());
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65'534, 65'534, 65'534) != 0) ::_exit(2);
    const UniqueFd fd = stranger_at(address);
    ::_exit(fd && closes(fd.get()) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(port->refused(), 1U);
}

TEST(LocalAddresses, OfOtherMachines) {
  Heard heard;
  for (const char* address : {"10.0.0.1:7070", "worker-3:7070", "[fe80::1]:7070", "0.0.0.0:7070",
                              "loop:7070", "nowhere"}) {
    EXPECT_EQ(listen_locally(address, echoes()), nullptr) << address;
    EXPECT_EQ(connect_locally(address, 1s, heard), nullptr) << address;
  }
  const std::string port = free_address().substr(9);
  const auto listening = listen_locally("127.0.0.1" + port, echoes());
  ASSERT_NE(listening, nullptr);
  EXPECT_NE(connect_locally("localhost" + port, 1s, heard), nullptr);
  EXPECT_EQ(connect_locally("127.0.0.2" + port, 1s, heard), nullptr);
  EXPECT_EQ(connect_locally("[::1]" + port, 1s, heard), nullptr);
}

}  // namespace
}  // namespace penstock::remote
