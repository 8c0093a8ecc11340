#include "cluster/net/worker_link.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <penstock/internal/start_thread.h>

#include "cluster/net/bulk.h"

namespace penstock::cluster {
namespace {

/// Up to this size a copy costs less than the block of memory that gRPC read the message into. That
/// block may have megabytes, and would live as long as the message is kept.
constexpr std::size_t kBytesToCopy = 4096;

Bytes bytes_of(const WireBytes& message) {
  std::vector<grpc::Slice> slices;
  slices.reserve(message.pieces.size());
  for (const auto& piece : message.pieces)
    if (!piece.empty()) slices.push_back(lent_slice(piece, message.owner));
  return {slices.data(), slices.size()};
}

WireBytes wire_of(Bytes& message) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) throw std::bad_alloc();
  message.Clear();
  WireBytes wire;
  std::size_t bytes = 0;
  for (const grpc::Slice& slice : slices) bytes += slice.size();
  if (bytes <= kBytesToCopy) {
    const auto copy = std::make_shared<std::vector<std::byte>>(bytes);
    std::byte* to = copy->data();
    for (const grpc::Slice& slice : slices) {
      if (slice.size() > 0) std::memcpy(to, slice.begin(), slice.size());
      to += slice.size();
    }
    if (bytes > 0) wire.pieces.emplace_back(*copy);
    wire.owner = copy;
    return wire;
  }
  // A small slice holds its bytes itself, so take pieces only from slices that no longer move.
  const auto kept = std::make_shared<const std::vector<grpc::Slice>>(std::move(slices));
  wire.pieces.reserve(kept->size());
  for (const grpc::Slice& slice : *kept)
    wire.pieces.emplace_back(reinterpret_cast<const std::byte*>(slice.begin()), slice.size());
  wire.owner = kept;
  return wire;
}

/// True if gRPC reports that this side does not trust the other's certificate, or that the other
/// side does not use TLS. The words are those of OpenSSL, and gRPC's for names.
bool is_of_certificates(const std::string& grpc_says) {
  constexpr const char* kWords[] = {"certificate verify failed", "wrong version number",
                                    "Peer name"};
  return std::ranges::any_of(
      kWords, [&](const char* words) { return grpc_says.find(words) != std::string::npos; });
}

}  // namespace

StreamLink::~StreamLink() {
  close();
  if (thread_.joinable()) thread_.join();
}

void StreamLink::begin(std::unique_ptr<Stream> stream, std::shared_ptr<LinkListener> listener,
                       std::chrono::milliseconds let_in_within) {
  stream_ = std::move(stream);
  listener_ = std::move(listener);
  dialed_ = let_in_within.count() > 0;
  let_in_until_ = std::chrono::steady_clock::now() + let_in_within;
  thread_ = start_thread("a connection to a worker", [this] { run(); });
}

bool StreamLink::ended() const {
  const MutexLock lock(mutex_);
  return ended_;
}

void StreamLink::send(WireBytes message) {
  if (message.size() > kMostBytesOfMessage) return end("a message to send has more than 64 MiB");
  const MutexLock lock(mutex_);
  if (closing_ || broken_ || over_) return;
  to_send_.push_back(std::move(message));
  if (may_write()) wake_.notify_one();
}

void StreamLink::end(const char* why) noexcept {
  const MutexLock lock(mutex_);
  if (why_ == nullptr && !broken_ && !over_) why_ = why;
  closing_ = true;
  wake_.notify_one();
}

void StreamLink::run() {
  stream_->open();
  if (!dialed_) {
    stream_->read(&arriving_);
    const MutexLock lock(mutex_);
    let_in_ = true;
  }
  MutexLock lock(mutex_);
  bool finished = false;
  bool given_up = false;
  while (!over_) {
    if (closing_ && !finished) {
      finished = true;
      lock.unlock();
      stream_->finish();
      lock.lock();
    } else if (broken_ && !given_up) {
      given_up = true;
      lock.unlock();
      stream_->give_up();
      lock.lock();
    } else if (may_write()) {
      WireBytes first = std::move(to_send_.front());
      to_send_.pop_front();
      writing_ = true;
      lock.unlock();
      write(std::move(first));
      lock.lock();
    } else if (let_in_ || finished) {
      wake_.wait(mutex_);
    } else if (std::chrono::steady_clock::now() < let_in_until_) {
      wake_.wait_until(mutex_, let_in_until_);
    } else {
      closing_ = true;
      why_ = "no answer in time";
    }
  }
  std::deque<WireBytes> unsent = std::exchange(to_send_, {});
  const Status why = why_lost();
  lock.unlock();
  stream_.reset();
  leaving_.Clear();
  listener_->lost(why);
  listener_.reset();
  unsent.clear();
  lock.lock();
  ended_ = true;
}

