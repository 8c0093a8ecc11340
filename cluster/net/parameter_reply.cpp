#include "cluster/net/parameter_reply.h"

#include <string>

#include "cluster/net/bulk.h"

namespace penstock::cluster {

float* Places::of(std::uint32_t variable, std::uint64_t count) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  if (taker_ == nullptr || count > kMost)
    throw Error(ErrorCode::mismatch, "a parameter server answers with values of variable " +
                                         std::to_string(variable) + " that was not requested");
  const auto [at, is_new] = places_.try_emplace({variable, count}, nullptr);
  if (is_new) at->second = taker_->place(variable, count);
  return at->second;
}

Reading read_answer(Messages& messages, wire::Answer& answer, Places& places) {
  grpc::ByteBuffer message;
  if (!messages.read(message)) return Reading::broken;
  Incoming incoming;
  if (!incoming.begin(message, answer)) return Reading::odd;
  for (const wire::Item& item : answer.items()) {
    if (item.sparse() || item.rows() > 0) return Reading::odd;
    incoming.expect(places.of(item.variable(), item.count()), item.count() * sizeof(float));
  }
  if (!incoming.put_rest()) return Reading::odd;
  while (!incoming.complete()) {
    message.Clear();
    if (!messages.read(message)) return Reading::broken;
    if (!incoming.put(message)) return Reading::odd;
  }
  return Reading::whole;
}

}  // namespace penstock::cluster
