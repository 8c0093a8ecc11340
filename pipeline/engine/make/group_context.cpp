#include "pipeline/engine/make/group_context.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "pipeline/core/sizes.h"

namespace penstock {
namespace {

/// Returns a text as --memory accepts it, rounded up.
std::string in_mebibytes(std::uint64_t bytes) {
  constexpr std::uint64_t kMebibyte = 1 << 20;
  return std::to_string(bytes / kMebibyte + (bytes % kMebibyte > 0 ? 1 : 0)) + "MiB";
}

}  // namespace

void GroupContext::promise_of(GroupContext& group, std::uint64_t bytes) noexcept {
  const std::uint64_t taken = std::min(bytes, group.promised_);
  group.promised_ -= taken;
  promised_ += taken;
}

void GroupContext::absorb(GroupContext& part) {
  promised_ += std::exchange(part.promised_, 0);
  blocked_ = std::max(blocked_, part.blocked_);
  allocated_ += part.allocated_;
  std::move(part.read_parts.begin(), part.read_parts.end(), std::back_inserter(read_parts));
}

BufferPtr GroupContext::allocate(std::size_t bytes) {
  BufferPtr buffer = memory_.allocate(bytes, promised_);
  if (!buffer) {
    blocked_ = std::max<std::uint64_t>(blocked_, bytes);
    throw no_room("needs " + std::to_string(bytes) + " bytes", Memory::rounded(bytes));
  }
  allocated_ += Memory::rounded(bytes);  // whatever the size of the actual buffer
  return buffer;
}

void GroupContext::note_records(const BufferPtr& buffer, std::span<const std::size_t> ends) {
  if (HeldMark* const mark = buffer ? buffer->held_mark() : nullptr) mark->add_records(ends);
}

// Only the limit and the slots decide whether there can ever be room, not the present use by other
// work. The error concerns the element alone, and says how much it takes in all.
void GroupContext::take(std::uint64_t bytes) {
  const std::uint64_t beside = memory_.beside_slots();
  const std::uint64_t all = saturating_sum(allocated_, bytes);
  if (bytes <= beside && memory_.charge(bytes, promised_)) {
    codecs_ += bytes;
    if (HeldBytes* const holder = memory_.held().here()) holder->add(bytes);
    allocated_ = all;
    return;
  }
  blocked_ = std::max(blocked_, bytes <= beside ? bytes : UINT64_MAX);
  throw no_room("needs " + std::to_string(bytes) + " bytes to decode", bytes);
}

// An element that is made alone takes these bytes beside what is in use now: batches, and values
// that stages keep. One that takes more than there can ever be fails at once, whatever is in use.
Error GroupContext::no_room(const std::string& needs, std::uint64_t bytes) const {
  const std::uint64_t limit = memory_.limit();
  const std::uint64_t beside = memory_.beside_slots();
  const std::uint64_t in_use = limit - memory_.room() - promised_;
  std::uint64_t least = saturating_sum(limit - beside, saturating_sum(allocated_, bytes));
  if (bytes <= beside) least = std::max(least, saturating_sum(in_use, bytes));
  return {ErrorCode::resource_exhausted,
          needs + ", but the memory budget of " + std::to_string(limit) +
              " has no room for them; raise it to at least --memory " + in_mebibytes(least)};
}

void GroupContext::give(std::uint64_t bytes) noexcept {
  bytes = std::min(bytes, codecs_);
  if (bytes == 0) return;
  codecs_ -= bytes;
  if (HeldBytes* const holder = memory_.held().here()) holder->take_off(bytes);
  memory_.discharge(bytes);
}

void GroupContext::end_codecs() noexcept {
  give(codecs_);
}

void GroupContext::note_views(const Element& element) {
  for (std::size_t i = 0; i < element.size(); ++i) {
    const BufferPtr& owner = element[i].owner();
    if (!owner || owner->mapping() == nullptr) continue;
    // Most elements view the file that the element before them views.
    if (std::find(views_.rbegin(), views_.rend(), owner) == views_.rend()) views_.push_back(owner);
  }
}

}  // namespace penstock
