#include "pipeline/engine/memory/memory.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include <penstock/internal/slow_work.h>
#include <penstock/plan.h>

namespace penstock {

class Memory::PoolBuffer final : public Buffer {
 public:
  PoolBuffer(std::byte* data, int wanted)
      : size_class(wanted), mark(charge_of(class_bytes(wanted))) {
    data_ = data;
    size_ = class_bytes(wanted);
  }
  std::uint64_t charge() const noexcept { return charge_of(size_); }
  ~PoolBuffer() override = default;
  HeldMark* held_mark() noexcept override { return &mark; }
  void dispose() noexcept override {
    mark.drop();
    mark.drop_records();
    const std::shared_ptr<Memory> memory = std::move(owner);
    memory->give(this);
  }

  const int size_class;
  HeldMark mark;
  std::shared_ptr<Memory> owner;  // set while in use
  PoolBuffer* next = nullptr;     // in the list of those to be freed
};

class Memory::Charge final : public Buffer {
 public:
  Charge(std::shared_ptr<Memory> memory, std::uint64_t bytes)
      : memory_(std::move(memory)), bytes_(bytes), holder_(memory_->held().here_or_elsewhere()) {
    holder_.add(bytes_);
  }
  ~Charge() override {
    holder_.take_off(bytes_);
    memory_->discharge(bytes_);
  }
  void dispose() noexcept override { delete this; }

