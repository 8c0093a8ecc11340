// What runs and input workers tell each other. An input is a list of messages, each behind its size
// in two bytes; with the first byte's lowest bit questions are asked by two runs that share what is
// made, and answers get the checksum that they should have.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include <penstock/penstock.h>

#include "pipeline/remote/packed.h"
#include "pipeline/remote/session.h"
#include "pipeline/remote/transport.h"
#include "pipeline/stage/fingerprint.h"
#include "tests/fuzz/support.h"

namespace penstock::fuzz {
namespace {

using namespace std::chrono_literals;

/// Records, values, gathered children, verdicts, random numbers, rows with texts, and images that
/// the run finishes.
Dataset graph() {
  const Spec spec({{"number", DType::i64, Shape()},
                   {"drawn", DType::f32, Shape({2})},
                   {"text", DType::bytes, Shape()},
                   {"image", DType::u8, Shape({2, 3, 3})}});
  return range(24)
      .enumerate(100, "place")
      .filter([](const Element& e) { return e["value"].item<std::int64_t>() % 5 != 0; }, "fifth")
      .map(
          [](Element e, Rng& rng) {
            const auto number = e["value"].item<std::int64_t>();
            Element out;
            out.set("number", Tensor::scalar(number));
            out.set("drawn", Tensor::of<float>({2}, {static_cast<float>(rng.uniform()), 1}));
            // Some are long enough to be compressed.
            const auto size = static_cast<std::size_t>(number % 7 == 3 ? 5000 : number % 7);
            out.set("text", Tensor::copy_bytes(std::string(size, 'x')));
            out.set("image", Tensor::allocate(DType::u8, Shape({2, 3, 3})));
            for (std::uint8_t& pixel : out["image"].mutable_values<std::uint8_t>())
              pixel = static_cast<std::uint8_t>(number);
            return out;
          },
          {.name = "draw", .output = spec})
      .map(image_ops("image").normalize())
      .batch(4);
}

std::string text_of(const WireBytes& message) {
  std::string text;
  for (const auto& piece : message.pieces)
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return text;
}

WireBytes wire_of(std::string text) {
  auto owner = std::make_shared<std::string>(std::move(text));
  const std::span all(reinterpret_cast<const std::byte*>(owner->data()), owner->size());
  WireBytes message;
  // In two pieces: heads may lie in both.
  message.pieces = {all.first(all.size() / 2), all.subspan(all.size() / 2)};
  message.owner = std::move(owner);
  return message;
}

std::vector<std::string> messages_in(std::string_view rest) {
  std::vector<std::string> messages;
  while (rest.size() >= 2 && messages.size() < 64) {
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
    const std::size_t size = std::min<std::size_t>(at(0) | at(1) << 8, rest.size() - 2);
    messages.emplace_back(rest.substr(2, size));
    rest.remove_prefix(2 + size);
  }
  return messages;
}

std::string input_of(const std::vector<std::string>& messages) {
  std::string input(1, '\0');
  for (const std::string& message : messages) {
    input += static_cast<char>(message.size() & 255);
    input += static_cast<char>(message.size() >> 8);
    input += message;
  }
  return input;
}

/// Keeps what is sent.
class Kept final : public WorkerLink {
 public:
  void send(WireBytes message) override {
    const std::lock_guard lock(mutex_);
    sent_.push_back(text_of(message));
  }
  void close() noexcept override {}
  std::vector<std::string> sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> sent_;
};

void wait_for(const auto& done) {
  for (int i = 0; i < 80'000 && !done(); ++i) std::this_thread::sleep_for(500us);
  if (!done()) stuck("a worker's run that does not come to its end");
}

/// What a worker answers to these; with `shared`, while another run asks it for the same, so that
/// each element is made for one of them.
std::vector<std::string> answers_to(const std::vector<std::string>& messages, bool shared = false) {
  remote::Served served;
  served.dataset = graph();
  served.options = {.threads = 1, .memory_bytes = 8 << 20};
  Kept link;
  Kept other_link;
  std::unique_ptr<remote::Session> other;
  if (shared) {
    // It has room for a few.
    served.cache = std::make_unique<remote::ElementCache>(12 << 10);
    other = std::make_unique<remote::Session>(served, other_link);
    for (const std::string& message : messages) other->received(wire_of(message));
  }
  remote::Session session(served, link);
  for (const std::string& message : messages) session.received(wire_of(message));
  wait_for([&] { return session.idle(); });
  session.lost(Status());
  wait_for([&] { return session.over(); });
  if (other) {
    other->lost(Status());
    wait_for([&] { return other->over(); });
  }
  return link.sent();
}

/// A worker that says what it is told to.
struct Script {
  std::vector<std::string> said;  ///< once it was greeted
  std::vector<std::string> heard;
  std::mutex mutex;
};
Script* script = nullptr;

class Told final : public WorkerLink {
 public:
  explicit Told(LinkListener& listener)
      : thread_([this, &listener](const std::stop_token& stop) { speak(stop, listener); }) {}
  void send(WireBytes message) override {
    const std::lock_guard lock(script->mutex);
    script->heard.push_back(text_of(message));
    changed_.notify_all();
  }
  void close() noexcept override { thread_.request_stop(); }

 private:
  void speak(const std::stop_token& stop, LinkListener& listener) {
    for (std::size_t i = 0; i < script->said.size() && !stop.stop_requested(); ++i) {
      {
        // Answers come behind questions, as far as there are some.
        std::unique_lock lock(script->mutex);
        changed_.wait_for(lock, stop, 2ms, [&] { return script->heard.size() > i; });
      }
      listener.received(wire_of(script->said[i]));
    }
    listener.lost(Status(ErrorCode::unavailable, "it has said all"));
  }

  std::condition_variable_any changed_;
  std::jthread thread_;
};

const WorkerTransport& told() {
  static const WorkerTransport transport{
      WorkerTransport::kVersion,
      [](const std::string&, const WorkerSecurity&, std::chrono::milliseconds,
         LinkListener& listener) -> std::unique_ptr<WorkerLink> {
        return std::make_unique<Told>(listener);
      },
      nullptr, nullptr, nullptr};
  return transport;
}

/// A run whose worker says that; what the run told it. It gets all elements, whoever makes them.
std::vector<std::string> run_with(std::vector<std::string> said) {
  Script played;
  played.said = std::move(said);
  script = &played;
  remote::use_worker_transport(told());
  RunOptions options{.seed = 3, .threads = 1, .memory_bytes = 8 << 20};
  options.workers.addresses = {"told"};
  options.workers.local_threads = 1;
  if (remote::has_lz4()) options.workers.wire = WorkerWire::lz4;
  std::int64_t rows = 0;
  {
    Iterator run = graph().iterate(options);
    while (Next next = run.next())
      if (next.has_value()) rows += next->valid_rows;
  }
  require(rows <= 24, "more elements than there are");
  return played.heard;
}

std::string hello() {
  StateWriter fingerprint;
  Fingerprint(*graph().node()).save(fingerprint);
  return text_of(remote::encode(remote::Hello{.version = version(),
                                              .build = remote::build_id(),
                                              .graph = {},
                                              .fingerprint = fingerprint.take(),
                                              .seed = 3,
                                              .retries = 0,
                                              .retry_ms = 0,
                                              .shards = 0,
                                              .shard = 0,
                                              .lz4 = 1}));
}

std::string welcome() {
  return text_of(remote::encode(remote::Welcome{.threads = 4, .bytes = 1 << 20}));
}

/// The same answer with the checksum that it should have.
std::string with_checksum(const std::string& message) {
  try {
    remote::Incoming incoming(wire_of(message));
    if (incoming.kind() != remote::Kind::answer) return message;
    remote::AnswerHead head = remote::get_answer(incoming.head());
    const std::size_t sent = incoming.left();
    if (head.unpacked > 0) incoming.unpack(head);
    head.checksum = incoming.checksum(head.results);
    StateWriter bytes;
    remote::put(bytes, head);
    return text_of(remote::message(bytes.bytes())) + message.substr(message.size() - sent);
  } catch (const Error&) {
    return message;
  }
}

std::string_view text_of(Bytes input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

}  // namespace

void run_asked(Bytes input) {
  if (input.empty()) return;
  std::vector<std::string> messages = messages_in(text_of(input).substr(1));
  messages.insert(messages.begin(), hello());
  static_cast<void>(answers_to(messages, (input[0] & std::byte{1}) != std::byte{0}));
}

void run_answered(Bytes input) {
  if (input.empty()) return;
  std::vector<std::string> messages = messages_in(text_of(input).substr(1));
  if ((input[0] & std::byte{1}) != std::byte{0})
    for (std::string& message : messages) message = with_checksum(message);
  messages.insert(messages.begin(), welcome());
  static_cast<void>(run_with(std::move(messages)));
}

std::vector<std::string> asked_seeds() {
  std::vector<std::string> heard = run_with({welcome()});
  if (!heard.empty()) heard.erase(heard.begin());  // hello
  std::string shared = input_of(heard);
  shared[0] = '\1';
  return {input_of(heard), shared};
}

std::vector<std::string> answered_seeds() {
  const std::vector<std::string> heard = run_with({welcome()});
  std::vector<std::string> answers = answers_to(heard);
  if (!answers.empty()) answers.erase(answers.begin());  // welcome
  return {input_of(answers)};
}

}  // namespace penstock::fuzz
