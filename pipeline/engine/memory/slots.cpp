#include "pipeline/engine/memory/slots.h"

#include <algorithm>
#include <cstring>

#include <penstock/internal/slow_work.h>

#include "pipeline/core/sizes.h"

namespace penstock {
namespace {

constexpr std::size_t kTextBytes = sizeof(std::string_view) + sizeof(BufferPtr);

}  // namespace

SlotLayout::SlotLayout(const Spec& element_spec, std::int64_t batch_rows, std::int64_t spare)
    : element(element_spec),
      names(element_spec.names()),
      rows(batch_rows),
      room(batch_rows + spare) {
  const auto count = static_cast<std::uint64_t>(room);
  for (const ComponentSpec& component : element) {
    const bool text = component.dtype == DType::bytes;
    offsets.push_back(bytes);
    strides.push_back(text ? 0 : bytes_of(component.dtype, component.shape));
    bytes = saturating_sum(bytes, saturating_product(text ? kTextBytes : strides.back(), count));
    bytes = saturating_sum(bytes, Allocator::kAlignment - 1) / Allocator::kAlignment *
            Allocator::kAlignment;
  }
  bytes =
      bytes > PTRDIFF_MAX || rows > kMostRows ? SIZE_MAX : std::max(bytes, Allocator::kAlignment);
}

Slot::Slot(const SlotLayout& layout, Allocator& allocator, HeldBytes* held)
    : layout_(layout), allocator_(allocator), mark_(layout.bytes, held, true) {
  slow_work("a slot is allocated");
  const auto rows = static_cast<std::size_t>(layout.room);
  for (const ComponentSpec& component : layout.element) {
    const bool text = component.dtype == DType::bytes;
    texts_.emplace_back(text ? rows : 0);
    owners_.emplace_back(text ? rows : 0);
  }
  bases_.resize(layout.element.size());
  // Nothing may throw once the memory is allocated.
  columns_.reserve(layout.element.size());
  data_ = allocator.allocate(layout.bytes);
  size_ = layout.bytes;
  for (std::size_t c = 0; c < bases_.size(); ++c) {
    const ComponentSpec& component = layout.element[c];
    if (component.dtype != DType::bytes) bases_[c] = data_ + layout.offsets[c];
    columns_.push_back({component.dtype, component.shape, bases_[c], layout.strides[c],
                        texts_[c].data(), owners_[c].data()});
  }
}

Slot::~Slot() {
  slow_work("a slot is freed");
  allocator_.deallocate(data_, size_);
}

Status Slot::misfit(const Element& element) const {
  return Status(ErrorCode::mismatch,
                "the element does not fit the batch: " + layout_.element.mismatch(element));
}

Element Slot::columns(std::size_t row, std::size_t rows) const {
  Element element;
  element.start(layout_.names);
  for (const Column& column : columns_) {
    element.append(column.dtype, column.shape.prepend(static_cast<std::int64_t>(rows)),
                   column.base + column.stride * row, BufferPtr());
  }
  return element;
}

std::size_t Slot::store_fitting(std::span<WorkItem> work, std::size_t row) noexcept {
  const Names* const names = layout_.names;
  const Column* const begin = columns_.data();
  const Column* const end = begin + columns_.size();
  std::size_t done = 0;
  for (WorkItem& item : work) {
    if (!item.status.ok() || item.element.names() != names) return done;
    std::size_t c = 0;
    for (const Column* column = begin; column != end; ++column, ++c) {
      Tensor& tensor = item.element[c];
      if (tensor.dtype() != column->dtype || !tensor.contiguous() ||
          !(tensor.shape() == column->shape)) {
        return done;
      }
      if (column->base == nullptr) {
        const std::string_view text = *reinterpret_cast<const std::string_view*>(tensor.data());
        if (!tensor.owner() && !text.empty()) return done;
        column->texts[row + done] = text;
        column->owners[row + done] = tensor.release_owner();
        continue;
      }
      std::byte* const place = column->base + column->stride * (row + done);
      const std::byte* const data = tensor.data();
      if (data == place) continue;
      if (column->stride == sizeof(std::uint64_t)) {
        std::memcpy(place, data, sizeof(std::uint64_t));
      } else {
        std::memcpy(place, data, column->stride);
      }
    }
    ++done;
  }
  return done;
}

Status Slot::store(WorkItem& item, std::size_t row, ReadContext& memory) {
  if (item.element.names() != layout_.names && !layout_.element.mismatch(item.element).empty()) {
    return misfit(item.element);
  }
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    const Tensor& tensor = item.element[c];
    if (tensor.dtype() != column.dtype || !(tensor.shape() == column.shape)) {
      return misfit(item.element);
    }
    if (column.base != nullptr) {
      std::byte* const place = column.base + column.stride * row;
      if (tensor.data() != place) tensor.copy_to(place);
      continue;
    }
    std::string_view text = tensor.bytes_at(0);
    BufferPtr owner = tensor.owner();
    // The memory belongs to other code, which may free it before the batch is gone.
    if (!owner && !text.empty()) {
      owner = memory.allocate(text.size());
      std::memcpy(owner->data(), text.data(), text.size());
      text = {reinterpret_cast<const char*>(owner->data()), text.size()};
    }
    column.texts[row] = text;
    column.owners[row] = std::move(owner);
  }
  return {};
}

