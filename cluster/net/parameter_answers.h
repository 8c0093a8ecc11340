// Reads and answers questions to a parameter server, independent of the transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <grpcpp/support/byte_buffer.h>

#include <penstock/internal/thread_annotations.h>

#include "cluster/net/blocks.h"
#include "cluster/net/bulk.h"
#include "cluster/net/parameters.pb.h"
#include "towers/servers/parameter_server.h"

namespace penstock::cluster {

/// The messages of one question.
class Messages {
 public:
  virtual ~Messages() = default;
  /// False if there are no more messages.
  virtual bool read(grpc::ByteBuffer& message) = 0;
  /// False if the other side no longer reads.
  virtual bool write(const grpc::ByteBuffer& message) = 0;
};

/// The answering side of a parameter server. Questions may hold anything. It takes no more memory
/// than the variables of the run had at its beginning, and passes no rows to the server that a
/// variable does not have. Thread-safe.
class ParameterAnswers {
 public:
  explicit ParameterAnswers(towers::ParameterServer& server) : server_(server) {}

  void answer(Messages& messages);

 private:
  struct Size {
    std::uint64_t count = 0;
    std::uint64_t rows = 0;
    std::uint64_t in_row = 0;
  };
  /// The values of a question, and their memory.
  struct Values {
    std::vector<towers::Piece> pieces;
    std::vector<Blocks::Block> memory;
  };
  class Replies;

  using Sizes = std::map<std::uint32_t, Size>;

  static Sizes sizes_of(const towers::Beginning& beginning);
  Size size_of(std::uint32_t variable) const EXCLUDES(mutex_);
  /// Throws Error{invalid_argument} for a malformed question, or Error{unavailable} if fewer bytes
  /// arrived than were announced.
  Values receive(const wire::Ask& ask, Incoming& incoming, Messages& messages);
  void check(const wire::Ask& ask, const wire::Item& item) const;
  void check_rows(const Values& values) const;
  void act(const wire::Ask& ask, const Values& values, wire::Answer& answer, Replies& replies)
      EXCLUDES(mutex_);

  towers::ParameterServer& server_;
  Blocks blocks_;
  mutable Mutex mutex_;
  Sizes sizes_ GUARDED_BY(mutex_);
};

}  // namespace penstock::cluster
