// The least budget of each stage, for a run that makes one element at a time, is what a model of
// the budget counts (docs/budget.md).
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/plan.h>

#include "pipeline/core/begin_run.h"
#include "tests/conformance/serial_model.h"
#include "tests/conformance/stages.h"
#include "tests/conformance/takes.h"
#include "tests/support/time_limit.h"

namespace penstock::test::serial {

/// Bytes between 200 and 20,000, most of them few.
std::uint64_t bytes_of(std::uint64_t seed, std::int64_t x) {
  std::uint64_t hash = (static_cast<std::uint64_t>(x) + 1 + 1000 * seed) * 0x9E3779B97F4A7C15;
  hash ^= hash >> 29;
  return 200 + hash % 200 * (hash / 1000 % 100);
}

Graph takes(Graph input, std::uint64_t seed, bool keeps) {
  return map(std::move(input),
             {.bytes = [seed](std::int64_t x) { return bytes_of(seed, x); }, .keeps = keeps});
}

bool all(std::size_t, const Item&) {
  return true;
}
std::int64_t thirds(std::int64_t x) {
  return ((x % 3) + 3) % 3;
}

/// What a stage's model knows of it: its input, the numbers that it gave in a roomy run, and the
/// bytes of its slot.
struct Given {
  Graph input;
  std::vector<std::int64_t> outputs;
  std::uint64_t slot;
};
using Model = std::function<Graph(Given)>;

Choice behind(std::size_t count) {
  return [count](std::size_t at, const Item&) { return at >= count; };
}
/// Groups of these numbers of elements, by their key.
auto sizes(std::vector<std::size_t> of_keys) {
  return [of_keys](std::int64_t key, std::size_t count, std::int64_t) {
    return count <= of_keys[static_cast<std::size_t>(key)];
  };
}
std::int64_t bucket_of(std::int64_t x) {
  return x < 3 ? 0 : x < 6 ? 1 : 2;
}

Graph take(Graph input, std::size_t count) {
  return [=](Account& account) -> Items {
    return [items = input(account), left = count]() mutable {
      return left == 0 ? std::nullopt : (--left, items());
    };
  };
}

/// Makes these numbers of the items, one after the other.
Graph draw(Graph input, std::vector<std::int64_t> outputs) {
  return [=](Account& account) -> Items {
    return [items = input(account), outputs, at = std::size_t{0}]() mutable {
      std::optional<Item> item = items();
      if (item)
        item->program.push_back({.number = [x = outputs.at(at++)](std::int64_t) { return x; }});
      return item;
    };
  };
}

/// Items in another order, of which `buffer` are held. Each is known by its first number.
Graph shuffle(Graph input, std::size_t buffer, std::vector<std::int64_t> order) {
  return [=](Account& account) -> Items {
    return [=, items = input(account), held = std::map<std::int64_t, Item>(),
            at = std::size_t{0}]() mutable -> std::optional<Item> {
      while (held.size() < buffer) {
        std::optional<Item> item = items();
        if (!item) break;
        const std::int64_t number = item->parts.empty() ? item->x : item->parts.front().x;
        held.emplace(number, std::move(*item));
      }
      if (held.empty()) return std::nullopt;
      return std::move(held.extract(order.at(at++)).mapped());
    };
  };
}

/// Batches of other sizes. Rows of one batch stay in its slot, those of several are copied.
Graph rebatch(Graph input, std::vector<std::size_t> sizes, bool drop_remainder) {
  return [=](Account& account) -> Items {
    return [=, items = values(input)(account), turn = std::size_t{0},
            rows = std::deque<Item>()]() mutable -> std::optional<Item> {
      const std::size_t wanted = sizes[turn++ % sizes.size()];
      while (rows.size() < wanted) {
        const std::optional<Item> batch = items();
        if (!batch) break;
        for (const Item& row : batch->parts) rows.push_back({.x = row.x, .holds = batch->holds});
      }
      if (rows.size() < wanted && (drop_remainder || rows.empty())) return std::nullopt;
      Item made;
      for (; made.parts.size() < wanted && !rows.empty(); rows.pop_front())
        made.parts.push_back(std::move(rows.front()));
      if (wanted > 0 && made.parts.front().holds == made.parts.back().holds)
        made.holds = made.parts.front().holds;
      return made;
    };
  };
}

/// Blocks for small things that go together.
struct Blocks {
  std::vector<Memory> blocks{};
  std::uint64_t used = 0;
  std::uint64_t left = 0;

