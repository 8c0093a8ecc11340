// A model of the memory budget (docs/budget.md): a run that makes one element at a time, and what
// it holds meanwhile. It uses none of the engine's code.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace penstock::test::serial {

/// The bytes that are held now, and the most so far.
struct Account {
  std::uint64_t held = 0;
  std::uint64_t most = 0;
};

/// Returns what memory of so many bytes counts.
inline std::uint64_t rounded(std::uint64_t bytes) {
  bytes = std::max<std::uint64_t>(bytes, 128);
  const std::uint64_t step = std::bit_floor(bytes - 1) / 8;
  bytes = (bytes + step - 1) / step * step;
  return bytes < 1024 ? std::min<std::uint64_t>(bytes + 128, 1024) : bytes;
}

/// Bytes that count as long as this exists. Of those that share `count`, one is free if that began
/// with 0.
class Held {
 public:
  Held(Account& account, std::uint64_t bytes,
       std::shared_ptr<std::size_t> count = std::make_shared<std::size_t>(1))
      : account_(account), bytes_(bytes), count_(std::move(count)) {
    if ((*count_)++ > 0) account.held += bytes;
    account.most = std::max(account.most, account.held);
  }
  ~Held() {
    if (--*count_ > 0) account_.held -= bytes_;
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  Account& account_;
  const std::uint64_t bytes_;
  const std::shared_ptr<std::size_t> count_;
};
using Memory = std::shared_ptr<const Held>;

inline Memory memory(Account& account, std::uint64_t bytes) {
  return std::make_shared<const Held>(account, rounded(bytes));
}

/// A step of an element's program. It takes memory, or makes another number that takes none.
struct Step {
  std::function<std::uint64_t(std::int64_t)> bytes{};
  bool keeps = false;  ///< the value holds the memory, and no other
  std::function<std::int64_t(std::int64_t)> number{};
};

/// A number, or several as one element, which may not be made yet.
struct Item {
  std::int64_t x = 0;
  std::vector<Step> program{};  ///< what is not done yet
  std::vector<Memory> holds{};
  std::vector<Item> parts{};
};

/// Returns the next item of an open stage; nothing at its end.
using Items = std::function<std::optional<Item>()>;
/// A stage with its inputs. Opens them once for each pass.
using Graph = std::function<Items(Account&)>;

/// Parts are made first, then copied into memory of their own unless they are in some already. An
/// element's inputs are held until it is made.
inline void make(Account& account, Item& item) {
  const Item from = item;
  for (Item& part : item.parts) make(account, part);
  if (!item.parts.empty() && item.holds.empty()) {
    item.holds = {memory(account, sizeof(item.x) * item.parts.size())};
    for (Item& part : item.parts) part.holds.clear();
  }
  for (const Step& step : std::exchange(item.program, {})) {
    if (step.number) {
      item.x = step.number(item.x);
      item.holds.clear();
      item.parts.clear();
    }
    if (!step.bytes) continue;
    Memory taken = memory(account, step.bytes(item.x));
    if (step.keeps) item.holds = {std::move(taken)};
  }
}

inline Graph numbers(std::vector<std::int64_t> values) {
  return [values](Account&) -> Items {
    return [values, at = std::size_t{0}]() mutable -> std::optional<Item> {
      if (at == values.size()) return std::nullopt;
      return Item{.x = values[at++]};
    };
  };
}

/// Changes each item.
inline Graph each(Graph input, std::function<void(Account&, Item&)> change) {
  return [input, change](Account& account) -> Items {
    return [&account, items = input(account), change] {
      std::optional<Item> item = items();
      if (item) change(account, *item);
      return item;
    };
  };
}
inline Graph map(Graph input, const Step& step) {
  return each(std::move(input), [step](Account&, Item& item) { item.program.push_back(step); });
}
/// A stage that looks at values.
inline Graph values(Graph input) {
  return each(std::move(input), make);
}
/// The items whose position and number `keep` accepts, until `ends` accepts one.
using Choice = std::function<bool(std::size_t, const Item&)>;
inline Graph choose(Graph input, Choice keep, Choice ends = {}) {
  return [input, keep, ends](Account& account) -> Items {
    return [items = input(account), keep, ends, at = std::size_t{0}]() mutable {
      for (;;) {
        std::optional<Item> item = items();
        if (!item || (ends && ends(at, *item))) return std::optional<Item>();
        if (keep(at++, *item)) return item;
      }
    };
  };
}

/// One input behind the other. Those that have ended are closed, unless `stay` is true.
inline Graph chain(std::vector<Graph> inputs, bool stay = false) {
  return [=](Account& account) -> Items {
    return [=, &account, open = std::vector<Items>(), next = std::size_t{0}]() mutable {
      for (;;) {
        if (!open.empty())
          if (std::optional<Item> item = open.back()()) return item;
        if (!stay) open.clear();
        if (next == inputs.size()) return std::optional<Item>();
        open.push_back(inputs[next++](account));
      }
    };
  };
}

/// The datasets that `inner` makes of items: `cycle` are open, and give `block` items in turn.
inline Graph interleave(Graph input, std::function<Graph(const Item&)> inner, std::size_t cycle,
                        std::size_t block) {
  return [=](Account& account) -> Items {
    return [=, &account, input = input(account), open = std::vector<Items>(cycle), ended = false,
            at = std::size_t{0}, given = std::size_t{0}]() mutable -> std::optional<Item> {
      for (std::size_t idle = 0; idle < cycle;) {
        if (!open[at] && !ended) {
          const std::optional<Item> next = input();
          ended = !next;
          if (next) open[at] = inner(*next)(account);
        }
        std::optional<Item> item = open[at] ? open[at]() : std::nullopt;
        if (!item && open[at]) {
          open[at] = {};  // the next one opens in its place
          given = 0;
          if (!ended) continue;
        }
        idle = item ? 0 : idle + 1;
        if (!item || ++given == block) {
          at = (at + 1) % cycle;
          given = 0;
        }
        if (item) return item;
      }
      return std::nullopt;
    };
  };
}

/// Items of values `stride` apart. The next one begins `shift` values later.
inline Graph window(Graph input, std::size_t size, std::size_t shift, std::size_t stride = 1) {
  return [=](Account& account) -> Items {
    return [=, items = values(input)(account), kept = std::deque<Item>(),
            gap = std::size_t{0}]() mutable -> std::optional<Item> {
      while (kept.size() < (size - 1) * stride + 1) {
        std::optional<Item> item = items();
        if (!item) break;
        if (gap == 0) kept.push_back(std::move(*item));
        gap -= gap > 0 ? 1 : 0;
      }
      if (kept.empty()) return std::nullopt;
      Item made;
      for (std::size_t i = 0; i < kept.size() && made.parts.size() < size; i += stride)
        made.parts.push_back(kept[i]);
      gap = shift > kept.size() ? shift - kept.size() : 0;
      kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(shift - gap));
      return made;
    };
  };
}

