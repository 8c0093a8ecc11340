#include "cluster/net/parameter_call.h"

#include <atomic>
#include <chrono>

#include "cluster/net/credentials.h"
#include "cluster/net/parameter_channel.h"

namespace penstock::cluster {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice{50};

}  // namespace

struct ParameterCall::Returned {
  std::atomic<bool> all{true};
};

ParameterCall::ParameterCall(grpc::GenericStub& stub, const std::string& token, milliseconds most,
                             const MayContinue& may_continue)
    : may_continue_(may_continue), returned_(std::make_shared<Returned>()) {
  context_->set_deadline(std::chrono::system_clock::now() + most);
  if (!token.empty()) context_->AddMetadata(kTokenName, token);
  stream_ = stub.PrepareCall(context_.get(), kParameterMethod, &queue_);
  stands_ = step([this] { stream_->StartCall(this); });
}

// gRPC reads the lent memory until it has released it. Messages that a stream has not sent yet are
// released with the stream. Bytes in transit that the other side does not accept are given up with
// their connection, see `bulk_arguments`.
ParameterCall::~ParameterCall() {
  if (stands_) context_->TryCancel();
  stream_.reset();
  context_.reset();
  for (bool done = false; !returned_->all.load(std::memory_order_acquire);)
    next(milliseconds(1), done);
  queue_.Shutdown();
  for (bool done = false; next(kSlice, done);) {
  }
}

bool ParameterCall::next(milliseconds limit, bool& done) {
  void* tag = nullptr;
  const auto until = std::chrono::system_clock::now() + limit;
  return queue_.AsyncNext(&tag, &done, until) == grpc::CompletionQueue::GOT_EVENT;
}

template <typename Start>
bool ParameterCall::step(Start start) {
  start();
  bool done = false;
  for (bool cancelled = false; !next(kSlice, done);) {
    if (cancelled || may_continue_(false)) continue;
    context_->TryCancel();
    cancelled = true;
  }
  return done;
}

bool ParameterCall::heard(bool done) {
  if (done && !may_continue_(true)) context_->TryCancel();
  return done;
}

bool ParameterCall::read(grpc::ByteBuffer& message) {
  return stands_ && heard(step([&] { stream_->Read(&message, this); }));
}

bool ParameterCall::write(const grpc::ByteBuffer& message, bool last) {
  if (!stands_) return false;
  return heard(step([&] {
    if (last) {
      stream_->WriteLast(message, {}, this);
    } else {
      stream_->Write(message, this);
    }
  }));
}

grpc::Status ParameterCall::finish() {
  grpc::Status status;
  step([&] { stream_->Finish(&status, this); });
  stands_ = false;
  return status;
}

std::shared_ptr<const void> ParameterCall::loan() {
  returned_->all.store(false, std::memory_order_relaxed);
  return {static_cast<const void*>(nullptr), [returned = returned_](const void*) {
            returned->all.store(true, std::memory_order_release);
          }};
}

}  // namespace penstock::cluster
