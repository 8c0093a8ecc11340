// The messages between runs and input workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/error.h>
#include <penstock/internal/worker_links.h>
#include <penstock/state.h>

namespace penstock::remote {

/// The kind of a message. A message is the length of its head in four bytes, the head, and the
/// values. The head tells the number and sizes of the values, and its first number is the kind.
/// Numbers in the head are LEB128 (StateWriter); all others are little-endian.
enum class Kind : std::uint8_t {
  hello,    ///< a run names the graph it wants elements of: version, build, graph, fingerprint…
  welcome,  ///< the worker has that graph, and says how much it takes at once
  refused,  ///< the worker does not have it, and says why
  program,  ///< defines the next program that items may name: how the plan makes it
  ask,      ///< requests a group
  answer,   ///< the group's elements, or why there are none
  leaving,  ///< the worker takes no more groups, but answers those that it has
};

/// The version of the protocol. Both sides must have the same.
inline constexpr std::uint64_t kProtocol = 6;

struct Hello {
  std::string version;
  std::string build;        ///< of the program; compared only if there is no graph
  std::string graph;        ///< TOML; empty: the graph that is built into the program
  std::string fingerprint;  ///< of the plan
  std::uint64_t seed = 0;
  std::uint64_t retries = 0;  ///< plus one: -1 is the default
  std::uint64_t retry_ms = 0;
  std::uint64_t retries_unavailable = 0;  ///< 1: OnError::retry
  std::uint64_t shards = 0;               ///< the graph is one shard of this many; 0: it is whole
  std::uint64_t shard = 0;
  std::uint64_t lz4 = 0;  ///< 1: the worker may compress the values of answers
};
struct Welcome {
  std::uint64_t threads = 0;
  std::uint64_t bytes = 0;  ///< limit of requests and results under way
  std::uint64_t lz4 = 0;    ///< 1: values come compressed where that pays
};

/// The work of a stage since the last answer.
struct StageWork {
  std::uint64_t stage = 0;
  std::uint64_t items = 0, bytes = 0, padding_bytes = 0, busy_ns = 0, apart_ns = 0;
};

/// The head of an answer.
struct AnswerHead {
  enum class What : std::uint8_t {
    rows,       ///< columns of a batch
    values,     ///< elements
    cannot,     ///< this worker does not know how to make the group
    no_memory,  ///< this worker has no memory for the group
  };
  std::uint64_t id = 0;
  What what = What::cannot;
  /// XXH3 of the results and the values, uncompressed. 0 on one machine, where nothing damages
  /// them.
  std::uint64_t checksum = 0;
  std::uint64_t work_ns = 0;  ///< from the start of the group's work to its end
  std::uint64_t wanted = 0;   ///< elements that a group should have
  std::uint64_t bytes = 0;    ///< allocated for the group
  std::uint64_t retried = 0;  ///< reads that were retried since the last answer
  std::uint64_t shared = 0;   ///< elements that were made for another run
  std::vector<StageWork> stages{};
  /// The size of the values after decompression. 0: they are not compressed.
  std::uint64_t unpacked = 0;
  std::vector<std::uint64_t> blocks{};  ///< sizes of the compressed blocks, see packed.h
  std::string results{};                ///< see group_wire.h
};

/// Makes a message of head and values. `values` are not copied; `owner` keeps them alive.
WireBytes message(std::string_view head, std::vector<std::span<const std::byte>> values = {},
                  std::shared_ptr<const void> owner = nullptr);

/// A received message, which may hold anything.
class Incoming {
 public:
  /// Reads the head. Throws Error{data_loss} if the bytes are no message.
  explicit Incoming(WireBytes message);

  Kind kind() const noexcept { return kind_; }
  /// Returns the head behind its kind.
  StateReader& head() noexcept { return head_; }

  /// Returns the number of bytes of values that were not taken yet.
  std::size_t left() const noexcept { return left_; }
  /// Copies the next values. Throws Error{data_loss} if there are fewer.
  void take(std::byte* to, std::size_t bytes);
  /// Takes the next values without a copy, if they lie together; else they are copied to `copied`.
  /// The result is valid as long as the message and `copied`.
  std::span<const std::byte> view(std::size_t bytes, std::vector<std::byte>& copied);
  /// Returns the size of the whole message as it was received.
  std::size_t came() const noexcept { return came_; }
  /// Decompresses the values of an answer, which then take the place of the compressed ones. There
  /// is no head any more. REQUIRES: no value was taken. Throws Error{data_loss} and std::bad_alloc.
  void unpack(const AnswerHead& head);
  /// Returns the XXH3 of `results` and of all values.
  std::uint64_t checksum(std::string_view results) const;

 private:
  WireBytes message_;
  std::string copied_;  // the head, if it lies in several pieces
  StateReader head_{{}};
  Kind kind_ = Kind::hello;
  std::size_t values_piece_ = 0, values_at_ = 0;  // where values begin
  std::size_t piece_ = 0, at_ = 0;                // the next value
  std::size_t left_ = 0;
  std::size_t came_ = 0;
};

WireBytes encode(const Hello& hello);
WireBytes encode(const Welcome& welcome);
WireBytes encode_refused(const Status& why);
WireBytes encode_leaving();
Hello decode_hello(StateReader& head);
Welcome decode_welcome(StateReader& head);

void put(StateWriter& to, const Status& status);
/// REQUIRES: the status that was put is not ok.
Status get_status(StateReader& from);

/// Writes the head of an answer. Its checksum covers `results` and `values` (`checksum_of`).
void put(StateWriter& to, const AnswerHead& head);
AnswerHead get_answer(StateReader& from);
std::uint64_t checksum_of(std::string_view results,
                          const std::vector<std::span<const std::byte>>& values);

/// Writes a number as eight bytes, for numbers of any size, such as hashes.
void put_fixed(StateWriter& to, std::uint64_t value);
std::uint64_t get_fixed(StateReader& from);

[[noreturn]] void malformed(const char* what);

}  // namespace penstock::remote