void Slot::clear_row(std::size_t row) noexcept {
  for (std::size_t c = 0; c < bases_.size(); ++c) {
    if (bases_[c] == nullptr) owners_[c][row] = {};
  }
}

void Slot::move_row(std::size_t to, Slot& from_slot, std::size_t from) {
  for (std::size_t c = 0; c < columns_.size(); ++c) move_value(c, to, from_slot, from);
}

void Slot::move_value(std::size_t c, std::size_t to, Slot& from_slot, std::size_t from) {
  const Column& source = from_slot.columns_[c];
  const Column& target = columns_[c];
  if (target.base != nullptr) {
    const std::size_t stride = target.stride;
    std::memcpy(target.base + stride * to, source.base + stride * from, stride);
  } else {
    target.texts[to] = source.texts[from];
    target.owners[to] = std::move(source.owners[from]);
  }
}

// Moves rows so that no gaps are left. REQUIRES: `order` ascends. The distance that a row moves
// never decreases along the order. So no row overwrites one that has yet to move if rows that move
// up are moved last to first, and the others first to last.
void Slot::close_gaps(std::size_t c, std::span<const std::uint32_t> order, std::size_t first) {
  if (order.front() == first && order.back() - first == order.size() - 1) return;  // the usual case
  for (std::size_t i = order.size(); i-- > 0;) {
    if (order[i] < first + i) move_value(c, first + i, *this, order[i]);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] > first + i) move_value(c, first + i, *this, order[i]);
  }
}

void Slot::permute(std::span<const std::uint32_t> order) {
  std::vector<bool> placed(static_cast<std::size_t>(layout_.room));
  std::vector<std::uint32_t> source(placed.size());
  // Rows that are not in the order (holes) go to the free places at the end.
  for (const std::uint32_t row : order) placed[row] = true;
  std::copy(order.begin(), order.end(), source.begin());
  std::size_t next = order.size();
  for (std::uint32_t row = 0; row < placed.size(); ++row) {
    if (!placed[row]) source[next++] = row;
  }
  std::vector<std::byte> spare(*std::max_element(layout_.strides.begin(), layout_.strides.end()));
  for (std::size_t c = 0; c < bases_.size(); ++c) {
    const std::size_t stride = layout_.strides[c];
    std::fill(placed.begin(), placed.end(), false);
    for (std::size_t start = 0; start < source.size(); ++start) {
      if (placed[start] || source[start] == start) continue;
      // One cycle: the first row is set aside while the others move up.
      std::string_view text;
      BufferPtr owner;
      if (bases_[c] != nullptr) {
        std::memcpy(spare.data(), bases_[c] + stride * start, stride);
      } else {
        text = texts_[c][start];
        owner = std::move(owners_[c][start]);
      }
      std::size_t to = start;
      for (; source[to] != start; to = source[to]) {
        placed[to] = true;
        move_value(c, to, *this, source[to]);
      }
      placed[to] = true;
      if (bases_[c] != nullptr) {
        std::memcpy(bases_[c] + stride * to, spare.data(), stride);
      } else {
        texts_[c][to] = text;
        owners_[c][to] = std::move(owner);
      }
    }
  }
}

