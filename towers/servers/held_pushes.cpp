#include "towers/servers/held_pushes.h"

#include <algorithm>
#include <string>

#include <penstock/error.h>

#include "towers/strategies/contributions.h"
#include "towers/train/updater.h"

namespace penstock::towers {

HeldPushes::HeldPushes(const Shard& shard, Combine combine)
    : shard_(shard),
      combine_(combine),
      combined_(shard.size()),
      table_values_(shard.size()),
      table_rows_(shard.size()) {}

std::vector<HeldPushes::HeldPtr>::const_iterator HeldPushes::find(int replica,
                                                                  std::uint64_t number) const {
  return std::ranges::find_if(held_, [&](const HeldPtr& held) {
    return held->replica == replica && held->number == number;
  });
}

bool HeldPushes::has(int replica, std::uint64_t number) const {
  return find(replica, number) != held_.end();
}

void HeldPushes::keep(const Push& push) {
  if (is_combined_) return;
  drop(push.replica, push.number);
  if (free_.empty()) free_.push_back(std::make_unique<Held>());
  Held& held = *free_.back();
  held.replica = push.replica;
  held.number = push.number;
  held.rows = push.rows;
  held.values.resize(shard_.size());
  for (Values& one : held.values) one.there = false;
  for (const Piece& piece : push.pieces) {
    const std::size_t index = shard_.index_of(piece.variable);
    Values& to = held.values[index];
    // A batch without rows has no gradients, but it has statistics.
    to.there = push.rows > 0 || !shard_.variable(index).trainable;
    to.values.assign(piece.values, piece.values + piece.count);
    if (piece.rows != nullptr) to.rows.assign(piece.rows, piece.rows + piece.row_count);
  }
  held_.push_back(std::move(free_.back()));
  free_.pop_back();
}

void HeldPushes::drop(int replica, std::uint64_t number) {
  const auto found = find(replica, number);
  if (found == held_.end() || is_combined_) return;
  const auto at = held_.begin() + (found - held_.cbegin());
  free_.push_back(std::move(*at));
  held_.erase(at);
}

void HeldPushes::clear() {
  for (HeldPtr& held : held_) free_.push_back(std::move(held));
  held_.clear();
  is_combined_ = false;
}

void HeldPushes::combine(const std::vector<Contribution>& contributions) {
  if (is_combined_) return;
  std::vector<Held*> of;
  for (const Contribution& one : contributions) {
    const auto found = find(one.replica, one.number);
    if (found == held_.end())
      throw Error(ErrorCode::internal, "push " + std::to_string(one.number) + " of replica " +
                                           std::to_string(one.replica) + " is not here");
    of.push_back(found->get());
  }
  for (std::size_t index = 0; index < shard_.size(); ++index) {
    combined_[index].reset();
    if (!shard_.variable(index).trainable) {
      // As in strategies where all towers have their own values: the first replica's are kept.
      const auto first =
          std::ranges::find_if(of, [&](const Held* h) { return h->values[index].there; });
      if (first == of.end()) continue;
      Values& values = (*first)->values[index];
      combined_[index] = {values.values.data(), values.values.size(), nullptr};
    } else if (shard_.by_rows(index)) {
      combine_rows(index, of);
    } else {
      combine_dense(index, of);
    }
  }
  is_combined_ = true;
}

void HeldPushes::combine_dense(std::size_t index, const std::vector<Held*>& of) {
  const std::size_t count = shard_.variable(index).value.size();
  std::vector<PushedGradient> gradients;
  for (Held* held : of) {
    Values& values = held->values[index];
    values.values.resize(count);
    gradients.push_back({held->rows, values.values.data(), values.there});
  }
  if (add_up_pushed(gradients, count, combine_))
    combined_[index] = {gradients.front().values, count, nullptr};
}

// Rows that only some replicas pushed count as zeros of the others, as if all had pushed the whole
// table.
void HeldPushes::combine_rows(std::size_t index, const std::vector<Held*>& of) {
  std::vector<std::int64_t>& all = table_rows_[index];
  all.clear();
  for (const Held* held : of)
    if (held->values[index].there)
      all.insert(all.end(), held->values[index].rows.begin(), held->values[index].rows.end());
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  const auto size = static_cast<std::size_t>(shard_.variable(index).value.row_size());
  const std::size_t count = all.size() * size;
  std::vector<float>& memory = table_values_[index];
  memory.assign(count * of.size(), 0.0F);
  std::vector<PushedGradient> gradients;
  for (std::size_t p = 0; p < of.size(); ++p) {
    const Values& values = of[p]->values[index];
    float* const to = memory.data() + p * count;
    gradients.push_back({of[p]->rows, to, values.there});
    if (!values.there) continue;
    std::size_t at = 0;
    for (std::size_t r = 0; r < values.rows.size(); ++r) {
      while (all[at] != values.rows[r]) ++at;
      std::copy_n(values.values.data() + r * size, size, to + at * size);
    }
  }
  if (add_up_pushed(gradients, count, combine_)) combined_[index] = {memory.data(), count, &all};
}

std::vector<SquareSum> HeldPushes::squares() const {
  std::vector<SquareSum> sums;
  for (std::size_t index = 0; index < combined_.size(); ++index)
    if (combined_[index] && shard_.variable(index).trainable)
      sums.push_back({shard_.number(index),
                      sum_of_squares({combined_[index]->values, combined_[index]->count})});
  return sums;
}

void HeldPushes::apply(Shard& shard, float scale) {
  for (std::size_t index = 0; index < combined_.size(); ++index) {
    if (!combined_[index]) continue;
    const Combined& one = *combined_[index];
    if (scale != 1 && shard.variable(index).trainable)
      for (float& value : std::span(one.values, one.count)) value *= scale;
    Piece piece{shard.number(index), one.values, one.count, nullptr, 0};
    if (one.rows != nullptr) {
      piece.rows = one.rows->data();
      piece.row_count = one.rows->size();
    }
    shard.apply(piece);
  }
}

}  // namespace penstock::towers