/// Items of values with one key. `fits` tells whether so many, the largest of which is `most`, may
/// be one item. They leave in rounds of `towers`.
inline Graph group(Graph input, std::function<std::int64_t(std::int64_t)> key,
                   std::function<bool(std::int64_t, std::size_t count, std::int64_t most)> fits,
                   std::size_t towers = 1) {
  return [=](Account& account) -> Items {
    return [=, items = values(input)(account), open = std::map<std::int64_t, std::vector<Item>>(),
            done = std::deque<Item>()]() mutable -> std::optional<Item> {
      const auto close = [&](std::vector<Item>& parts) {
        for (std::size_t left = towers; left > 0; --left) {
          const auto end =
              parts.begin() + static_cast<std::ptrdiff_t>((parts.size() + left - 1) / left);
          Item& made = done.emplace_back();
          made.parts.assign(std::make_move_iterator(parts.begin()), std::make_move_iterator(end));
          parts.erase(parts.begin(), end);
        }
      };
      while (done.empty()) {
        std::optional<Item> item = items();
        if (!item) {
          for (auto& [k, parts] : open)
            if (parts.size() >= towers) close(parts);
          open.clear();
          if (done.empty()) return std::nullopt;
          break;
        }
        const std::int64_t k = key(item->x);
        std::vector<Item>& parts = open[k];
        std::int64_t most = item->x;
        for (const Item& part : parts) most = std::max(most, part.x);
        if (!fits(k, parts.size() / towers + 1, most)) close(parts);
        parts.push_back(std::move(*item));
        if (parts.size() % towers == 0 && !fits(k, parts.size() / towers + 1, most)) close(parts);
      }
      Item made = std::move(done.front());
      done.pop_front();
      return made;
    };
  };
}

/// Batches in slots, of which the plan counts one at all times. Rows are made one by one. They are
/// copied into the slot, or stay where they are, as texts do.
inline Graph batch(Graph input, std::size_t rows, std::uint64_t slot, bool texts = false) {
  return [=, slots = std::make_shared<std::size_t>(0)](Account& account) -> Items {
    return [=, &account, items = values(input)(account)]() -> std::optional<Item> {
      Item made;
      made.holds = {std::make_shared<const Held>(account, slot, slots)};
      while (made.parts.size() < rows) {
        std::optional<Item> item = items();
        if (!item) break;
        if (!texts) item->holds.clear();
        made.parts.push_back(std::move(*item));
      }
      return made.parts.empty() ? std::nullopt : std::optional(std::move(made));
    };
  };
}

/// The parts of values. Numbers are copied out of the batch, which is held up to the last one.
inline Graph unbatch(Graph input) {
  return [input](Account& account) -> Items {
    return [items = values(input)(account), batch = Item(),
            at = std::size_t{0}]() mutable -> std::optional<Item> {
      while (at == batch.parts.size()) {
        batch = Item();
        at = 0;
        std::optional<Item> next = items();
        if (!next) return std::nullopt;
        batch = std::move(*next);
      }
      return Item{.x = batch.parts[at++].x};
    };
  };
}

/// Returns the most bytes that are held while a consumer gets all items.
inline std::uint64_t most_held(const Graph& graph) {
  Account account;
  const Items items = values(graph)(account);
  while (items()) {
  }
  return account.most;
}

}  // namespace penstock::test::serial
