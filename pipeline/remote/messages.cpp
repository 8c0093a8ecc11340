#include "pipeline/remote/messages.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pipeline/remote/packed.h"

namespace penstock::remote {
namespace {

static_assert(std::endian::native == std::endian::little, "values are sent as they are");

using HeadSize = std::uint32_t;

/// XXH3 of bytes in pieces.
class Sum {
 public:
  Sum() { XXH3_64bits_reset(&state_); }
  void add(const void* bytes, std::size_t count) { XXH3_64bits_update(&state_, bytes, count); }
  std::uint64_t take() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

struct Whole {
  std::string head;
  std::shared_ptr<const void> values;
};

std::string text(std::string_view bytes) {
  return std::string(bytes);
}

}  // namespace

void malformed(const char* what) {
  throw Error(ErrorCode::data_loss, std::string("malformed message: ") + what);
}

WireBytes message(std::string_view head, std::vector<std::span<const std::byte>> values,
                  std::shared_ptr<const void> owner) {
  const auto size = static_cast<HeadSize>(head.size());
  auto whole = std::make_shared<Whole>();
  whole->head.resize(sizeof size);
  std::memcpy(whole->head.data(), &size, sizeof size);
  whole->head += head;
  whole->values = std::move(owner);
  WireBytes result;
  result.pieces.emplace_back(reinterpret_cast<const std::byte*>(whole->head.data()),
                             whole->head.size());
  for (const auto& piece : values)
    if (!piece.empty()) result.pieces.push_back(piece);
  result.owner = std::move(whole);
  return result;
}

Incoming::Incoming(WireBytes message) : message_(std::move(message)) {
  left_ = came_ = message_.size();
  HeadSize size = 0;
  take(reinterpret_cast<std::byte*>(&size), sizeof size);
  if (size == 0 || size > left_) malformed("the length of its head");
  const bool whole = at_ + size <= message_.pieces[piece_].size();
  std::string_view head;
  if (whole) {
    head = {reinterpret_cast<const char*>(message_.pieces[piece_].data()) + at_, size};
    at_ += size;
    left_ -= size;
  } else {
    copied_.resize(size);
    take(reinterpret_cast<std::byte*>(copied_.data()), size);
    head = copied_;
  }
  values_piece_ = piece_;
  values_at_ = at_;
  head_ = StateReader(head);
  const std::uint64_t kind = head_.get();
  if (kind > static_cast<std::uint64_t>(Kind::leaving)) malformed("its kind");
  kind_ = static_cast<Kind>(kind);
}

void Incoming::take(std::byte* to, std::size_t bytes) {
  if (bytes > left_) malformed("it has fewer values than it says");
  left_ -= bytes;
  while (bytes > 0) {
    const auto& piece = message_.pieces[piece_];
    const std::size_t now = std::min(bytes, piece.size() - at_);
    std::memcpy(to, piece.data() + at_, now);
    to += now;
    at_ += now;
    bytes -= now;
    if (at_ < piece.size()) break;
    if (piece_ + 1 == message_.pieces.size()) break;
    ++piece_;
    at_ = 0;
  }
}

std::span<const std::byte> Incoming::view(std::size_t bytes, std::vector<std::byte>& copied) {
  while (at_ == message_.pieces[piece_].size() && piece_ + 1 < message_.pieces.size()) {
    ++piece_;
    at_ = 0;
  }
  if (bytes <= message_.pieces[piece_].size() - at_) {
    const std::span<const std::byte> there = message_.pieces[piece_].subspan(at_, bytes);
    left_ -= bytes;
    at_ += bytes;
    return there;
  }
  if (copied.size() < bytes) copied.resize(bytes);
  take(copied.data(), bytes);
  return std::span<const std::byte>(copied).first(bytes);
}

void Incoming::unpack(const AnswerHead& head) {
  std::vector<std::byte> copied;
  std::span<const std::byte> packed;
  if (values_piece_ + 1 == message_.pieces.size()) {
    packed = message_.pieces[values_piece_].subspan(values_at_);
  } else {
    copied.resize(left_);
    take(copied.data(), copied.size());
    packed = copied;
  }
  const auto values = std::make_shared<const std::vector<std::byte>>(
      remote::unpack(packed, head.blocks, head.unpacked));
  message_ = {{std::span<const std::byte>(*values)}, values};
  head_ = StateReader({});
  values_piece_ = piece_ = 0;
  values_at_ = at_ = 0;
  left_ = values->size();
}

std::uint64_t Incoming::checksum(std::string_view results) const {
  Sum sum;
  sum.add(results.data(), results.size());
  for (std::size_t i = values_piece_; i < message_.pieces.size(); ++i) {
    const auto piece = message_.pieces[i].subspan(i == values_piece_ ? values_at_ : 0);
    sum.add(piece.data(), piece.size());
  }
  return sum.take();
}

std::uint64_t checksum_of(std::string_view results,
                          const std::vector<std::span<const std::byte>>& values) {
  Sum sum;
  sum.add(results.data(), results.size());
  for (const auto& piece : values) sum.add(piece.data(), piece.size());
  return sum.take();
}

WireBytes encode(const Hello& hello) {
  StateWriter head;
  head.put(static_cast<std::uint64_t>(Kind::hello));
  head.put(kProtocol);
  for (const std::string* part : {&hello.version, &hello.build, &hello.graph, &hello.fingerprint})
    head.put_bytes(*part);
  head.put(hello.seed);
  head.put(hello.retries);
  head.put(hello.retry_ms);
  head.put(hello.retries_unavailable);
  head.put(hello.shards);
  head.put(hello.shard);
  head.put(hello.lz4);
  return message(head.bytes());
}

Hello decode_hello(StateReader& head) {
  const std::uint64_t protocol = head.get();
  if (protocol != kProtocol)
    throw Error(ErrorCode::invalid_argument,
                "this worker speaks version " + std::to_string(kProtocol) +
                    " of the protocol, not " + std::to_string(protocol));
  Hello hello;
  for (std::string* part : {&hello.version, &hello.build, &hello.graph, &hello.fingerprint})
    *part = text(head.get_bytes());
  hello.seed = head.get();
  hello.retries = head.get();
  hello.retry_ms = head.get();
  hello.retries_unavailable = head.get();
  hello.shards = head.get();
  hello.shard = head.get();
  hello.lz4 = head.get();
  return hello;
}

WireBytes encode(const Welcome& welcome) {
  StateWriter head;
  head.put(static_cast<std::uint64_t>(Kind::welcome));
  head.put(welcome.threads);
  head.put(welcome.bytes);
  head.put(welcome.lz4);
  return message(head.bytes());
}

Welcome decode_welcome(StateReader& head) {
  Welcome welcome;
  welcome.threads = head.get();
  welcome.bytes = head.get();
  welcome.lz4 = head.get();
  return welcome;
}

WireBytes encode_refused(const Status& why) {
  StateWriter head;
  head.put(static_cast<std::uint64_t>(Kind::refused));
  put(head, why);
  return message(head.bytes());
}

WireBytes encode_leaving() {
  StateWriter head;
  head.put(static_cast<std::uint64_t>(Kind::leaving));
  return message(head.bytes());
}

void put(StateWriter& to, const Status& status) {
  const Error& error = status.error();
  const Provenance& where = error.where();
  to.put(static_cast<std::uint64_t>(error.code()));
  to.put_bytes(error.cause());
  to.put_bytes(where.shard);
  to.put(static_cast<std::uint64_t>(where.offset + 1));
  to.put(static_cast<std::uint64_t>(where.index + 1));
  to.put_bytes(where.stage);
  to.put(static_cast<std::uint64_t>(where.length + 1));
  to.put_bytes(where.member);
}

Status get_status(StateReader& from) {
  const std::uint64_t code = from.get();
  if (code > static_cast<std::uint64_t>(ErrorCode::changed)) malformed("the code of an error");
  std::string cause = text(from.get_bytes());
  Provenance where;
  where.shard = text(from.get_bytes());
  where.offset = static_cast<std::int64_t>(from.get() - 1);
  where.index = static_cast<std::int64_t>(from.get() - 1);
  where.stage = text(from.get_bytes());
  where.length = static_cast<std::int64_t>(from.get() - 1);
  where.member = text(from.get_bytes());
  return Error(static_cast<ErrorCode>(code), std::move(cause), std::move(where));
}

void put(StateWriter& to, const AnswerHead& head) {
  to.put(static_cast<std::uint64_t>(Kind::answer));
  to.put(head.id);
  to.put(static_cast<std::uint64_t>(head.what));
  put_fixed(to, head.checksum);
  to.put(head.work_ns);
  to.put(head.wanted);
  to.put(head.bytes);
  to.put(head.retried);
  to.put(head.shared);
  to.put(head.stages.size());
  for (const StageWork& work : head.stages)
    for (const std::uint64_t number :
         {work.stage, work.items, work.bytes, work.padding_bytes, work.busy_ns, work.apart_ns})
      to.put(number);
  to.put(head.unpacked);
  to.put(head.blocks.size());
  for (const std::uint64_t size : head.blocks) to.put(size);
  to.put_bytes(head.results);
}

AnswerHead get_answer(StateReader& from) {
  AnswerHead head;
  head.id = from.get();
  const std::uint64_t what = from.get();
  if (what > static_cast<std::uint64_t>(AnswerHead::What::no_memory)) malformed("its kind");
  head.what = static_cast<AnswerHead::What>(what);
  head.checksum = get_fixed(from);
  head.work_ns = from.get();
  head.wanted = from.get();
  head.bytes = from.get();
  head.retried = from.get();
  head.shared = from.get();
  for (std::uint64_t count = from.get(); count > 0; --count) {
    StageWork& work = head.stages.emplace_back();
    for (std::uint64_t* number : {&work.stage, &work.items, &work.bytes, &work.padding_bytes,
                                  &work.busy_ns, &work.apart_ns})
      *number = from.get();
  }
  head.unpacked = from.get();
  for (std::uint64_t count = from.get(); count > 0; --count) head.blocks.push_back(from.get());
  head.results = text(from.get_bytes());
  return head;
}

void put_fixed(StateWriter& to, std::uint64_t value) {
  to.put_bytes({reinterpret_cast<const char*>(&value), sizeof value});
}

std::uint64_t get_fixed(StateReader& from) {
  std::uint64_t value = 0;
  const std::string_view bytes = from.get_bytes();
  if (bytes.size() != sizeof value) malformed("the size of a number");
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace penstock::remote
