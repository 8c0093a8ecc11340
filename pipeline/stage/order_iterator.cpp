#include "pipeline/stage/order_iterator.h"

#include <algorithm>
#include <array>

#include <penstock/error.h>

namespace penstock {

void OrderIterator::fetch(std::span<const std::uint64_t>, std::span<ElementRef>) {
  throw Error(ErrorCode::internal, "fetch from an iterator without positions");
}

namespace {

[[noreturn]] void behind_the_end() {
  throw Error(ErrorCode::data_loss, "the state is behind the end of the input");
}

}  // namespace

void OrderIterator::discard(std::uint64_t count) {
  if (discard_at_most(count) < count) behind_the_end();
}

std::uint64_t OrderIterator::discard_at_most(std::uint64_t count) {
  std::uint64_t done = 0;
  // One at a time: several values may take more memory than there is.
  for (; done < count; ++done) {
    ElementRef dropped;
    if (pull({&dropped, 1}) == 0) break;
    if (const Error* const error = run_error(dropped)) throw Error(*error);
  }
  return done;
}

std::uint64_t OrderIterator::passed(std::uint64_t position, std::uint64_t count,
                                    std::uint64_t size) {
  if (count > size - std::min(size, position)) behind_the_end();
  return position + count;
}

void IndexedIterator::discard(std::uint64_t count) {
  position_ = passed(position_, count, *size());
}

std::size_t IndexedIterator::pull(std::span<ElementRef> out) {
  std::array<std::uint64_t, kBlock> positions;
  const std::uint64_t end = *size();
  const std::size_t count =
      std::min<std::uint64_t>({out.size(), kBlock, end - std::min(end, position_)});
  for (std::size_t i = 0; i < count; ++i) positions[i] = position_ + i;
  if (count > 0) fetch({positions.data(), count}, out.first(count));
  position_ += count;
  return count;
}

}  // namespace penstock
