#include "towers/strategies/own_sum.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <penstock/error.h>
#include <penstock/towers/peers.h>

#include "towers/tree_sum.h"

namespace penstock::towers {
namespace {

/// Divides parameters into buckets, from the last to the first, in the order of backward passes.
std::vector<OwnBucket> buckets_of(std::span<const OwnParameter> parameters, std::size_t bytes) {
  std::vector<OwnBucket> buckets;
  std::size_t in_bucket = 0;
  for (std::size_t p = parameters.size(); p-- > 0;) {
    const std::size_t mine = bytes_of(parameters[p]);
    if (!buckets.empty() && in_bucket + mine <= bytes &&
        parameters[p].dtype == parameters[p + 1].dtype) {
      buckets.back().first = p;
      in_bucket += mine;
    } else {
      buckets.push_back({p, p + 1});
      in_bucket = mine;
    }
  }
  return buckets;
}

/// Returns text such as "f32 [3,4]".
std::string form_of(const OwnParameter& parameter) {
  return std::string(name_of(parameter.dtype)) + " " + parameter.shape.to_string();
}

/// Checks that all towers have the same parameters, and that these can be exchanged.
void check(std::span<const OwnTower> towers, const ParameterExchangeOptions& options) {
  if (towers.empty()) refuse_exchange("there is no tower");
  if (options.peers != nullptr && !options.peers->any_order() &&
      !std::has_single_bit(towers.size()))
    refuse_exchange(std::to_string(towers.size()) +
                    " towers in each process can't be added up in order: it takes a power of two");
  const std::vector<OwnParameter>& first = towers[0].parameters;
  for (std::size_t t = 0; t < towers.size(); ++t) {
    const std::vector<OwnParameter>& mine = towers[t].parameters;
    const std::string tower = "tower " + std::to_string(t);
    if (mine.size() != first.size())
      refuse_exchange(tower + " has " + std::to_string(mine.size()) + " parameters, tower 0 has " +
                      std::to_string(first.size()));
    for (std::size_t p = 0; p < mine.size(); ++p) {
      const std::string& name = mine[p].name;
      if (mine[p].dtype != DType::f32 && mine[p].dtype != DType::f64)
        refuse_exchange("parameter " + name + " is " + form_of(mine[p]) +
                        "; f32 and f64 can be added up");
      if (!mine[p].shape.is_static())
        refuse_exchange("parameter " + name + " has no definite shape");
      if (mine[p].gradient == nullptr && bytes_of(mine[p]) > 0)
        refuse_exchange("parameter " + name + " has no gradient on " + tower);
      if (name != first[p].name || form_of(mine[p]) != form_of(first[p]))
        refuse_exchange(tower + " has " + name + ", " + form_of(mine[p]) + ", where tower 0 has " +
                        first[p].name + ", " + form_of(first[p]));
    }
  }
}

/// Returns the weight of one tower's gradient of a parameter; 0: it does not count. `rows` holds,
/// for each tower of all processes, the number of rows that its gradient is the mean over; 0: no
/// gradient.
double weight_of(std::span<const std::int64_t> rows, std::size_t tower, Combine combine) {
  if (rows[tower] <= 0) return 0;
  double all = 0;
  int count = 0;
  for (const std::int64_t of_tower : rows) {
    if (of_tower <= 0) continue;
    all += static_cast<double>(of_tower);
    ++count;
  }
  return combine == Combine::average && count > 1 ? static_cast<double>(rows[tower]) / all : 1;
}

template <typename T>
void add_up_weighted(std::span<T* const> parts, std::span<const double> weights,
                     std::size_t count) {
  constexpr std::size_t kBlock = 4096;  // fits in the first-level cache
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t end = std::min(at + kBlock, count);
    for (std::size_t t = 0; t < parts.size(); ++t) {
      const T weight = static_cast<T>(weights[t]);
      for (std::size_t i = at; i < end && weight != 1; ++i)
        parts[t][i] = weight == 0 ? 0 : parts[t][i] * weight;
    }
    sum_by_tree<T>(parts, at, end);
  }
}

}  // namespace

void refuse_exchange(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "exchange of gradients: " + why);
}

OwnSum::OwnSum(std::vector<OwnTower> towers, const ParameterExchangeOptions& options)
    : options_(options),
      parameters_((check(towers, options), towers[0].parameters)),
      buckets_(buckets_of(parameters_, options.bucket_bytes)) {
  for (OwnTower& tower : towers) gradients_.emplace_back(std::move(tower), buckets_);
  compare_with_peers();
}

void OwnSum::share_values() {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    std::vector<std::byte> value(bytes_of(parameters_[p]));
    for (const OwnGradients& tower : gradients_)
      if (tower.parameters()[p].value == nullptr && !value.empty())
        refuse_exchange("parameter " + parameters_[p].name + " has no value to share");
    gradients_[0].read_value(p, value);
    if (options_.peers != nullptr) {
      std::vector<std::byte> all(value.size() * static_cast<std::size_t>(options_.peers->size()));
      options_.peers->gather_between_towers(value, all);
      std::copy_n(all.begin(), value.size(), value.begin());  // rank 0's
    }
    for (const OwnGradients& tower : gradients_) tower.write_value(p, value);
  }
}