namespace {

/// Returns the first row of ascending rows such that as many as possible stay where they are. A row
/// stays if it is as far behind its place in the order as the first row then is.
std::size_t best_first(std::span<const std::uint32_t> order) {
  std::size_t best = 0;
  std::size_t most = 0;
  for (std::size_t i = 0; i < order.size();) {
    const std::size_t begin = i;
    while (i < order.size() && order[i] - i == order[begin] - begin) ++i;
    if (i - begin > most) {
      most = i - begin;
      best = order[begin] - begin;
    }
  }
  return best;
}

}  // namespace

// Returns where a batch begins: only at an address that suits vector loads.
std::size_t Slot::begin_of(std::size_t c, std::size_t first) const noexcept {
  const std::size_t stride = layout_.strides[c];
  return stride > 0 && stride % Allocator::kAlignment == 0 ? first : 0;
}

Element Slot::view(std::size_t rows, std::size_t first) {
  Element element(layout_.names);
  const BufferPtr self(this);
  const auto count = static_cast<std::int64_t>(rows);
  for (std::size_t c = 0; c < bases_.size(); ++c) {
    const ComponentSpec& component = layout_.element[c];
    std::byte* data = bases_[c] != nullptr ? bases_[c] + layout_.strides[c] * begin_of(c, first)
                                           : reinterpret_cast<std::byte*>(texts_[c].data());
    element[c] = Tensor(component.dtype, component.shape.prepend(count), data, self);
  }
  element.valid_rows = count;
  made_.at_ns = now_ns();
  return element;
}

Element Slot::batch(std::size_t rows) {
  return view(rows, 0);
}

Element Slot::batch(std::span<const std::uint32_t> order) {
  std::size_t first = 0;
  if (std::is_sorted(order.begin(), order.end())) {
    first = best_first(order);
    for (std::size_t c = 0; c < bases_.size(); ++c) close_gaps(c, order, begin_of(c, first));
  } else {
    permute(order);
  }
  return view(order.size(), first);
}

void Slot::for_each_part(const std::function<void(Buffer& part)>& use) noexcept {
  for (const std::vector<BufferPtr>& owners : owners_)
    for (const BufferPtr& owner : owners)
      if (owner) use(*owner);
}

// Neighbouring texts often share a buffer.
std::uint64_t Slot::text_bytes() const noexcept {
  SharedViews views;
  std::uint64_t bytes = 0;
  const bool any = std::ranges::any_of(owners_, [](const auto& owners) { return !owners.empty(); });
  const std::size_t rows = any ? static_cast<std::size_t>(layout_.room) : 0;
  for (std::size_t row = 0; row < rows; ++row) {
    views.next();
    for (std::size_t c = 0; c < owners_.size(); ++c) {
      Buffer* const owner = row < owners_[c].size() ? owners_[c][row].get() : nullptr;
      if (owner == nullptr) continue;
      const std::string_view text = texts_[c][row];
      bytes += views.add(*owner, reinterpret_cast<const std::byte*>(text.data()), text.size());
    }
  }
  return bytes;
}

void Slot::dispose() noexcept {
  mark_.drop();
  for (std::vector<BufferPtr>& owners : owners_) {
    for (BufferPtr& owner : owners) owner = {};
  }
  const std::shared_ptr<SlotPool> pool = std::move(pool_);
  const Ref<Slot> next = std::move(next_);
  pool->give(this);
}