  void add(Account& account, std::uint64_t bytes) {
    if (left < bytes) {
      left = rounded(std::max(bytes, std::clamp<std::uint64_t>(used / 8, 1 << 10, 1 << 20)));
      blocks.push_back(memory(account, left));
    }
    left -= bytes;
    used += bytes;
  }
};

/// The first pass keeps its elements in blocks, and later ones give them.
Graph cache(Graph input) {
  struct Kept {
    Blocks blocks;
    std::vector<Item> items;
    bool full = false;
  };
  return [input, kept = std::make_shared<Kept>()](Account& account) -> Items {
    if (kept->full) {
      return [kept, at = std::size_t{0}]() mutable {
        return at < kept->items.size() ? std::optional(kept->items[at++]) : std::nullopt;
      };
    }
    return [&account, kept, items = values(input)(account)] {
      std::optional<Item> item = items();
      kept->full = !item;
      if (!item) return item;
      const std::uint64_t copied =
          item->holds.empty() ? 0 : std::max<std::size_t>(1, item->parts.size()) * sizeof(item->x);
      kept->blocks.add(account, 80 + 128 + (copied + 15) / 16 * 16);
      kept->items.push_back(
          {.x = item->x, .holds = {kept->blocks.blocks.back()}, .parts = item->parts});
      return item;
    };
  };
}

Graph parts_of(const Item& item) {
  return [item](Account&) -> Items {
    return [item, at = std::size_t{0}]() mutable {
      return at < item.parts.size() ? std::optional(item.parts[at++]) : std::nullopt;
    };
  };
}

/// The numbers of elements that are distinct, in a table and blocks.
Graph unique(Graph input) {
  return [input](Account& account) -> Items {
    return [&account, items = values(input)(account), table = Memory(),
            seen = std::set<std::int64_t>(), blocks = Blocks()]() mutable {
      for (;;) {
        std::optional<Item> item = items();
        if (!item) return item;
        if (!table) table = memory(account, 32 * sizeof(void*));
        if (!seen.insert(item->x).second) continue;
        blocks.add(account, 48);
        return item;
      }
    };
  };
}

Graph passes(Given given) {
  return given.input;
}
Graph made(Given given) {
  return values(given.input);
}
Graph drawn(Given given) {
  return draw(given.input, given.outputs);
}
Graph batches(Given given) {
  return batch(given.input, 4, given.slot);
}
Graph rows(Given given) {
  return unbatch(batches(given));
}

/// The models of the stages, by their names in the suite.
const std::map<std::string, Model>& models() {
  static const std::map<std::string, Model> table{
      {"shard",
       [](Given g) { return choose(g.input, [](auto at, auto&) { return at % 3 == 1; }); }},
      {"shuffle", passes},
      {"repeat",
       [](Given g) {
         return chain({g.input, g.input});
       }},
      {"take", [](Given g) { return take(values(g.input), 7); }},
      {"skip", [](Given g) { return choose(values(g.input), behind(2)); }},
      {"take_while",
       [](Given g) {
         return choose(values(g.input), all, [](auto, auto& e) { return e.x >= 8; });
       }},
      {"filter",
       [](Given g) { return choose(values(g.input), [](auto, auto& e) { return e.x % 2 == 0; }); }},
      {"enumerate", passes},
      {"concatenate",
       [](Given g) {
         return chain({g.input, numbers({90, 91})}, true);
       }},
      {"zip", [](Given g) { return take(g.input, 9); }},
      {"interleave",
       [](Given g) {
         return interleave(
             values(g.input),
             [](const Item& e) {
               return numbers({e.x, e.x});
             },
             3, 2);
       }},
      {"flat_map",
       [](Given g) {
         return interleave(
             values(g.input), [](const Item& e) { return numbers({e.x}); }, 1, 1);
       }},
      {"flat_map of filtered batches",
       [](Given g) {
         const auto inner = [](const Item& e) {
           return choose(unbatch(window(numbers({e.x, 1}), 2, 2)), all, behind(1));
         };
         return interleave(values(g.input), inner, 1, 1);
       }},
      {"interleave of cached datasets",
       [](Given g) {
         const auto inner = [](const Item& e) {
           const Graph cached = cache(numbers({e.x}));
           return chain({cached, cached});
         };
         return interleave(values(g.input), inner, 2, 1);
       }},
      {"map", drawn},
      {"keep", passes},
      {"drop, of batches", rows},
      {"map into views", drawn},
      {"blocking map", passes},
      {"unordered map", made},
      {"batch and unbatch", rows},
      {"batch, dropping", rows},
      {"padded_batch", [](Given g) { return unbatch(window(g.input, 4, 4)); }},
      {"map of batches", rows},
      {"rebatch",
       [](Given g) {
         return unbatch(rebatch(batches(g), {3, 0, 2}, false));
       }},
      {"rebatch, dropping",
       [](Given g) { return unbatch(rebatch(batch(g.input, 2, g.slot), {3}, true)); }},
      {"pad_batches", rows},
      {"pad_batches of repeat",
       [](Given g) {
         return unbatch(chain({batches(g), batches(g)}));
       }},
      {"pad_batches of take", [](Given g) { return unbatch(take(batch(g.input, 4, g.slot), 2)); }},
      {"pad_batches of skip", [](Given g) { return unbatch(choose(batches(g), behind(1))); }},
      {"pad_batches of shuffle",
       [](Given g) {
         std::vector<std::int64_t> order;
         for (std::size_t i = 0; i < g.outputs.size(); i += 4) order.push_back(g.outputs[i]);
         return unbatch(shuffle(batches(g), 2, order));
       }},
      {"pad_batches of cache",
       [](Given g) {
         const Graph cached = cache(batches(g));
         return unbatch(chain({cached, cached}));
       }},
      {"ragged_batch",
       [](Given g) {
         const Graph lists = map(g.input, {.number = [](auto x) { return x; }});
         const Graph packed = map(lists, {.bytes = [](auto) { return 8; }, .keeps = true});
         Graph joined =
             map(batch(packed, 3, g.slot, true), {.bytes = [](auto) { return 48; }, .keeps = true});
         return draw(joined, g.outputs);
       }},
      {"window", [](Given g) { return unbatch(window(g.input, 3, 2)); }},
      {"window with gaps, as datasets",
       [](Given g) {
         const auto inner = [](const Item& e) { return unbatch(window(parts_of(e), 2, 2)); };
         return draw(interleave(window(g.input, 2, 5, 2), inner, 1, 1), g.outputs);
       }},
      {"group_by_window",
       [](Given g) {
         return unbatch(group(g.input, thirds, sizes({4, 4, 4})));
       }},
      {"group_by_window, reduced",
       [](Given g) {
         const auto inner = [](const Item& e) {
           const auto most = static_cast<std::size_t>(3 - thirds(e.parts.front().x));
           return choose(parts_of(e), all, behind(most));
         };
         return draw(interleave(group(g.input, thirds, sizes({3, 3, 3})), inner, 1, 1), g.outputs);
       }},
      {"bucket_by_length",
       [](Given g) {
         return unbatch(group(g.input, bucket_of, sizes({2, 3, 4})));
       }},
      {"bucket_by_length, towers",
       [](Given g) {
         return unbatch(group(g.input, bucket_of, sizes({2, 3, 4}), 2));
       }},
      {"bucket_by_length, tokens",
       [](Given g) {
         const auto fits = [](auto, std::size_t count, std::int64_t most) {
           return static_cast<std::int64_t>(count) * most <= 150;
         };
         return unbatch(group(
             g.input, [](auto) { return 0; }, fits));
       }},
      {"unique",
       [](Given g) {
         return unique(map(g.input, {.number = [](auto x) { return x % 7 * 1000; }}));
       }},
      {"scan",
       [](Given g) {
         return each(values(g.input),
                     [outputs = g.outputs, at = std::size_t{0}](Account&, Item& item) mutable {
                       item = {.x = outputs.at(at++)};
                     });
       }},
      {"rejection_resample",
       [](Given g) {
         const std::set<std::int64_t> kept(g.outputs.begin(), g.outputs.end());
         return choose(values(g.input), [kept](auto, auto& e) { return kept.contains(e.x); });
       }},
      {"ignore_errors", made},
      {"prefetch", passes},
      {"cache", [](Given g) { return cache(g.input); }},
      {"cache, repeated",
       [](Given g) {
         const Graph cached = cache(g.input);
         return chain({cached, cached});
       }},
      {"cache in a file", made},
      {"snapshot, repeated",
       [](Given g) {
         return chain({values(g.input), numbers(g.outputs)});
       }},
      {"pack",
       [](Given g) {
         const Step joins{.bytes = [](auto) { return 384; }};  // counts as 512, as two of 24 do
         const Graph lists = choose(values(g.input), [](auto, auto&) { return false; });
         return chain({lists, map(numbers(g.outputs), joins)});
       }},
      {"sample_from",
       [](Given g) {
         return chain({g.input, numbers({70, 71, 72})});
       }},
      {"choose_from",
       [](Given g) {
         return chain({numbers({80, 81, 82}), choose(g.input, all, behind(3))});
       }},
  };
  return table;
}

/// Runs to the end, and lets go of each element before the next.
bool suffices(const Dataset& dataset, std::uint64_t budget) {
  Iterator run = begin_run(dataset, {.threads = 1, .memory_bytes = budget}, {.alone = true});
  while (Next next = run.next()) {
    if (next.is_error()) return false;
  }
  return true;
}

constexpr std::int64_t kCount = 20;

/// Some stages behind each other. Elements keep memory in front of each, and take some behind them.
class Chain {
 public:
  Chain(std::vector<StageCase> stages, std::uint64_t seed)
      : stages_(std::move(stages)), seed_(seed) {}

