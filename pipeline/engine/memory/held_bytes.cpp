#include "pipeline/engine/memory/held_bytes.h"

#include <algorithm>
#include <string_view>

#include "pipeline/engine/memory/memory.h"

namespace penstock {

thread_local HeldBytes* HeldBytes::Here::current = nullptr;

void HeldBytes::raise(std::uint64_t bytes) noexcept {
  std::uint64_t most = most_.load(std::memory_order_relaxed);
  do {
    if (bytes <= most) return;
  } while (!most_.compare_exchange_weak(most, bytes, std::memory_order_acq_rel));
  run_.grew_.store(true, std::memory_order_release);
}

void HeldMark::add_records(std::span<const std::size_t> ends) {
  if (!ends_.empty() && (ends.empty() || ends.front() <= ends_.back())) return;
  ends_.insert(ends_.end(), ends.begin(), ends.end());
}

void HeldMark::hold_first(HeldBytes& holder) noexcept {
  HeldBytes& by = always_ != nullptr ? *always_ : holder;
  HeldBytes* none = nullptr;
  if (!holder_.compare_exchange_strong(none, &by, std::memory_order_acq_rel)) return;
  const std::uint64_t bytes = std::max(bytes_, views_.load(std::memory_order_relaxed));
  counted_.fetch_add(bytes, std::memory_order_acq_rel);
  by.add(bytes);
}

std::uint64_t HeldMark::drop() noexcept {
  views_.store(0, std::memory_order_relaxed);
  HeldBytes* const holder = holder_.exchange(nullptr, std::memory_order_acq_rel);
  if (holder == nullptr) return 0;
  const std::uint64_t counted = counted_.exchange(0, std::memory_order_acq_rel);
  holder->take_off(counted);
  return counted;
}

std::uint64_t HeldMark::drop_view(std::uint64_t bytes) noexcept {
  HeldBytes* const holder = holder_.load(std::memory_order_acquire);
  if (holder == nullptr || views_.load(std::memory_order_relaxed) == 0) return 0;
  std::uint64_t counted = counted_.load(std::memory_order_relaxed);
  std::uint64_t dropped = 0;
  do {
    dropped = std::min(bytes, counted);
  } while (!counted_.compare_exchange_weak(counted, counted - dropped, std::memory_order_acq_rel));
  holder->take_off(dropped);
  return dropped;
}

HeldBytes& HeldBytesOfRun::make(std::uint64_t free) {
  MutexLock lock(mutex_);
  return parts_.emplace_back(*this, free);
}

bool HeldBytesOfRun::exceeds(std::uint64_t most) noexcept {
  grew_.store(false, std::memory_order_seq_cst);
  std::uint64_t sum = 0;
  MutexLock lock(mutex_);
  for (const HeldBytes& part : parts_) {
    const std::uint64_t bytes = part.most_.load(std::memory_order_seq_cst);
    sum += bytes - std::min(bytes, part.free_);
  }
  return sum > most;
}

void HeldBytesOfRun::restart() noexcept {
  MutexLock lock(mutex_);
  for (HeldBytes& part : parts_)
    part.most_.store(part.now_.load(std::memory_order_acquire), std::memory_order_release);
  grew_.store(true, std::memory_order_release);
}

std::uint64_t SharedViews::add_far(Buffer& buffer, std::size_t byte, std::size_t bytes) noexcept {
  if (&buffer != last_) {
    last_ = &buffer;
    const HeldMark* const mark = buffer.held_mark();
    records_ = mark != nullptr ? mark->records() : std::span<const std::size_t>();
  }
  // An empty text may lie behind the last byte of its record.
  if (find(byte) || (bytes == 0 && byte > 0 && find(byte - 1))) {
    counted_ = true;
    return rounded(end_ - begin_);
  }
  return rounded(buffer.unique() ? buffer.size() : bytes);
}

bool SharedViews::find(std::size_t byte) noexcept {
  begin_ = end_ = 0;
  const auto behind = std::upper_bound(records_.begin(), records_.end(), byte);
  near_ = static_cast<std::size_t>(behind - records_.begin());
  if (behind == records_.end()) return false;
  begin_ = near_ > 0 ? records_[near_ - 1] : 0;
  end_ = *behind;
  return true;
}

std::uint64_t SharedViews::round(std::size_t size) noexcept {
  size_ = size;
  return rounded_ = Memory::rounded(size);
}

namespace {

/// Returns where a tensor's bytes are, as far as one view tells.
std::span<const std::byte> bytes_viewed(const Tensor& tensor) noexcept {
  if (tensor.dtype() != DType::bytes || !tensor.contiguous() || tensor.volume() == 0)
    return {tensor.data(), tensor.nbytes()};
  const auto* const texts = reinterpret_cast<const std::string_view*>(tensor.data());
  std::size_t bytes = 0;
  for (std::int64_t i = 0; i < tensor.volume(); ++i) bytes += texts[i].size();
  return {reinterpret_cast<const std::byte*>(texts->data()), bytes};
}

/// Sums up the views of neighbouring elements that share a buffer.
template <typename Use>
class ViewsOfBuffers {
 public:
  explicit ViewsOfBuffers(Use use) : use_(use) {}
  void next() noexcept { views_.next(); }
  void add(const Tensor& tensor) noexcept {
    Buffer* const buffer = tensor.owner().get();
    if (buffer != last_) {
      end();
      last_ = buffer;
    }
    const std::span<const std::byte> viewed = bytes_viewed(tensor);
    bytes_ += views_.add(*buffer, viewed.data(), viewed.size());
  }
  void end() noexcept {
    HeldMark* const mark = last_ != nullptr ? last_->held_mark() : nullptr;
    if (mark != nullptr) use_(*mark, bytes_);
    bytes_ = 0;
  }