SlotPool::SlotPool(SlotLayout layout, std::size_t limit, std::shared_ptr<Memory> memory,
                   std::shared_ptr<Allocator> allocator, std::shared_ptr<Waker> freed)
    : layout_(std::move(layout)),
      memory_(std::move(memory)),
      held_(memory_->held().make(layout_.bytes)),
      allocator_(std::move(allocator)),
      freed_(std::move(freed)),
      limit_(limit) {}

SlotPool::~SlotPool() {
  drop_free(0);
}

SlotPool::Claim SlotPool::claim(Make make) {
  Slot* slot = nullptr;
  {
    MutexLock lock(mutex_);
    if (free_.empty()) {
      const std::size_t most = make == Make::beyond   ? SIZE_MAX
                               : make == Make::within ? limit_
                                                      : std::min<std::size_t>(limit_, 2);
      if (made_ >= most) return {};
      if (!memory_->charge_slot(layout_.bytes, made_ == 0)) return {};
      ++made_;
      return {.to_make = true};
    }
    slot = free_.back();
    free_.pop_back();
  }
  return {.slot = in_use(slot)};
}

Ref<Slot> SlotPool::make() {
  memory_->free_outgoing();
  Slot* slot = nullptr;
  try {
    slot = new Slot(layout_, allocator_ ? *allocator_ : Allocator::heap(), &held_);
    MutexLock lock(mutex_);
    free_.reserve(made_);  // returning the slot then needs no memory
  } catch (...) {
    bool first = false;
    {
      MutexLock lock(mutex_);
      first = --made_ == 0;
    }
    destroy(slot, first);
    throw;
  }
  return in_use(slot);
}

Ref<Slot> SlotPool::in_use(Slot* slot) noexcept {
  slot->made_.of = static_cast<int>(limit());
  slot->made_.begun_ns = Slot::now_ns();
  slot->pool_ = shared_from_this();
  return Ref<Slot>(slot);
}

std::size_t SlotPool::widen(std::size_t most) {
  constexpr auto kWhile = std::chrono::milliseconds(50);
  const auto now = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  const std::size_t before = limit_;
  if (before >= most || made_ < limit_ || now - widened_ < kWhile) return 0;
  if (memory_->room() < layout_.bytes) return 0;
  widened_ = now;
  limit_ = std::min(most, 2 * limit_);
  return before;
}

bool SlotPool::add_one(std::size_t most) {
  MutexLock lock(mutex_);
  if (limit_ >= most || made_ < limit_ || memory_->room() < layout_.bytes) return false;
  ++limit_;
  return true;
}

void SlotPool::narrow(std::size_t most) {
  MutexLock lock(mutex_);
  limit_ = std::min(limit_, most);
}

bool SlotPool::drop_free(std::size_t left) noexcept {
  for (bool dropped = false;; dropped = true) {
    Slot* slot = nullptr;
    bool first = false;
    {
      MutexLock lock(mutex_);
      if (free_.empty() || made_ <= left) return dropped;
      slot = free_.back();
      free_.pop_back();
      first = --made_ == 0;
    }
    destroy(slot, first);
  }
}

// Called without the lock, as memory that devices can read takes long to free.
void SlotPool::destroy(Slot* slot, bool first) noexcept {
  delete slot;
  memory_->discharge_slot(layout_.bytes, first);
}

std::size_t SlotPool::limit() const {
  MutexLock lock(mutex_);
  return limit_;
}

void SlotPool::give(Slot* slot) noexcept {
  bool too_many = false;
  bool first = false;
  bool worthwhile = true;
  {
    MutexLock lock(mutex_);
    too_many = made_ > limit_;
    if (too_many)
      first = --made_ == 0;
    else
      free_.push_back(slot);
    worthwhile = 2 * free_.size() >= limit_;
  }
  if (too_many) destroy(slot, first);
  freed_->notify_if(worthwhile);
}

}  // namespace penstock