  /// Returns what is wrong with the model, if anything; nothing if a stage refuses its input.
  std::optional<std::string> look_at() const {
    std::string text = "seed " + std::to_string(seed_);
    for (const StageCase& stage : stages_) text += ", " + stage.name;
    std::uint64_t count = 0;
    try {
      count = compile(all(), {}).least_memory() + most_held(model());
    } catch (const Error&) {
      return std::nullopt;
    }
    text += ": the model's " + std::to_string(count) + " bytes are ";
    if (!suffices(all(), count)) return text + "too few\n";
    return suffices(all(), count - 1) ? text + "more than the least budget\n" : std::string();
  }

 private:
  /// The first stages, up to the output of the last of these. Anew, as a file outlives a run.
  Dataset first(std::size_t count) const {
    if (count == 0) return test::numbers(kCount);
    const auto keep = std::make_shared<Takes>(bytes_of, seed_ + count, true);
    return stages_[count - 1].build(first(count - 1).map_op(keep));
  }
  Dataset all() const {
    return first(stages_.size()).map_op(std::make_shared<Takes>(bytes_of, seed_, false));
  }
  Graph model() const {
    std::vector<std::int64_t> counted(kCount);
    std::iota(counted.begin(), counted.end(), 0);
    Graph graph = numbers(counted);
    for (std::size_t i = 1; i <= stages_.size(); ++i) {
      const std::uint64_t slot = compile(stages_[i - 1].build(first(0)), {}).least_memory();
      graph = models().at(stages_[i - 1].name)(
          {takes(graph, seed_ + i, true), test::values(first(i)), slot});
    }
    return takes(graph, seed_, false);
  }