 private:
  Use use_;
  Buffer* last_ = nullptr;
  SharedViews views_;
  std::uint64_t bytes_ = 0;
};

void hold(Buffer& buffer, HeldBytes& holder) noexcept {
  HeldMark* const mark = buffer.held_mark();
  if (mark != nullptr) mark->hold(holder);
  if (mark == nullptr || mark->has_parts())
    buffer.for_each_part([&](Buffer& part) { hold(part, holder); });
}

std::uint64_t drop(Buffer& buffer) noexcept {
  if (!buffer.unique()) return 0;
  HeldMark* const mark = buffer.held_mark();
  std::uint64_t bytes = mark != nullptr ? mark->drop() : 0;
  if (mark == nullptr || mark->has_parts())
    buffer.for_each_part([&](Buffer& part) { bytes += drop(part); });
  return bytes;
}

template <typename Views>
std::uint64_t take(const ElementRef& item, Views& shared) noexcept {
  if (!item.payload || !item.payload->unique()) return 0;
  std::uint64_t bytes = 0;
  shared.next();
  const Element& element = item.payload->element;
  for (std::size_t i = 0; i < element.size(); ++i) {
    const BufferPtr& buffer = element[i].owner();
    if (!buffer) continue;
    if (buffer->unique()) {
      bytes += drop(*buffer);
    } else {
      shared.add(element[i]);
    }
  }
  for (const ElementRef& child : item.payload->children) bytes += take(child, shared);
  return bytes;
}

}  // namespace

void note_views(std::span<const WorkItem> work) noexcept {
  ViewsOfBuffers shared([](HeldMark& mark, std::uint64_t bytes) { mark.add_views(bytes); });
  for (const WorkItem& item : work) {
    shared.next();
    for (std::size_t i = 0; i < item.element.size(); ++i) {
      const BufferPtr& buffer = item.element[i].owner();
      if (buffer && !buffer->unique()) shared.add(item.element[i]);
    }
  }
  shared.end();
}

void hold(const ElementRef& item, HeldBytes& holder) noexcept {
  if (!item.payload) return;
  const Element& element = item.payload->element;
  for (std::size_t i = 0; i < element.size(); ++i)
    if (Buffer* const buffer = element[i].owner().get()) hold(*buffer, holder);
  for (const ElementRef& child : item.payload->children) hold(child, holder);
}

std::uint64_t take_from_holder(std::span<const ElementRef> items) noexcept {
  std::uint64_t bytes = 0;
  ViewsOfBuffers shared(
      [&](HeldMark& mark, std::uint64_t views) { bytes += mark.drop_view(views); });
  for (const ElementRef& item : items) bytes += take(item, shared);
  shared.end();
  return bytes;
}

}  // namespace penstock
