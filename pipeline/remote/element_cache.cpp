#include "pipeline/remote/element_cache.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock::remote {
namespace {

/// The memory that an element takes in addition to its values: nodes of the map and of the list,
/// and the element itself.
constexpr std::uint64_t kOverhead = 512;
/// An element is old once this many times as many elements came as the cache holds, and no run
/// requested it.
constexpr std::uint64_t kOld = 4;

std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + Allocator::kAlignment - 1) / Allocator::kAlignment * Allocator::kAlignment;
}

/// Returns the bytes of the values that lie in one buffer: numbers, and byte strings that are a
/// component by themselves.
std::size_t column_bytes(const Element& element) noexcept {
  std::size_t bytes = 0;
  for (std::size_t c = 0; c < element.size(); ++c) {
    const Tensor& tensor = element[c];
    if (tensor.dtype() != DType::bytes) bytes += aligned(tensor.nbytes());
    if (tensor.dtype() == DType::bytes && tensor.rank() == 0)
      bytes += aligned(tensor.bytes_at().size());
  }
  return bytes;
}

std::uint64_t charge_for(const Element& element) noexcept {
  std::uint64_t apart = 0;  // byte strings in components of several, with a view of each
  for (std::size_t c = 0; c < element.size(); ++c) {
    const Tensor& tensor = element[c];
    if (tensor.dtype() != DType::bytes || tensor.rank() == 0) continue;
    if (!tensor.contiguous()) return UINT64_MAX;  // there is never room for it
    const auto* const texts = reinterpret_cast<const std::string_view*>(tensor.data());
    for (const std::string_view text : std::span(texts, static_cast<std::size_t>(tensor.volume())))
      apart += sizeof text + text.size();
  }
  return column_bytes(element) + apart + kOverhead;
}

}  // namespace

ElementKey element_key(const void* bytes, std::size_t count) noexcept {
  static const std::uint64_t seed = [] {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
  }();
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, count, seed);
  return {hash.low64, hash.high64};
}

bool ElementCache::Account::take(std::uint64_t count, std::uint64_t limit) noexcept {
  std::uint64_t now = bytes.load(std::memory_order_relaxed);
  do {
    if (count > limit || now > limit - count) return false;
  } while (!bytes.compare_exchange_weak(now, now + count, std::memory_order_relaxed));
  std::uint64_t seen = most.load(std::memory_order_relaxed);
  while (seen < now + count &&
         !most.compare_exchange_weak(seen, now + count, std::memory_order_relaxed)) {
  }
  return true;
}

/// The memory of one element. When it ends, the whole charge of the element is returned.
class ElementCache::Memory final : public Buffer {
 public:
  Memory(std::shared_ptr<Account> account, std::uint64_t charged, std::size_t bytes)
      : account_(std::move(account)), charged_(charged) {
    if (bytes > 0) data_ = Allocator::heap().allocate(bytes);
    size_ = bytes;
  }
  ~Memory() override {
    if (data_ != nullptr) Allocator::heap().deallocate(data_, size_);
    account_->bytes.fetch_sub(charged_, std::memory_order_relaxed);
  }

 private:
  void dispose() noexcept override { delete this; }

  const std::shared_ptr<Account> account_;
  const std::uint64_t charged_;
};

ElementCache::ElementCache(std::uint64_t limit)
    : limit_(limit), account_(std::make_shared<Account>()) {}

ElementCache::~ElementCache() = default;

std::uint64_t ElementCache::join(ElementKey graph) {
  MutexLock lock(mutex_);
  for (auto& [number, known] : graphs_) {
    if (!(known.key == graph)) continue;
    ++known.runs;
    sort_again(number);
    return number;
  }
  graphs_.emplace(next_graph_, Graph{graph, 1});
  return next_graph_++;
}

void ElementCache::leave(std::uint64_t graph) noexcept {
  MutexLock lock(mutex_);
  const auto known = graphs_.find(graph);
  if (--known->second.runs > 0) return sort_again(graph);
  graphs_.erase(known);
  for (Order* order : {&wanted_, &had_}) {
    for (auto at = order->begin(); at != order->end();) {
      const Id id = (*at)->first;
      ++at;
      if (id.graph == graph) erase(entries_.find(id));
    }
  }
}

// With more or fewer runs, other elements are those that all runs have received.
void ElementCache::sort_again(std::uint64_t graph) noexcept {
  Order all;
  all.splice(all.end(), wanted_);
  all.splice(all.end(), had_);
  all.sort([](const auto* a, const auto* b) { return a->second.came < b->second.came; });
  while (!all.empty()) {
    Entries::value_type& entry = *all.front();
    Order& to = entry.second.in == &had_ ? had_ : wanted_;
    to.splice(to.end(), all, all.begin());
    if (entry.first.graph == graph) place(entry);
  }
}

void ElementCache::put(Entry& entry, Order& order) noexcept {
  order.splice(order.end(), *entry.in, entry.at);
  entry.in = &order;
}

void ElementCache::place(Entries::value_type& entry) noexcept {
  const std::uint32_t runs = graphs_.find(entry.first.graph)->second.runs;
  Order& order = entry.second.taken >= runs ? had_ : wanted_;
  if (entry.second.in != &order) put(entry.second, order);
}

