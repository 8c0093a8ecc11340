#include "pipeline/stage/element_ref.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/stage/held_values.h"

namespace penstock {

/// A pool of unused payloads. Never destroyed, so that elements may outlive all other objects. Each
/// thread has a few of them at hand, so that threads seldom wait for each other.
class PayloadPool {
 public:
  static Payload* take() {
    AtHand& mine = at_hand();
    if (mine.count == 0) instance().fill(mine);
    return mine.count > 0 ? mine.payloads[--mine.count] : new Payload;
  }

  static void give(Payload* payload) noexcept {
    payload->element.clear();
    payload->element.valid_rows = -1;
    payload->status = Status();
    payload->keep = true;
    payload->ends = false;
    payload->origin = {};
    payload->shard.reset();
    payload->children.clear();
    // A window or a padded batch may have had millions.
    if (payload->children.capacity() > kMostChildren) payload->children.shrink_to_fit();
    if (payload->charged_.load(std::memory_order_relaxed)) {
      if (PayloadCharges* const charge = std::exchange(payload->charge, nullptr)) charge->give();
      payload->charged_.store(false, std::memory_order_relaxed);
    }
    AtHand& mine = at_hand();
    mine.payloads[mine.count++] = payload;
    if (mine.count >= mine.most) instance().drain(mine);
  }

 private:
  static constexpr std::size_t kKept = 16384;
  static constexpr std::size_t kAtHand = 32;
  static constexpr std::size_t kMostChildren = 16;  // that an unused payload keeps room for

  struct AtHand {
    std::array<Payload*, kAtHand> payloads;
    std::size_t count;
    std::size_t most;
  };
  // Payloads may be released after this thread's other objects have gone.
  static_assert(std::is_trivially_destructible_v<AtHand>);

  PayloadPool() { free_.reserve(kKept); }

  static PayloadPool& instance() {
    static PayloadPool* pool = new PayloadPool;  // leaked on purpose
    return *pool;
  }

  static AtHand& at_hand() {
    struct Owner {
      AtHand& mine;
      ~Owner() {
        mine.most = 0;
        instance().drain(mine);
      }
    };
    static thread_local AtHand mine{{}, 0, kAtHand};
    static thread_local const Owner owner{mine};
    return mine;
  }

  void fill(AtHand& mine) {
    const MutexLock lock(mutex_);
    const std::size_t wanted = std::max<std::size_t>(1, mine.most / 2);
    for (; mine.count < wanted && !free_.empty(); free_.pop_back())
      mine.payloads[mine.count++] = free_.back();
  }

  void drain(AtHand& mine) noexcept {
    const std::size_t left = mine.most / 2;
    {
      const MutexLock lock(mutex_);
      while (mine.count > left && free_.size() < kKept)
        free_.push_back(mine.payloads[--mine.count]);
    }
    while (mine.count > left) delete mine.payloads[--mine.count];
  }

  Mutex mutex_;
  std::vector<Payload*> free_ GUARDED_BY(mutex_);
};

Ref<Payload> Payload::make() {
  return Ref<Payload>(PayloadPool::take());
}

Ref<Payload> Payload::make(Element element) {
  Ref<Payload> payload = make();
  payload->element = std::move(element);
  return payload;
}

Ref<Payload> Payload::make(Status status) {
  Ref<Payload> payload = make();
  payload->status = std::move(status);
  return payload;
}

void Payload::release() noexcept {
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) PayloadPool::give(this);
}

}  // namespace penstock
