#include "tools/penstock/run/determinism.h"

#include "tools/penstock/report/digest.h"

namespace penstock::tool {
namespace {

std::uint64_t digest_of(const Element& element, std::size_t component) {
  Element alone{{element.name(component), element[component]}};
  alone.valid_rows = element.valid_rows;
  return Digest().add(alone);
}

/// Returns the name of the difference; nothing if both are equal.
std::optional<std::string> difference(Next& a, Next& b) {
  if (a.is_end() || b.is_end())
    return a.is_end() == b.is_end() ? std::nullopt : std::optional<std::string>("end");
  if (a.is_error() || b.is_error()) {
    const bool same =
        a.is_error() == b.is_error() && std::string(a.error().what()) == b.error().what();
    return same ? std::nullopt : std::optional<std::string>("error");
  }
  for (std::size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    const Element& longer = a->size() >= b->size() ? *a : *b;
    if (i >= a->size() || i >= b->size() || digest_of(*a, i) != digest_of(*b, i))
      return longer.name(i);
  }
  return std::nullopt;
}

DeterminismResult compare(const Dataset& dataset, const RunOptions& a, const RunOptions& b,
                          std::uint64_t limit) {
  DeterminismResult result;
  Iterator first = dataset.iterate(a);
  Iterator second = dataset.iterate(b);
  const auto ended = [&] {
    if (a.on_error == OnError::skip) result.errors = first.stats().errors.count;
    return result;
  };
  for (std::uint64_t epoch = 0, batch = 0;;) {
    Next one = first.next();
    Next two = second.next();
    if (auto what = difference(one, two)) {
      result.first = Divergence{epoch, batch, *std::move(what), ""};
      return result;
    }
    if (one.is_end()) {
      if (static_cast<int>(first.next_epoch()) + static_cast<int>(second.next_epoch()) < 2)
        return ended();
      ++epoch;
      batch = 0;
      continue;
    }
    ++batch;
    if (one.has_value()) {
      ++result.batches;
      result.elements += one->valid_rows < 0 ? 1 : static_cast<std::uint64_t>(one->valid_rows);
    } else {
      ++result.errors;
    }
    if (result.batches + result.errors == limit) return ended();
  }
}

}  // namespace

DeterminismResult check_determinism(const std::vector<Prefix>& prefixes, const RunOptions& a,
                                    const RunOptions& b, std::uint64_t limit) {
  DeterminismResult result = compare(prefixes.back().dataset, a, b, limit);
  if (!result.first) return result;
  result.first->stage = prefixes.back().stage;
  constexpr std::uint64_t kEnough = 100'000;  // elements, if the prefix has no batch
  for (const Prefix& prefix : prefixes) {
    if (!compare(prefix.dataset, a, b, limit > 0 ? limit * 1000 : kEnough).first) continue;
    result.first->stage = prefix.stage;
    break;
  }
  return result;
}

}  // namespace penstock::tool
