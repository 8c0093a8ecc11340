// What a parameter server is asked, and what it answers. An input is a list of messages, each
// behind its kind and its size in two bytes; the first of a question has an odd kind.
#include <optional>
#include <utility>

#include "cluster/net/parameter_reply.h"
#include "cluster/net/parameter_wire.h"
#include "cluster/net/verdict.h"
#include "tests/cluster/held_server.h"
#include "tests/fuzz/support.h"

namespace penstock::fuzz {
namespace {

using namespace cluster;

constexpr std::int64_t kMostValues = 1 << 16;

/// Of small variables only.
class SmallServer final : public cluster::test::HeldServer {
 public:
  void begin(const towers::Beginning& beginning, const towers::Trainee& chief) override {
    std::int64_t all = 0;
    for (const towers::ServedVariable& variable : beginning.variables) {
      const std::int64_t volume = variable.shape.volume();
      if (volume > kMostValues - all) throw Error(ErrorCode::resource_exhausted, "too large");
      all += volume;
    }
    values.clear();
    HeldServer::begin(beginning, chief);
  }
};

/// No more than a variable has.
class SmallTaker final : public towers::Takers {
 public:
  float* place(std::uint32_t /*variable*/, std::size_t count) override {
    if (count > static_cast<std::size_t>(kMostValues))
      throw Error(ErrorCode::mismatch, "more values than there are");
    return memory_.emplace_back(count).data();
  }

 private:
  std::vector<std::vector<float>> memory_;
};

class Listed final : public Messages {
 public:
  explicit Listed(std::vector<std::string> messages) : messages_(std::move(messages)) {}
  bool read(grpc::ByteBuffer& message) override {
    if (next_ == messages_.size()) return false;
    const std::string& bytes = messages_[next_++];
    // In slices of a few bytes, as the network may give them.
    std::vector<grpc::Slice> slices;
    for (std::size_t at = 0; at < bytes.size(); at += 13) slices.emplace_back(bytes.substr(at, 13));
    message = grpc::ByteBuffer(slices.data(), slices.size());
    return true;
  }
  bool write(const grpc::ByteBuffer& message) override {
    std::vector<grpc::Slice> slices;
    require(message.Dump(&slices).ok(), "a message that can't be read");
    std::string& bytes = written.emplace_back();
    for (const grpc::Slice& slice : slices)
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    return true;
  }

  std::vector<std::string> written;

 private:
  const std::vector<std::string> messages_;
  std::size_t next_ = 0;
};

std::string with_size(unsigned kind, const std::string& bytes) {
  const std::string text{static_cast<char>(kind), static_cast<char>(bytes.size() & 255),
                         static_cast<char>(bytes.size() >> 8)};
  return text + bytes;
}

/// A question and what lies behind it, as one message or cut in two.
std::string question(wire::Ask ask, const std::vector<towers::Piece>& pieces, bool cut = false) {
  for (const towers::Piece& piece : pieces) {
    wire::Item& item = *ask.add_items();
    item.set_variable(piece.variable);
    item.set_rows(piece.row_count);
    item.set_count(piece.count);
    item.set_sparse(piece.rows != nullptr);
  }
  Outgoing outgoing(ask, nullptr);
  for (const towers::Piece& piece : pieces) {
    outgoing.add(piece.rows, piece.row_count * sizeof(std::int64_t));
    outgoing.add(piece.values, piece.count * sizeof(float));
  }
  Listed listed({});
  while (outgoing.more()) listed.write(outgoing.next());
  std::string first = listed.written.at(0);
  if (!cut) return with_size(1, first);
  const std::string rest = first.substr(first.size() - 5);
  first.resize(first.size() - 5);
  return with_size(1, first) + with_size(0, rest);
}

wire::Ask ask_of(wire::Ask::What what) {
  wire::Ask ask;
  ask.set_what(what);
  ask.set_run("run");
  return ask;
}

void answer_all(const std::vector<std::vector<std::string>>& questions) {
  SmallServer server;
  ParameterAnswers answers(server);
  for (const std::vector<std::string>& messages : questions) {
    Listed asked(messages);
    answers.answer(asked);
    Listed answered(asked.written);
    SmallTaker taker;
    Places places(&taker);
    wire::Answer answer;
    require(read_answer(answered, answer, places) == Reading::whole, "an answer that is none");
    require(!answer.verdict().ended() || answer.items_size() == 0, "an error with values");
  }
}

void read_all(const std::vector<std::string>& messages) {
  Listed listed(messages);
  SmallTaker taker;
  Places places(&taker);
  wire::Answer answer;
  try {
    read_answer(listed, answer, places);
    (void)pushed_of(answer);
  } catch (const Error&) {  // what a process that trains ends with
  }
  (void)entered_of(answer);
  (void)head_of(answer);
  (void)figures_of(answer);
  (void)norms_of(answer);
}

}  // namespace

void run_parameters(Bytes bytes) {
  const Input input(bytes);
  std::vector<std::vector<std::string>> questions;
  std::string_view rest = input.file;
  while (rest.size() >= 3) {
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
    const std::size_t size = std::min<std::size_t>(at(1) | at(2) << 8, rest.size() - 3);
    if (questions.empty() || (at(0) & 1) != 0) questions.emplace_back();
    questions.back().emplace_back(rest.substr(3, size));
    rest.remove_prefix(3 + size);
  }
  if ((input.options & 1) != 0) {
    for (const std::vector<std::string>& answer : questions) read_all(answer);
  } else {
    answer_all(questions);
  }
}

std::vector<std::string> parameters_seeds() {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> rows{1, 2};
  wire::Ask begin = ask_of(wire::Ask::BEGIN);
  towers::Beginning beginning;
  beginning.variables = {{.number = 0, .name = "w", .shape = {6}},
                         {.number = 4, .name = "e", .shape = {4, 3}, .by_rows = true}};
  *begin.mutable_beginning() = wire_of(beginning);
  const std::string begun = question(begin, {}) +
                            question(ask_of(wire::Ask::GIVE), {{0, values.data(), 6}}) +
                            question(ask_of(wire::Ask::READY), {});
  wire::Ask push = ask_of(wire::Ask::PUSH);
  write({.number = 1, .decided = towers::PushVerdict::applied}, push);
  const std::string pushed =
      question(push, {{0, values.data(), 6}, {4, values.data(), 6, rows.data(), 2}}, true) +
      question(ask_of(wire::Ask::PULL_ROWS), {{4, nullptr, 0, rows.data(), 2}}) +
      question(ask_of(wire::Ask::PULL), {});
  const std::string rest = question(ask_of(wire::Ask::ENTER), {}) +
                           question(ask_of(wire::Ask::FIGURES), {}) +
                           question(ask_of(wire::Ask::APPLY), {});
  wire::Answer answer;
  wire::Item& item = *answer.add_items();
  item.set_variable(4);
  item.set_count(3);
  Outgoing outgoing(answer, nullptr);
  outgoing.add(values.data(), 3 * sizeof(float));
  Listed listed({});
  listed.write(outgoing.next());
  return {with_options(0, begun + pushed), with_options(0, begun + rest), with_options(0, pushed),
          with_options(1, with_size(1, listed.written.at(0)))};
}

}  // namespace penstock::fuzz