void StreamLink::write(WireBytes message) {
  try {
    leaving_ = bytes_of(message);
    message = {};
    stream_->write(&leaving_);
  } catch (const std::bad_alloc&) {
    end("no memory to send a message");
  }
}

void StreamLink::connected(int peer) noexcept {
  const auto& metadata = static_cast<Dialed&>(*stream_).context.GetServerInitialMetadata();
  if (!metadata.contains(kWorkerName)) return lost(peer);
  listener_->connected();
  {
    const MutexLock lock(mutex_);
    let_in_ = true;
    wake_.notify_one();
  }
  stream_->read(&arriving_);
}

void StreamLink::arrived(int /*peer*/) noexcept {
  {
    const MutexLock lock(mutex_);
    if (closing_) return;
  }
  try {
    listener_->received(wire_of(arriving_));
  } catch (const std::bad_alloc&) {
    return end("no memory for a received message");
  }
  stream_->read(&arriving_);
}

void StreamLink::written(int /*peer*/) noexcept {
  leaving_.Clear();
  const MutexLock lock(mutex_);
  writing_ = false;
  if (may_write()) wake_.notify_one();
}

void StreamLink::lost(int /*peer*/) noexcept {
  const MutexLock lock(mutex_);
  broken_ = true;
  wake_.notify_one();
}

void StreamLink::over(int /*peer*/, Stream* /*stream*/, const grpc::Status& why) noexcept {
  const MutexLock lock(mutex_);
  try {
    grpc_says_ = why;
  } catch (...) {  // without a reason then
  }
  over_ = true;
  wake_.notify_one();  // and the thread deletes the stream
}

Status StreamLink::why_lost() const noexcept try {
  if (why_ != nullptr)
    return {ErrorCode::unavailable, "the connection to " + other_ + " has ended: " + why_};
  const std::string& says = grpc_says_.error_message();
  if (!dialed_)  // gRPC gives no reason
    return {ErrorCode::unavailable, "the connection to " + other_ +
                                        " was lost, or it sent more than 64 MiB in one message"};
  if (let_in_)
    return {ErrorCode::unavailable, "the connection to " + other_ + " was lost: " +
                                        (says.empty() ? "closed by the other side" : says)};
  if (grpc_says_.error_code() == grpc::StatusCode::PERMISSION_DENIED)
    return {ErrorCode::invalid_argument, other_ + " refused this process: " + says};
  if (is_of_certificates(says))
    return {ErrorCode::invalid_argument,
            other_ + " has a certificate that this process does not trust: " + says};
  if (grpc_says_.ok() || grpc_says_.error_code() == grpc::StatusCode::UNIMPLEMENTED)
    return {ErrorCode::unavailable, other_ + " is not a Penstock input worker"};
  // TLS 1.3 does not tell this side whether the other trusts its certificate.
  const bool closed = says.find("Socket closed") != std::string::npos;
  return {ErrorCode::unavailable,
          other_ + " was not reached: " + says +
              (closed ? " (it may require TLS, or not trust this process's certificate)" : "")};
} catch (...) {
  return Status::out_of_memory();
}

RendezvousOptions options_of(const WorkerSecurity& security) {
  RendezvousOptions options;
  options.tls = {security.certificate, security.key, security.authority};
  options.token = security.token;
  return options;
}

void check_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const bool has_port = colon != std::string::npos && colon > 0 && colon + 1 < address.size() &&
                        address.size() - colon <= 6 &&
                        address.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (!has_port || address.find_first_of("/, ") != std::string::npos)
    throw Error(ErrorCode::invalid_argument,
                "a worker's address must be HOST:PORT, not \"" + address + "\"");
}

}  // namespace penstock::cluster
