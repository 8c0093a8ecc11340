// What other processes say: requests to rank 0, and what etcd tells who watches. An input is a list
// of messages, each behind its kind and its size in two bytes.
#include <chrono>
#include <optional>

#include <google/protobuf/stubs/logging.h>

#include "cluster/net/etcd_members.h"
#include "cluster/net/etcd_txn.h"
#include "cluster/net/state.h"
#include "cluster/net/verdict.h"
#include "tests/fuzz/support.h"

namespace penstock::fuzz {
namespace {

using namespace cluster;

struct Message {
  unsigned kind;
  std::string bytes;
};

std::optional<Message> next_message(std::string_view& rest) {
  if (rest.size() < 3) return std::nullopt;
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
  Message message{at(0), {}};
  const std::size_t size = std::min<std::size_t>(at(1) | at(2) << 8, rest.size() - 3);
  message.bytes = rest.substr(3, size);
  rest.remove_prefix(3 + size);
  return message;
}

std::string message_of(unsigned kind, const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  std::string text{static_cast<char>(kind), static_cast<char>(bytes.size() & 255),
                   static_cast<char>(bytes.size() >> 8)};
  return text + bytes;
}

/// What arrives is read again as the other side does.
template <typename Reply>
void require_readable(const Reply& reply) {
  Reply again;
  require(again.ParseFromString(reply.SerializeAsString()), "a reply that can't be read");
}

void require_sane(const Status& status) {
  if (status.ok()) return;
  require(status.error().code() <= ErrorCode::no_progress, "an error's code");
}

constexpr const char* kMe = "the honest process that is rank 0";

wire::JoinRequest honest(int world) {
  wire::JoinRequest request;
  request.set_rank(0);
  request.set_world(world);
  request.set_incarnation(kMe);
  (*request.mutable_facts())["version"] = "1";
  return request;
}

const EtcdKeys kKeys("job");

/// As the module does: protobuf would say of each input what is wrong with it.
const bool kQuiet = (google::protobuf::SetLogHandler(nullptr), true);

}  // namespace

void run_wire(Bytes bytes) {
  const Input input(bytes);
  const int world = 1 + static_cast<int>(input.options & 3);
  RendezvousState state(world, std::chrono::hours(1));
  require(!state.join(honest(world)).refused().ended(), "the first process is refused");
  wire::PutRequest mine;
  mine.set_key("mine");
  mine.set_value("value");
  state.put(mine);
  std::string_view rest = input.file;
  while (const std::optional<Message> message = next_message(rest)) {
    wire::JoinRequest join;
    wire::BeatRequest beat;
    wire::PutRequest put;
    wire::GetRequest get;
    switch (message->kind & 3) {
      case 0:
        if (!join.ParseFromString(message->bytes) || join.incarnation() == kMe) break;
        require_readable(state.join(join));
        require(join.rank() != 0 || state.join(join).refused().ended(), "rank 0 came twice");
        break;
      case 1:
        if (!beat.ParseFromString(message->bytes) || beat.incarnation() == kMe) break;
        require_readable(state.beat(beat));
        require_sane(status_of(state.beat(beat).verdict()));
        break;
      case 2:
        if (put.ParseFromString(message->bytes)) require_readable(state.put(put));
        break;
      default:
        if (get.ParseFromString(message->bytes)) require_readable(state.get(get));
    }
  }
  const wire::JoinReply joined = state.join(honest(world));
  require(!joined.refused().ended(), "a member is refused");
  require_sane(status_of(joined.verdict()));
  wire::GetRequest asked;
  asked.set_key("mine");
  require(state.get(asked).value() == "value", "a value that somebody else replaced");
  require(!state.all_left(), "rank 0 has left");
}

std::vector<std::string> wire_seeds() {
  wire::JoinRequest join;
  join.set_rank(1);
  join.set_world(2);
  join.set_incarnation("1-2");
  (*join.mutable_facts())["version"] = "1";
  const std::string first = message_of(0, join);
  (*join.mutable_facts())["version"] = "2";
  const std::string odd = message_of(0, join);
  wire::BeatRequest beat;
  beat.set_rank(1);
  beat.set_incarnation("1-2");
  const std::string sign = message_of(1, beat);
  *beat.mutable_failed() = verdict_of(Status(ErrorCode::data_loss, "a bad record"));
  const std::string failure = message_of(1, beat);
  beat.clear_failed();
  beat.set_leaving(true);
  const std::string leave = message_of(1, beat);
  wire::PutRequest put;
  put.set_key("mine");
  put.set_value("theirs");
  wire::GetRequest get;
  get.set_key("mine");
  const std::string store = message_of(2, put) + message_of(3, get);
  return {with_options(1, first + sign + store + leave), with_options(1, odd + sign),
          with_options(1, first + failure), with_options(2, first + first + odd)};
}

void run_etcd(Bytes bytes) {
  const Input input(bytes);
  const int world = 1 + static_cast<int>(input.options & 3);
  EtcdMembers members(world, kKeys.signs("run"), 100, std::chrono::seconds(1));
  std::string_view rest = input.file;
  while (const std::optional<Message> message = next_message(rest)) {
    const std::int64_t before = members.next_revision();
    etcdserverpb::WatchResponse events;
    etcdserverpb::RangeResponse keys;
    etcdserverpb::TxnResponse reply;
    wire::Begun begun;
    switch (message->kind & 3) {
      case 0:
        if (events.ParseFromString(message->bytes)) members.apply(events);
        break;
      case 1:
        if (!keys.ParseFromString(message->bytes)) break;
        (void)all_left(keys, kKeys.signs("run"), world);
        members.apply(keys);
        break;
      case 2: {
        if (!keys.ParseFromString(message->bytes)) break;
        const Lobby lobby = lobby_of(keys, world);
        require(lobby.complete() == lobby.missing().empty(), "who is missing");
        require_sane(lobby.status());
        break;
      }
      default:
        if (reply.ParseFromString(message->bytes))
          for (int i = 0; i < 4; ++i)
            if (const etcdserverpb::KeyValue* read = read_by(reply, i))
              if (begun.ParseFromString(read->value())) require_sane(status_of(begun.verdict()));
    }
    require(members.next_revision() >= before, "a revision that goes back");
    require_sane(members.status());
  }
}

std::vector<std::string> etcd_seeds() {
  etcdserverpb::WatchResponse events;
  const auto add = [&](etcdserverpb::Event::EventType type, const std::string& key,
                       const std::string& value) {
    etcdserverpb::Event& event = *events.add_events();
    event.set_type(type);
    event.mutable_kv()->set_key(key);
    event.mutable_kv()->set_value(value);
    event.mutable_kv()->set_mod_revision(101 + events.events_size());
  };
  add(etcdserverpb::Event::PUT, kKeys.left("run", 1), "");
  add(etcdserverpb::Event::DELETE, kKeys.rank("run", 1), "");
  const std::string leave = message_of(0, events);
  wire::BeatRequest beat;
  beat.set_rank(1);
  *beat.mutable_failed() = verdict_of(Status(ErrorCode::data_loss, "a bad record"));
  events.Clear();
  add(etcdserverpb::Event::PUT, kKeys.ended("run"), beat.SerializeAsString());
  const std::string failure = message_of(0, events);
  etcdserverpb::RangeResponse keys;
  keys.mutable_header()->set_revision(200);
  for (int rank = 0; rank < 2; ++rank) {
    wire::JoinRequest join = honest(2);
    join.set_rank(rank);
    etcdserverpb::KeyValue& entry = *keys.add_kvs();
    entry.set_key(kKeys.rank("run", rank));
    entry.set_value(join.SerializeAsString());
  }
  etcdserverpb::TxnResponse reply;
  wire::Begun begun;
  begun.set_revision(99);
  etcdserverpb::KeyValue& entry = *reply.add_responses()->mutable_response_range()->add_kvs();
  entry.set_key(kKeys.begun("run"));
  entry.set_value(begun.SerializeAsString());
  return {with_options(1, leave), with_options(1, failure),
          with_options(1, message_of(1, keys) + message_of(2, keys)),
          with_options(2, message_of(3, reply) + leave + failure)};
}

}  // namespace penstock::fuzz
