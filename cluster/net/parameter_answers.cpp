#include "cluster/net/parameter_answers.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "cluster/net/parameter_wire.h"
#include "cluster/net/verdict.h"

namespace penstock::cluster {
namespace {

/// The limit for an optimizer's state that is smaller than its variable.
constexpr std::uint64_t kFewValues = 64;
/// A client that still waits asks again.
constexpr std::uint64_t kMostMsOfWait = 10'000;

Error refused(const std::string& what) {
  return {ErrorCode::invalid_argument, "a parameter server was asked for " + what};
}

std::chrono::milliseconds limit_of(const wire::Ask& ask) {
  return std::chrono::milliseconds(std::min(ask.limit_ms(), kMostMsOfWait));
}

}  // namespace

/// Writes the server's values into an answer.
class ParameterAnswers::Replies final : public towers::Takers {
 public:
  explicit Replies(Blocks& blocks) : blocks_(blocks) {}

  float* place(std::uint32_t variable, std::size_t count) override {
    Reply& reply = replies_.emplace_back();
    reply.variable = variable;
    reply.count = count;
    const Blocks::Block block = blocks_.take(count * sizeof(float));
    reply.memory = block;
    reply.values = reinterpret_cast<float*>(block.get());
    return reinterpret_cast<float*>(block.get());
  }
  void share(std::uint32_t variable, const std::shared_ptr<const float>& values,
             std::size_t count) override {
    replies_.push_back({variable, count, values, values.get()});
  }

  bool send(wire::Answer& answer, Messages& messages) const {
    const auto memory = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    for (const Reply& reply : replies_) {
      wire::Item& item = *answer.add_items();
      item.set_variable(reply.variable);
      item.set_count(reply.count);
      memory->push_back(reply.memory);
    }
    Outgoing outgoing(answer, memory);
    for (const Reply& reply : replies_) outgoing.add(reply.values, reply.count * sizeof(float));
    while (outgoing.more())
      if (!messages.write(outgoing.next())) return false;
    return true;
  }