 private:
  const std::shared_ptr<Memory> memory_;
  const std::uint64_t bytes_;
  HeldBytes& holder_;
};

thread_local Memory::Attempt* Memory::Attempt::current = nullptr;

Memory::Attempt::Attempt(Memory& memory)
    : memory_(memory),
      lock_(memory.attempts_),
      seen_(memory.releases()),
      outer_(std::exchange(current, this)) {}

Memory::Attempt::~Attempt() {
  current = outer_;
  if (succeeded_ && released_) memory_.wake();
}

Memory::~Memory() {
  free_outgoing();
  for (std::vector<PoolBuffer*>& buffers : free_) {
    for (PoolBuffer* buffer : buffers) {
      allocator_.deallocate(buffer->data(), buffer->size());
      delete buffer;
    }
  }
}

// Wastes at most an eighth.
int Memory::size_class(std::size_t bytes) noexcept {
  const std::size_t last = std::max(bytes, kLeast) - 1;
  const int doubling = static_cast<int>(std::bit_width(last)) - 1;
  return doubling * kClassesToADoubling + static_cast<int>((last >> (doubling - 3)) & 7);
}

std::size_t Memory::class_bytes(int size_class) noexcept {
  const int doubling = size_class / kClassesToADoubling;
  return (std::size_t{1} << doubling) +
         ((static_cast<std::size_t>(size_class % kClassesToADoubling) + 1) << (doubling - 3));
}

std::uint64_t Memory::used() const {
  MutexLock lock(mutex_);
  return live_ + std::max(reserved_, idle_);
}

std::uint64_t Memory::peak() const {
  MutexLock lock(mutex_);
  return peak_;
}

std::uint64_t Memory::room() const {
  MutexLock lock(mutex_);
  return limit_ - live_ - reserved_;
}

bool Memory::reserve(std::uint64_t bytes, bool ahead) {
  MutexLock lock(mutex_);
  const std::uint64_t room = limit_ - live_ - reserved_;
  const std::uint64_t left =
      ahead ? BudgetShares::left_by_reads(limit_ - first_slots_ - more_slots_) : 0;
  if (bytes > room || left > room - bytes) return false;
  reserved_ += bytes;
  return true;
}

void Memory::note_release() noexcept {
  if (Attempt* const own = Attempt::current; own != nullptr && &own->memory_ == this) {
    own->released_ = true;
    return;
  }
  releases_.store(releases() + 1, std::memory_order_release);  // under the mutex
  released_.notify_all();
}

void Memory::unreserve(std::uint64_t bytes) {
  if (bytes == 0) return;
  MutexLock lock(mutex_);
  reserved_ -= bytes;
  note_release();
}

void Memory::set_least_slots(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  least_slots_ = std::min(bytes, limit_);
}

std::uint64_t Memory::beside_slots() const {
  MutexLock lock(mutex_);
  return limit_ - least_slots_;
}

bool Memory::take_room(std::uint64_t bytes, std::uint64_t beside) {
  const std::uint64_t room = limit_ - live_ - reserved_;
  if (beside > room || bytes > room - beside) return false;
  trim(bytes);
  live_ += bytes;
  peak_ = std::max(peak_, live_ + idle_);
  return true;
}

bool Memory::charge_slot(std::uint64_t bytes, bool first) {
  MutexLock lock(mutex_);
  if (!take_room(bytes, 0)) return false;
  (first ? first_slots_ : more_slots_) += bytes;
  return true;
}

void Memory::discharge_slot(std::uint64_t bytes, bool first) {
  MutexLock lock(mutex_);
  (first ? first_slots_ : more_slots_) -= bytes;
  live_ -= bytes;
  note_release();
}

bool Memory::charge(std::uint64_t bytes) {
  std::uint64_t none = 0;
  return charge(bytes, none);
}

bool Memory::charge(std::uint64_t bytes, std::uint64_t& promised) {
  {
    MutexLock lock(mutex_);
    const std::uint64_t from_promise = std::min(promised, bytes);
    reserved_ -= from_promise;
    if (!take_room(bytes, least_slots_ - std::min(least_slots_, first_slots_))) {
      reserved_ += from_promise;
      scarce_ = true;
      return false;
    }
    promised -= from_promise;
  }
  free_outgoing();
  return true;
}

void Memory::be_exact() {
  MutexLock lock(mutex_);
  scarce_ = true;
}

bool Memory::scarce() const {
  MutexLock lock(mutex_);
  return scarce_;
}

void Memory::discharge(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  live_ -= bytes;
  note_release();
}

BufferPtr Memory::charged(std::uint64_t bytes) {
  if (!charge(bytes)) return {};
  try {
    return BufferPtr(new Charge(shared_from_this(), bytes));
  } catch (...) {
    discharge(bytes);
    throw;
  }
}

BufferPtr Memory::allocate(std::size_t bytes, std::uint64_t& promised, bool exact) {
  if (bytes > limit_) {  // it may have no size class
    MutexLock lock(mutex_);
    scarce_ = true;
    return {};
  }
  const int wanted = size_class(bytes);
  const std::size_t size = class_bytes(wanted);
  const std::uint64_t charge = charge_of(size);
  PoolBuffer* buffer = nullptr;
  {
    MutexLock lock(mutex_);
    const std::uint64_t from_promise = std::min(promised, charge);
    if (charge - from_promise > limit_ - live_ - reserved_) {
      scarce_ = true;
      return {};
    }
    promised -= from_promise;
    reserved_ -= from_promise;
    if (free_.size() <= static_cast<std::size_t>(wanted)) {
      free_.resize(static_cast<std::size_t>(wanted) + 1);
    }
    buffer = take_idle(wanted, exact || scarce_);
    if (buffer == nullptr) trim(charge);
    live_ += buffer != nullptr ? buffer->charge() : charge;
    peak_ = std::max(peak_, live_ + idle_);
  }
  if (buffer == nullptr) {
    free_outgoing();
    slow_work("memory of a batch is allocated");
    std::byte* data = nullptr;
    try {
      data = allocator_.allocate(size);
      buffer = new PoolBuffer(data, wanted);
    } catch (...) {
      if (data != nullptr) allocator_.deallocate(data, size);
      discharge(charge);
      throw;
    }
  }
  buffer->owner = shared_from_this();
  if (HeldBytes* const holder = held_.here()) buffer->mark.hold(*holder);
  return BufferPtr(buffer);
}

Error Memory::no_room_for(std::size_t bytes) const {
  return {ErrorCode::resource_exhausted, "needs " + std::to_string(bytes) +
                                             " bytes, but the memory budget of " +
                                             std::to_string(limit_) + " has no room for them"};
}

// Takes the smallest idle buffer that is large enough, of at most twice the size. So rarely
// requested sizes do not all get buffers of their own over time. If memory is scarce, no request
// takes more than its size, because another request may need just that buffer.
Memory::PoolBuffer* Memory::take_idle(int wanted, bool exact) noexcept {
  const int most = exact ? wanted : wanted + kClassesToADoubling;
  const auto end = std::min(free_.size(), static_cast<std::size_t>(most) + 1);
  for (auto i = static_cast<std::size_t>(wanted); i < end; ++i) {
    if (free_[i].empty()) continue;
    PoolBuffer* const buffer = free_[i].back();
    if (buffer->charge() > limit_ - live_ - reserved_) return nullptr;
    free_[i].pop_back();
    idle_ -= buffer->charge();
    return buffer;
  }
  return nullptr;
}

void Memory::give(PoolBuffer* buffer) noexcept {
  MutexLock lock(mutex_);
  live_ -= buffer->charge();
  try {
    free_[static_cast<std::size_t>(buffer->size_class)].push_back(buffer);
    idle_ += buffer->charge();
  } catch (...) {
    put_outgoing(buffer);
  }
  note_release();
}

void Memory::put_outgoing(PoolBuffer* buffer) noexcept {
  buffer->next = std::exchange(outgoing_, buffer);
}

void Memory::free_outgoing() noexcept {
  PoolBuffer* first = nullptr;
  {
    MutexLock lock(mutex_);
    first = std::exchange(outgoing_, nullptr);
  }
  if (first != nullptr) slow_work("memory of batches is freed");
  while (PoolBuffer* const buffer = first) {
    first = buffer->next;
    allocator_.deallocate(buffer->data(), buffer->size());
    delete buffer;
  }
}

// Takes out idle buffers, the largest first, until `wanted` more bytes fit.
void Memory::trim(std::uint64_t wanted) {
  for (std::size_t i = free_.size(); i > 0 && live_ + idle_ + wanted > limit_; --i) {
    std::vector<PoolBuffer*>& free = free_[i - 1];
    while (!free.empty() && live_ + idle_ + wanted > limit_) {
      PoolBuffer* buffer = free.back();
      free.pop_back();
      idle_ -= buffer->charge();
      put_outgoing(buffer);
    }
  }
}

void Memory::wait_for_release(std::uint64_t seen) {
  constexpr auto kMost = std::chrono::milliseconds(100);
  MutexLock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + kMost;
  while (releases() == seen) {
    if (!released_.wait_until(mutex_, deadline)) return;
  }
}

void Memory::wake() {
  MutexLock lock(mutex_);
  note_release();
}

}  // namespace penstock
