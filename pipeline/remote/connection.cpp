#include "pipeline/remote/connection.h"

namespace penstock::remote {

void Connection::received(WireBytes whole) noexcept {
  try {
    Incoming message(std::move(whole));
    switch (message.kind()) {
      case Kind::welcome:
        return owner_.ready(*this, decode_welcome(message.head()));
      case Kind::refused:
        return owner_.gone(*this, get_status(message.head()), true);
      case Kind::answer: {
        AnswerHead head = get_answer(message.head());
        if (head.unpacked > 0) message.unpack(head);
        return owner_.answered(*this, std::move(head), message);
      }
      case Kind::leaving:
        return owner_.leaving(*this);
      case Kind::hello:
      case Kind::program:
      case Kind::ask:
        break;
    }
    malformed("a worker asks for something");
  } catch (const std::bad_alloc&) {
    owner_.gone(*this, Status::out_of_memory(), false);
  } catch (...) {
    owner_.gone(*this, status_from_current_exception(), true);
  }
}

void Connection::lost(const Status& why) noexcept {
  const bool in_vain = !why.ok() && why.error().code() == ErrorCode::invalid_argument;
  owner_.gone(*this, why, in_vain);
}

}  // namespace penstock::remote
