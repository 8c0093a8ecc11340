// One question to a parameter server, as a gRPC call.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include "cluster/net/bulk.h"
#include "cluster/net/parameter_answers.h"

namespace penstock::cluster {

/// A running call. One thread uses it, and that thread also does gRPC's work for the call.
/// `may_continue` is asked at intervals while a step waits, and after each message that was sent or
/// received. Once it returns false, the call is cancelled.
class ParameterCall final : public Messages {
 public:
  using MayContinue = std::function<bool(bool moved)>;

  ParameterCall(grpc::GenericStub& stub, const std::string& token, std::chrono::milliseconds most,
                const MayContinue& may_continue);
  ~ParameterCall() override;

  bool read(grpc::ByteBuffer& message) override;
  bool write(const grpc::ByteBuffer& message) override { return write(message, false); }
  bool write(const grpc::ByteBuffer& message, bool last);
  /// Returns the final status. No other function may be called afterwards.
  grpc::Status finish();
  /// Returns an owner for memory that is sent. It lives for as long as gRPC may read that memory.
  std::shared_ptr<const void> loan();

 private:
  /// Runs one asynchronous operation, which `start` begins with `this` as its tag. True if it
  /// succeeded.
  template <typename Start>
  bool step(Start start);
  bool next(std::chrono::milliseconds limit, bool& done);
  bool heard(bool done);

  struct Returned;
  const MayContinue& may_continue_;
  std::unique_ptr<grpc::ClientContext> context_ = std::make_unique<grpc::ClientContext>();
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::shared_ptr<Returned> returned_;
  bool stands_ = false;
};

}  // namespace penstock::cluster