  const std::vector<StageCase> stages_;
  const std::uint64_t seed_;
};

void expect_right(const std::vector<Chain>& chains) {
  const TimeLimit limit(200);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::string wrong;
  std::size_t refused = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {  // a run that fails waits for 100 ms
    threads.emplace_back([&] {
      for (std::size_t k = next++; k < chains.size(); k = next++) {
        const std::optional<std::string> said = chains[k].look_at();
        const std::lock_guard lock(mutex);
        wrong += said.value_or("");
        refused += said ? 0 : 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, "");
  EXPECT_LE(refused, chains.size() / 50);
}

/// True if one element that keeps memory has room beside what one takes behind the stage, and
/// nothing else.
bool holds_nothing(const StageCase& stage) {
  constexpr std::uint64_t kEach = 10'000;
  const auto each = [](std::uint64_t, std::int64_t) { return kEach; };
  const Dataset input = test::numbers(kCount).map_op(std::make_shared<Takes>(each, 0, true));
  const Dataset dataset = stage.build(input).map_op(std::make_shared<Takes>(each, 0, false));
  return suffices(dataset, compile(dataset, {}).least_memory() + 2 * rounded(kEach));
}

TEST(SerialCount, LeastBudgetsOfStages) {
  std::vector<Chain> chains;
  for (const StageCase& stage : stages()) {
    if (!models().contains(stage.name)) {
      EXPECT_TRUE(holds_nothing(stage)) << stage.name << " needs a model of what it holds";
      continue;
    }
    for (const std::uint64_t seed : {1, 2, 3}) chains.emplace_back(std::vector{stage}, seed);
  }
  expect_right(chains);
}

TEST(SerialCount, StagesThatHoldNothing) {
  std::string found;
  for (const StageCase& stage : stages()) {
    for (const char* name : {"shard", "map", "filter", "batch and unbatch", "window", "cache"})
      if (stage.name == name && holds_nothing(stage)) found += stage.name + "; ";
  }
  EXPECT_EQ(found, "shard; filter; map; batch and unbatch; ");
}

// PENSTOCK_GRAPHS: all pairs. tools/reliability.sh sets it.
TEST(SerialCount, LeastBudgetsOfPairs) {
  // Their models take the order of their items from a run, or do not draw anew in each pass.
  const std::set<std::string> alone{
      "shuffle", "pad_batches of shuffle", "sample_from", "choose_from",
      "map",     "snapshot, repeated",     "pack",        "interleave of cached datasets"};
  std::vector<StageCase> chosen = stages();
  std::erase_if(chosen, [&](const StageCase& stage) {
    return alone.contains(stage.name) || !models().contains(stage.name);
  });
  std::vector<Chain> chains;
  const std::size_t step = std::getenv("PENSTOCK_GRAPHS") != nullptr ? 1 : 7;
  for (std::size_t k = 0; k < chosen.size() * chosen.size(); k += step)
    chains.emplace_back(std::vector{chosen[k / chosen.size()], chosen[k % chosen.size()]}, 1);
  expect_right(chains);
}

}  // namespace penstock::test::serial
