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
  std::array<ElementRef, kBlock> dropped;
  std::uint64_t done = 0;
  // A block of values may take more memory than there is.
  for (std::size_t block = 1; done < count;) {
    const std::size_t pulled = pull({dropped.data(), std::min<std::uint64_t>(count - done, block)});
    if (pulled == 0) break;
    done += pulled;
    block = kBlock;
    for (std::size_t i = 0; i < pulled; ++i) {
      if (const Error* const error = run_error(dropped[i])) throw Error(*error);
      if (dropped[i].payload) block = 1;
      dropped[i] = ElementRef();
    }
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