 private:
  struct Reply {
    std::uint32_t variable = 0;
    std::size_t count = 0;
    std::shared_ptr<const void> memory{};
    const float* values = nullptr;
  };
  Blocks& blocks_;
  std::vector<Reply> replies_;
};

void ParameterAnswers::answer(Messages& messages) {
  wire::Answer answer;
  Replies replies(blocks_);
  try {
    grpc::ByteBuffer first;
    if (!messages.read(first)) return;
    wire::Ask ask;
    Incoming incoming;
    if (!incoming.begin(first, ask)) throw refused("what can't be read");
    first.Clear();
    act(ask, receive(ask, incoming, messages), answer, replies);
  } catch (...) {
    answer.Clear();
    *answer.mutable_verdict() = verdict_of(status_from_current_exception());
    Replies(blocks_).send(answer, messages);
    return;
  }
  replies.send(answer, messages);
}

ParameterAnswers::Sizes ParameterAnswers::sizes_of(const towers::Beginning& beginning) {
  Sizes sizes;
  for (const towers::ServedVariable& variable : beginning.variables) {
    const auto count = static_cast<std::uint64_t>(variable.shape.volume());
    const auto rows =
        variable.shape.rank() == 0 ? 1 : static_cast<std::uint64_t>(variable.shape[0]);
    sizes[variable.number] = {count, rows, rows == 0 ? 0 : count / rows};
  }
  return sizes;
}

ParameterAnswers::Size ParameterAnswers::size_of(std::uint32_t variable) const {
  const MutexLock lock(mutex_);
  const auto found = sizes_.find(variable);
  if (found == sizes_.end())
    throw refused("variable " + std::to_string(variable) + ", which it does not hold");
  return found->second;
}

void ParameterAnswers::check(const wire::Ask& ask, const wire::Item& item) const {
  const Size size = size_of(item.variable());
  const bool asks_for_rows = ask.what() == wire::Ask::PULL_ROWS;
  const std::uint64_t values = asks_for_rows ? 0 : item.rows() * size.in_row;
  const bool fits = item.sparse()
                        ? item.rows() <= size.rows && item.count() == values
                        : !asks_for_rows && item.rows() == 0 &&
                              (item.count() == size.count ||
                               (ask.what() == wire::Ask::GIVE && item.count() <= kFewValues));
  if (!fits)
    throw refused(std::to_string(item.count()) + " values in " + std::to_string(item.rows()) +
                  " rows of variable " + std::to_string(item.variable()) + ", which has " +
                  std::to_string(size.count) + " in " + std::to_string(size.rows));
}

ParameterAnswers::Values ParameterAnswers::receive(const wire::Ask& ask, Incoming& incoming,
                                                   Messages& messages) {
  const bool takes_values = ask.what() == wire::Ask::GIVE || ask.what() == wire::Ask::PUSH ||
                            ask.what() == wire::Ask::PULL_ROWS;
  if (!takes_values && ask.items_size() > 0) throw refused("values that it has no use for");
  Values values;
  std::vector<std::uint32_t> numbers;
  for (const wire::Item& item : ask.items()) {
    check(ask, item);
    numbers.push_back(item.variable());
  }
  std::ranges::sort(numbers);
  if (std::ranges::adjacent_find(numbers) != numbers.end())
    throw refused("the same variable twice");
  for (const wire::Item& item : ask.items()) {
    const std::size_t of_rows = item.rows() * sizeof(std::int64_t);
    const std::size_t bytes = of_rows + item.count() * sizeof(float);
    std::byte* const data = values.memory.emplace_back(blocks_.take(bytes)).get();
    incoming.expect(data, bytes);
    towers::Piece& piece = values.pieces.emplace_back();
    piece.variable = item.variable();
    piece.rows = item.sparse() ? reinterpret_cast<const std::int64_t*>(data) : nullptr;
    piece.row_count = item.rows();
    piece.values = reinterpret_cast<const float*>(data + of_rows);
    piece.count = item.count();
  }
  bool as_said = incoming.put_rest();
  for (grpc::ByteBuffer message; as_said && !incoming.complete(); message.Clear()) {
    if (!messages.read(message))
      throw Error(ErrorCode::unavailable, "values for a parameter server stopped half way");
    as_said = incoming.put(message);
  }
  if (!as_said) throw refused("other values than were announced");
  check_rows(values);
  return values;
}

void ParameterAnswers::check_rows(const Values& values) const {
  for (const towers::Piece& piece : values.pieces) {
    const auto rows = static_cast<std::int64_t>(size_of(piece.variable).rows);
    std::int64_t before = -1;
    for (std::size_t i = 0; i < piece.row_count; ++i) {
      const std::int64_t row = piece.rows[i];
      if (row <= before || row >= rows)
        throw refused("row " + std::to_string(row) + " behind row " + std::to_string(before) +
                      " of variable " + std::to_string(piece.variable) + ", which has " +
                      std::to_string(rows));
      before = row;
    }
  }
}

void ParameterAnswers::act(const wire::Ask& ask, const Values& values, wire::Answer& answer,
                           Replies& replies) {
  const towers::Trainee who = trainee_of(ask.who());
  switch (ask.what()) {
    case wire::Ask::BEGIN: {
      towers::Beginning beginning = beginning_of(ask.beginning());
      beginning.run = ask.run();
      Sizes sizes = sizes_of(beginning);
      server_.begin(beginning, who);
      const MutexLock lock(mutex_);
      sizes_ = std::move(sizes);
      return;
    }
    case wire::Ask::GIVE:
      for (const towers::Piece& piece : values.pieces) server_.give(ask.run(), ask.slot(), piece);
      return;
    case wire::Ask::READY:
      return server_.ready(ask.run());
    case wire::Ask::KEEP:
      return write(server_.keep(ask.run()), answer);
    case wire::Ask::SNAPSHOT:
      return server_.snapshot(ask.run(), ask.slot(), replies);
    case wire::Ask::FIGURES:
      return write(server_.figures(ask.run()), answer);
    case wire::Ask::END:
      return server_.end(ask.run(), status_of(ask.status()));
    case wire::Ask::ENTER:
      return write(server_.enter(who, facts_of(ask.facts()), limit_of(ask)), answer);
    case wire::Ask::BEAT:
      *answer.mutable_status() = verdict_of(server_.beat(who, status_of(ask.status())));
      return;
    case wire::Ask::KEEP_FEED:
      return server_.keep_feed(who, feed_of(ask.feed()));
    case wire::Ask::PUSH:
      return write(server_.push(who, push_of(ask, values.pieces), replies), answer);
    case wire::Ask::COMMIT:
      return write(server_.commit(who, ask.replica(), ask.number(), ask.seen(), ask.rows()),
                   answer);
    case wire::Ask::TAKE: {
      std::uint64_t step = 0;
      bool finished = false;
      answer.set_taken(server_.take(who, ask.replica(), limit_of(ask), step, finished));
      answer.set_step(step);
      return answer.set_finished(finished);
    }
    case wire::Ask::PULL:
      return answer.set_step(server_.pull(who, ask.have(), replies));
    case wire::Ask::PULL_ROWS: {
      if (values.pieces.size() != 1) throw refused("rows of several variables at once");
      const towers::Piece& piece = values.pieces.front();
      const std::size_t count = piece.row_count * size_of(piece.variable).in_row;
      return server_.pull_rows(who, piece.variable, {piece.rows, piece.rows + piece.row_count},
                               replies.place(piece.variable, count), count);
    }
    case wire::Ask::LEAVE:
      return server_.leave(who, ask.replica());
    case wire::Ask::NORMS:
      return write(server_.norms(ask.run(), update_of(ask.update())), answer);
    case wire::Ask::APPLY:
      return server_.apply(ask.run(), update_of(ask.update()));
    case wire::Ask::KEEP_HERE:
      return write(server_.keep_here(ask.run()), answer);
    default:
      throw refused("something that it does not do");
  }
}

}  // namespace penstock::cluster