std::vector<ElementCache::Answer> ElementCache::look(std::uint64_t graph,
                                                     std::span<const ElementKey> keys,
                                                     std::span<const std::uint32_t> items,
                                                     const std::shared_ptr<KeptWaiter>& waiter) {
  std::vector<Answer> answers(items.size());
  std::uint64_t hits = 0;
  MutexLock lock(mutex_);
  std::size_t asked = 0;
  try {
    for (; asked < items.size(); ++asked) {
      const Id id{keys[items[asked]], graph};
      auto found = entries_.find(id);
      if (found == entries_.end()) {
        making_.emplace_back();
        try {
          found = entries_.try_emplace(id).first;
        } catch (...) {
          making_.pop_back();
          throw;
        }
        making_.back() = &*found;
        found->second.in = &making_;
        found->second.at = std::prev(making_.end());
      } else if (found->second.kept) {
        answers[asked] = {Found::kept, found->second.kept};
        ++found->second.taken;
        place(*found);
        ++hits;
      } else {
        found->second.waiting.push_back({waiter, items[asked]});
        answers[asked].found = Found::others;
      }
    }
  } catch (...) {
    for (std::size_t i = 0; i < asked; ++i) {
      const auto found = entries_.find(Id{keys[items[i]], graph});
      if (answers[i].found == Found::others)
        std::erase_if(found->second.waiting,
                      [&](const Waiting& waiting) { return waiting.who == waiter; });
      if (answers[i].found == Found::mine) erase(found);
    }
    throw;
  }
  hits_.fetch_add(hits, std::memory_order_relaxed);
  misses_.fetch_add(
      static_cast<std::uint64_t>(std::ranges::count(answers, Found::mine, &Answer::found)),
      std::memory_order_relaxed);
  return answers;
}

void ElementCache::erase(Entries::iterator entry) noexcept {
  entry->second.in->erase(entry->second.at);
  entries_.erase(entry);
}

bool ElementCache::evict(Order& order) noexcept {
  if (order.empty()) return false;
  erase(entries_.find(order.front()->first));
  evicted_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool ElementCache::make_room(std::uint64_t bytes, bool must) noexcept {
  while (!account_->take(bytes, limit_)) {
    if (bytes > limit_) return false;
    if (evict(had_)) continue;
    if (wanted_.empty()) return false;
    if (!must && came_ - wanted_.front()->second.came < kOld * wanted_.size()) return false;
    evict(wanted_);
  }
  return true;
}

void ElementCache::give(std::uint64_t graph, const ElementKey& key, const Element& element,
                        bool keep, std::int64_t order_key) noexcept {
  const Id id{key, graph};
  KeptPtr kept;
  const std::uint64_t charged = charge_for(element);
  bool room = false;
  {
    MutexLock lock(mutex_);
    ++came_;
    room = make_room(charged, !entries_.find(id)->second.waiting.empty());
  }
  try {
    if (room) kept = copy(element, charged, keep, order_key);
  } catch (...) {
    // If there is no memory, the element is not kept.
  }
  std::vector<Waiting> waiting;
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(id);
    waiting.swap(found->second.waiting);
    if (kept) {
      found->second.kept = kept;
      found->second.came = came_;
      found->second.taken = static_cast<std::uint32_t>(1 + waiting.size());
      hits_.fetch_add(waiting.size(), std::memory_order_relaxed);
      place(*found);
    } else {
      erase(found);
    }
  }
  for (const Waiting& one : waiting) one.who->told(one.item, kept);
}

void ElementCache::fail(std::uint64_t graph, const ElementKey& key) noexcept {
  std::vector<Waiting> waiting;
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(Id{key, graph});
    waiting.swap(found->second.waiting);
    erase(found);
  }
  for (const Waiting& one : waiting) one.who->told(one.item, nullptr);
}

void ElementCache::forget(std::uint64_t graph, const ElementKey& key,
                          const KeptWaiter& waiter) noexcept {
  std::vector<Waiting> gone;  // destroying these may destroy the waiter
  MutexLock lock(mutex_);
  const auto found = entries_.find(Id{key, graph});
  if (found == entries_.end()) return;
  std::erase_if(found->second.waiting,
                [&](const Waiting& waiting) { return waiting.who.get() == &waiter; });
}

ElementCache::Figures ElementCache::figures() const noexcept {
  return {.hits = hits_.load(std::memory_order_relaxed),
          .misses = misses_.load(std::memory_order_relaxed),
          .evicted = evicted_.load(std::memory_order_relaxed),
          .bytes = account_->bytes.load(std::memory_order_relaxed),
          .most_bytes = account_->most.load(std::memory_order_relaxed)};
}

// The charge was taken from the account. The end of the element returns it.
KeptPtr ElementCache::copy(const Element& element, std::uint64_t charged, bool keep,
                           std::int64_t order_key) const {
  BufferPtr memory;
  try {
    memory = BufferPtr(new Memory(account_, charged, column_bytes(element)));
  } catch (...) {
    account_->bytes.fetch_sub(charged, std::memory_order_relaxed);
    throw;
  }
  auto kept = std::make_shared<KeptElement>();
  kept->memory = std::move(memory);
  kept->keep = keep;
  kept->key = order_key;
  if (element.names() != nullptr) kept->element.start(element.names());
  std::byte* to = kept->memory->data();
  for (std::size_t c = 0; c < element.size(); ++c) {
    const Tensor& from = element[c];
    if (from.dtype() != DType::bytes) {
      from.copy_to(to);
      kept->element.append(from.dtype(), from.shape(), to, kept->memory);
      to += aligned(from.nbytes());
    } else if (from.rank() == 0) {
      const std::string_view text = from.bytes_at();
      if (!text.empty()) std::memcpy(to, text.data(), text.size());
      kept->element.append(
          Tensor::bytes({reinterpret_cast<const char*>(to), text.size()}, kept->memory));
      to += aligned(text.size());
    } else {
      std::vector<std::string_view> all;
      for (std::int64_t i = 0; i < from.volume(); ++i) all.push_back(from.bytes_at(i));
      kept->element.append(Tensor::of_bytes(all).reshape(from.shape()));
    }
  }
  kept->element.valid_rows = element.valid_rows;
  return kept;
}

}  // namespace penstock::remote