/// Compares the settings that must be equal in all processes, by a hash of them.
void OwnSum::compare_with_peers() const {
  if (options_.peers == nullptr) return;
  std::string text =
      std::to_string(options_.bucket_bytes) + " " + std::to_string(gradients_.size());
  for (const OwnParameter& parameter : parameters_)
    text += "\n" + parameter.name + " " + form_of(parameter);
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(options_.peers->size()));
  options_.peers->gather_between_towers(std::as_bytes(std::span(&hash, 1)),
                                        std::as_writable_bytes(std::span(all)));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      refuse_exchange("rank " + std::to_string(rank) +
                      " has other parameters, towers or buckets than rank 0");
}

std::vector<char> OwnSum::add_up(std::size_t bucket, std::span<const std::int64_t> rows) {
  const OwnBucket& mine = buckets_[bucket];
  const std::vector<std::vector<std::int64_t>> of_all = with_peers(mine, rows);
  std::vector<char> found;
  for (const std::vector<std::int64_t>& of_towers : of_all)
    found.push_back(std::ranges::any_of(of_towers, [](std::int64_t n) { return n > 0; }) ? 1 : 0);
  if (!adds()) return found;
  for (OwnGradients& tower : gradients_) tower.fetch(bucket);
  if (parameters_[mine.first].dtype == DType::f32) {
    add_up<float>(mine, of_all, found);
  } else {
    add_up<double>(mine, of_all, found);
  }
  for (OwnGradients& tower : gradients_) tower.give(bucket);
  return found;
}

template <typename T>
void OwnSum::add_up(const OwnBucket& bucket, const std::vector<std::vector<std::int64_t>>& rows,
                    const std::vector<char>& found) {
  Peers* const peers = options_.peers;
  const std::size_t mine_from =
      peers == nullptr ? 0 : static_cast<std::size_t>(peers->rank()) * gradients_.size();
  std::vector<T> packed;  // for peers, so that each bucket is one message
  std::vector<T*> parts(gradients_.size());
  std::vector<double> weights(gradients_.size());
  for (std::size_t p = bucket.first; p < bucket.last; ++p) {
    if (found[p - bucket.first] == 0) continue;
    const auto count = static_cast<std::size_t>(parameters_[p].shape.volume());
    for (std::size_t t = 0; t < parts.size(); ++t) {
      parts[t] = static_cast<T*>(gradients_[t].on_host(p));
      weights[t] = weight_of(rows[p - bucket.first], mine_from + t, options_.combine);
    }
    add_up_weighted<T>(parts, weights, count);
    if (peers != nullptr) {
      packed.insert(packed.end(), parts[0], parts[0] + count);
    } else {
      for (std::size_t t = 1; t < parts.size(); ++t) std::copy_n(parts[0], count, parts[t]);
    }
  }
  if (peers == nullptr) return;
  add_peers(std::span(packed));
  const T* from = packed.data();
  for (std::size_t p = bucket.first; p < bucket.last; ++p) {
    if (found[p - bucket.first] == 0) continue;
    const auto count = static_cast<std::size_t>(parameters_[p].shape.volume());
    for (const OwnGradients& tower : gradients_)
      std::copy_n(from, count, static_cast<T*>(tower.on_host(p)));
    from += count;
  }
}

void OwnSum::add_peers(std::span<float> values) const {
  options_.peers->sum(values);
}

/// Peers add up f32 only. So each process gathers all values, piece by piece, and adds them up
/// itself by the same rule.
void OwnSum::add_peers(std::span<double> values) const {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  const auto ranks = static_cast<std::size_t>(options_.peers->size());
  for (std::size_t at = 0; at < values.size(); at += kPiece) {
    const std::span<double> piece = values.subspan(at, std::min(kPiece, values.size() - at));
    std::vector<double> all(piece.size() * ranks);
    options_.peers->gather(std::as_bytes(piece), std::as_writable_bytes(std::span(all)));
    std::vector<double*> parts;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      parts.push_back(all.data() + rank * piece.size());
    sum_by_tree<double>(parts, 0, piece.size());
    std::ranges::copy(std::span(all).first(piece.size()), piece.begin());
  }
}

/// Returns the rows of each parameter of the bucket, on each tower of all processes.
std::vector<std::vector<std::int64_t>> OwnSum::with_peers(
    const OwnBucket& bucket, std::span<const std::int64_t> rows) const {
  const std::size_t parameters = bucket.last - bucket.first;
  std::vector<std::int64_t> all(rows.begin(), rows.end());
  std::size_t processes = 1;
  if (options_.peers != nullptr) {
    processes = static_cast<std::size_t>(options_.peers->size());
    all.resize(rows.size() * processes);
    options_.peers->gather(std::as_bytes(rows), std::as_writable_bytes(std::span(all)));
  }
  const std::size_t towers = gradients_.size();
  std::vector<std::vector<std::int64_t>> of_all(parameters);
  for (std::size_t p = 0; p < parameters; ++p)
    for (std::size_t process = 0; process < processes; ++process)
      for (std::size_t t = 0; t < towers; ++t)
        of_all[p].push_back(all[(process * parameters + p) * towers + t]);
  return of_all;
}

}  // namespace penstock::towers
