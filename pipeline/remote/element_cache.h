// A cache of elements that a worker made and that other runs of the same graph will request.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <penstock/element.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock::remote {

/// A hash, in 128 bits, of everything that an element is a function of. It is XXH3 with a seed that
/// is drawn once for each process, so that no run can forge two inputs with the same key.
struct ElementKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const ElementKey&, const ElementKey&) = default;
};
ElementKey element_key(const void* bytes, std::size_t count) noexcept;

/// An element in memory of its own, or the result that the element was dropped.
struct KeptElement {
  BufferPtr memory;  ///< holds the element and its charge
  Element element;
  bool keep = true;
  std::int64_t key = 0;
};
using KeptPtr = std::shared_ptr<const KeptElement>;

/// A receiver of elements that other runs make.
class KeptWaiter {
 public:
  virtual ~KeptWaiter() = default;
  /// The element `item` is made. If `kept` is null, its maker failed, and the receiver must request
  /// it again. Called once for each awaited element, by the maker's thread and without a lock.
  virtual void told(std::size_t item, KeptPtr kept) noexcept = 0;
};

/// A cache of elements. The run that requests an element first makes it, while other runs wait for
/// it. The element is then kept for runs that come later.
///
/// When there is no room, elements that all runs of their graph have received are evicted first. If
/// there are none, new elements are not kept, so that a slower run still finds the old ones. This
/// lasts until four times as many new elements came as the cache holds; old elements are evicted
/// then, since no run is likely to request them. Thread-safe.
class ElementCache {
 public:
  /// Makes a cache of at most `limit` bytes. They include the cost of finding elements, and
  /// elements that were evicted but are still on their way to a run.
  explicit ElementCache(std::uint64_t limit);
  ~ElementCache();

  /// Registers a run of `graph` and returns the number that its elements are found by. Elements are
  /// kept as long as some run of their graph is registered.
  std::uint64_t join(ElementKey graph) EXCLUDES(mutex_);
  void leave(std::uint64_t graph) noexcept EXCLUDES(mutex_);

  enum class Found : std::uint8_t {
    kept,    ///< it is in the cache
    mine,    ///< the caller must make it, and then call `give` or `fail`
    others,  ///< another run makes it: the waiter will be told
  };
  struct Answer {
    Found found = Found::mine;
    KeptPtr kept;
  };
  /// Looks for the elements `keys[items[i]]`; the waiter is told `items[i]`. If this throws
  /// (std::bad_alloc), it has requested nothing.
  std::vector<Answer> look(std::uint64_t graph, std::span<const ElementKey> keys,
                           std::span<const std::uint32_t> items,
                           const std::shared_ptr<KeptWaiter>& waiter) EXCLUDES(mutex_);
  /// Ends a request that was answered with `mine`: the element is made. Runs that wait for it get
  /// it, and it is kept if there is room.
  void give(std::uint64_t graph, const ElementKey& key, const Element& element, bool keep,
            std::int64_t order_key) noexcept EXCLUDES(mutex_);
  /// Ends such a request without an element. Runs that wait for it request it again.
  void fail(std::uint64_t graph, const ElementKey& key) noexcept EXCLUDES(mutex_);
  /// Stops waiting for an element that another run makes. The waiter may still be told of it during
  /// this call.
  void forget(std::uint64_t graph, const ElementKey& key, const KeptWaiter& waiter) noexcept
      EXCLUDES(mutex_);

  struct Figures {
    std::uint64_t hits = 0;    ///< found, or made while a run waited
    std::uint64_t misses = 0;  ///< had to be made
    std::uint64_t evicted = 0;
    std::uint64_t bytes = 0;  ///< now
    std::uint64_t most_bytes = 0;
  };
  Figures figures() const noexcept;

 private:
  struct Id {
    ElementKey key;
    std::uint64_t graph = 0;
    friend bool operator==(const Id&, const Id&) = default;
  };
  struct Hash {
    std::size_t operator()(const Id& id) const noexcept { return id.key.low ^ id.graph; }
  };
  struct Waiting {
    std::shared_ptr<KeptWaiter> who;
    std::size_t item = 0;
  };
  struct Entry;
  using Entries = std::unordered_map<Id, Entry, Hash>;
  using Order = std::list<Entries::value_type*>;
  struct Entry {
    KeptPtr kept;  // null while it is being made
    std::vector<Waiting> waiting;
    std::uint32_t taken = 0;  // number of runs that received it
    std::uint64_t came = 0;   // its number among all elements that came
    Order* in = nullptr;      // making_, wanted_ or had_
    Order::iterator at;       // its place in that list
  };
  struct Graph {
    ElementKey key;
    std::uint32_t runs = 0;
  };
  /// The bytes that elements take. Elements may outlive the cache.
  struct Account {
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> most{0};
    bool take(std::uint64_t count, std::uint64_t limit) noexcept;
  };
  class Memory;

  bool make_room(std::uint64_t bytes, bool must) noexcept REQUIRES(mutex_);
  bool evict(Order& order) noexcept REQUIRES(mutex_);
  void put(Entry& entry, Order& order) noexcept REQUIRES(mutex_);
  void place(Entries::value_type& entry) noexcept REQUIRES(mutex_);
  void sort_again(std::uint64_t graph) noexcept REQUIRES(mutex_);
  void erase(Entries::iterator entry) noexcept REQUIRES(mutex_);
  KeptPtr copy(const Element& element, std::uint64_t charged, bool keep,
               std::int64_t order_key) const;

  const std::uint64_t limit_;
  const std::shared_ptr<Account> account_;
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> misses_{0};
  std::atomic<std::uint64_t> evicted_{0};
  mutable Mutex mutex_;
  Entries entries_ GUARDED_BY(mutex_);
  Order making_ GUARDED_BY(mutex_);
  Order wanted_ GUARDED_BY(mutex_);  // some run has not received these; oldest first
  Order had_ GUARDED_BY(mutex_);     // all runs have received these
  std::uint64_t came_ GUARDED_BY(mutex_) = 0;
  std::uint64_t next_graph_ GUARDED_BY(mutex_) = 1;
  std::map<std::uint64_t, Graph> graphs_ GUARDED_BY(mutex_);
};

}  // namespace penstock::remote
