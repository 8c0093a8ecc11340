#include "pipeline/stage/counters.h"

#include <algorithm>

#include "pipeline/core/sizes.h"

namespace penstock {

namespace {

thread_local bool may_wait = false;

}  // namespace

void this_thread_may_wait() noexcept {
  may_wait = true;
}

void add_counters(StageCounters* counters, std::uint64_t items, std::uint64_t bytes,
                  std::uint64_t busy_ns) noexcept {
  if (counters == nullptr) return;
  counters->items.fetch_add(items, std::memory_order_relaxed);
  counters->bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (busy_ns == 0) return;
  counters->busy_ns.fetch_add(busy_ns, std::memory_order_relaxed);
  if (may_wait) counters->apart_ns.fetch_add(busy_ns, std::memory_order_relaxed);
}

std::uint64_t payload_bytes(const Element& element, std::size_t components) noexcept {
  std::uint64_t total = 0;
  const std::size_t end = std::min(components, element.size());
  for (std::size_t i = 0; i < end; ++i) {
    const Tensor& tensor = element[i];
    if (tensor.dtype() == DType::bytes) {
      if (!tensor.contiguous()) continue;  // counting its texts is not worth the effort
      const auto* const texts = reinterpret_cast<const std::string_view*>(tensor.data());
      const std::int64_t count = tensor.volume();
      for (std::int64_t k = 0; k < count; ++k) total += texts[k].size();
    } else {
      total += tensor.nbytes();
    }
  }
  return total;
}

std::int64_t fixed_payload_bytes(const Spec& spec) {
  if (!spec.is_fixed_size()) return -1;
  std::uint64_t total = 0;
  for (const ComponentSpec& component : spec) {
    const auto values = static_cast<std::uint64_t>(component.shape.volume());
    total = saturating_sum(total, saturating_product(values, size_of(component.dtype)));
  }
  return total > INT64_MAX ? -1 : static_cast<std::int64_t>(total);
}

}  // namespace penstock
