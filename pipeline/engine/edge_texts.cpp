// What an edge does with records that are byte strings and no more: they are read straight into
// batches.
#include <algorithm>
#include <numeric>

#include "pipeline/engine/edge.h"
#include "pipeline/order/support.h"

namespace penstock {

// What can't be read so is read as any record is, and kept until the whole group was read.
void Edge::read_texts(Group& group, std::size_t first, std::size_t count, GroupContext& context) {
  const auto start = std::chrono::steady_clock::now();
  const Program& program = *group.items.front().program;
  thread_local std::vector<std::uint64_t> indices;
  thread_local std::vector<std::size_t> left;
  std::vector<Stray> strays;
  std::uint64_t bytes = 0;
  Places(group.places).behind(first).for_each(count, [&](const Place& place) {
    indices.clear();
    left.clear();
    for (const Item& item : group.all_items().subspan(place.first, place.count)) {
      indices.push_back(item.index);
    }
    const Slot::Texts rows = place.slot->texts(place.row, place.count);
    try {
      program.source()->read_texts(indices, rows.texts, rows.owners, left, context);
    } catch (...) {  // `read`, which is asked for all of them now, says what is wrong
      left.resize(place.count);
      std::iota(left.begin(), left.end(), std::size_t{0});
    }
    for (const std::size_t k : left) {
      rows.texts[k] = {};
      strays.emplace_back().item = place.first + k;
    }
    for (const std::string_view text : rows.texts) bytes += text.size();
  });
  const auto took = std::chrono::steady_clock::now() - start;
  add_counters(program.leaf_counters(), count - strays.size(), bytes,
               static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count()));
  if (strays.empty()) return;
  for (Stray& stray : strays) {
    read_items(group.all_items().subspan(stray.item, 1), {&stray.work, 1}, {}, context);
  }
  MutexLock lock(mutex_);
  std::move(strays.begin(), strays.end(), std::back_inserter(group.strays));
}

void Edge::store_strays(Group& group) {
  std::sort(group.strays.begin(), group.strays.end(),
            [](const Stray& a, const Stray& b) { return a.item < b.item; });
  for (Stray& stray : group.strays) store(group, stray.item, {&stray.work, 1});
}

}  // namespace penstock
