// Frames of a link within a machine. An input is what one side sends; with the first byte's lowest
// bit it has given the other side memory before.
#include <array>
#include <chrono>
#include <span>
#include <string>

#include <sys/socket.h>

#include "pipeline/remote/local_stream.h"
#include "pipeline/remote/shared_memory.h"
#include "tests/fuzz/support.h"
#include "tests/support/local_frames.h"

namespace penstock::fuzz {
namespace {

using test::kMagicOfFrames;

struct FrameHead {
  std::uint32_t magic = kMagicOfFrames;
  std::uint32_t kind = 0;
  std::uint64_t number = 0;
  std::uint64_t parts = 0;
};
enum FrameKind : std::uint32_t { kGreeting, kMessage, kMemory, kUnshared, kReleased, kPing, kPong };

template <typename T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string head_of(FrameKind kind, std::uint64_t number = 0, std::uint64_t parts = 0) {
  return bytes_of(FrameHead{kMagicOfFrames, kind, number, parts});
}

/// Reads all of what comes, and keeps the last message until the next.
class Reads final : public LinkListener {
 public:
  void received(WireBytes message) noexcept override {
    std::size_t sum = 0;
    for (const auto& piece : message.pieces)
      for (const std::byte byte : piece) sum += std::to_integer<std::size_t>(byte);
    sums_ += sum;
    last_ = std::move(message);
  }
  void lost(const Status& /*why*/) noexcept override {}

 private:
  std::size_t sums_ = 0;
  WireBytes last_;
};

}  // namespace

void run_local(Bytes input) {
  if (input.empty()) return;
  static const std::shared_ptr<SharedMemory> memory = SharedMemory::make(1 << 16);
  int ends[2] = {-1, -1};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
          "no sockets");
  UniqueFd other(ends[0]);
  Reads reads;
  {
    const bool dialed = (input[0] & std::byte{1}) != std::byte{0};
    const auto stream =
        std::make_shared<remote::LocalStream>(UniqueFd(ends[1]), dialed, std::chrono::seconds(20));
    const std::string announced = head_of(kMemory);
    if (dialed)
      require(test::send_with_descriptor(other.get(), std::as_bytes(std::span(announced)),
                                         memory->fd()),
              "no memory was sent");
    // What does not fit into the socket is not sent.
    (void)!::send(other.get(), input.data() + 1, input.size() - 1, MSG_NOSIGNAL);
    ::shutdown(other.get(), SHUT_WR);
    stream->read(reads);
    require(!stream->open(), "a stream that does not end");
  }
}

std::vector<std::string> local_seeds() {
  constexpr std::uint64_t kHere = UINT64_MAX;
  const std::string within =
      head_of(kMessage, 0, 1) + bytes_of(std::array{std::uint64_t{5}, kHere}) + "hello";
  const std::string shared = head_of(kMessage, 7, 3) +
                             bytes_of(std::array{std::uint64_t{3}, kHere, std::uint64_t{100},
                                                 std::uint64_t{64}, std::uint64_t{2}, kHere}) +
                             "abcde";
  const std::string rest = head_of(kGreeting) + head_of(kPing) + head_of(kPong) +
                           head_of(kReleased, 3) + head_of(kUnshared) + head_of(kMessage);
  return {'\0' + within + rest, '\1' + rest + shared + within};
}

}  // namespace penstock::fuzz
