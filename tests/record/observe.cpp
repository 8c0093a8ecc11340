#include "tests/record/observe.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "pipeline/stage/fingerprint.h"
#include "tests/record/data.h"

namespace penstock::test {
namespace {

constexpr std::size_t kMostOutcomes = 2000;  // no graph has as many: it would not end

RunOptions options_for(RunOptions options, const Setting& setting, std::uint64_t least) {
  options.threads = setting.threads;
  options.memory_bytes = setting.ample ? 256 << 20 : least;
  return options;
}

std::string end_line(const EpochStats& epoch) {
  std::string line = "end of " + std::to_string(epoch.elements) + " elements, " +
                     std::to_string(epoch.batches) + " batches";
  const auto add = [&](const char* what, std::int64_t count, std::int64_t usual) {
    if (count != usual) line += ", " + std::to_string(count) + " " + what;
  };
  const auto elements = static_cast<std::int64_t>(epoch.elements);
  add("skipped", static_cast<std::int64_t>(epoch.skipped), 0);
  add("rows of padding", static_cast<std::int64_t>(epoch.padded_rows), 0);
  if (epoch.expected < 0) return line + ", of how many is not known";
  add("expected", epoch.expected, elements);
  add("missing", epoch.missing, 0);
  add("repeated", epoch.repeated, 0);
  return line;
}

/// A digest of each row, since rows come together as they finish.
void add_rows(const Element& batch, std::vector<std::string>& run) {
  for (std::int64_t row = 0; row < batch.valid_rows; ++row) {
    Element element(batch.names());
    for (std::size_t i = 0; i < batch.size(); ++i) element[i] = batch[i][row];
    run.push_back(digest_of(element));
  }
}

/// Lines of what comes, epoch by epoch. Before each call of `next` `before` is told how many there
/// are. Sorted within an epoch where the order is free.
template <typename F>
std::vector<std::string> collect(Iterator& iterator, bool unordered, F before) {
  std::vector<std::string> run;
  std::size_t calls = 0;
  do {
    const auto begin = static_cast<std::ptrdiff_t>(run.size());
    for (;;) {
      before(run.size());
      ++calls;
      Next next = iterator.next();
      if (next.is_end() || calls > kMostOutcomes) break;
      if (next.is_error()) {
        run.push_back(line_of(next.error()));
      } else if (unordered && next->valid_rows >= 0) {
        add_rows(*next, run);
      } else {
        run.push_back(digest_of(*next));
      }
    }
    if (unordered) std::sort(run.begin() + begin, run.end());
    const Stats stats = iterator.stats();
    run.push_back(stats.epochs.empty() ? "end" : end_line(stats.epochs.back()));
  } while (iterator.next_epoch());
  return run;
}

std::vector<std::string> collect(Iterator& iterator, bool unordered) {
  return collect(iterator, unordered, [](std::size_t) {});
}

/// What `save` says at each position.
std::string saved(const Iterator& iterator, std::string& refused) {
  try {
    return iterator.save();
  } catch (const Error& error) {
    refused = line_of(error);
    return {};
  }
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

/// What nearly every explain says word by word is abridged, so that the record is not too long.
/// Nothing is lost: other words would stay as they are.
std::string abridged(std::string line) {
  constexpr std::pair<std::string_view, std::string_view> kUsual[] = {
      {"order and bytes: a function of the graph, the seed (7) and the epoch alone",
       "order as usual"},
      {", each element once, with the same bytes if the user's callables depend on their input "
       "alone",
       " as usual"},
      {", each element once and with the same bytes", " as usual"},
      {"memory: budget 64.00 MiB; one slot of each batch stage ", "memory: "},
      {"; resumes by ", "; "},
      {"references, read in parallel", "references as usual"},
      {"written in place into recycled slots", "slots as usual"},
      {"parallel, fused with what follows", "fused as usual"},
  };
  for (const auto& [usual, less] : kUsual) {
    const std::size_t at = line.find(usual);
    if (at != std::string::npos) line.replace(at, usual.size(), less);
  }
  if (line.starts_with("    ")) line.erase(0, 4);
  // The fingerprint tells numbers apart.
  const std::size_t many = line.find("numbers(value=");
  if (many != std::string::npos && line.size() > many + 40)
    line.replace(many + 30, line.npos, "…)");
  return line;
}

std::vector<std::string> about(const RecordedGraph& graph, const Dataset& dataset) {
  RunOptions shown = graph.options;
  shown.threads = 2;
  shown.memory_bytes = 64 << 20;
  std::vector<std::string> lines{"fingerprint " + hex(Fingerprint(*dataset.node()).digest()) +
                                 ", cardinality " + std::to_string(dataset.cardinality()) + ", " +
                                 std::string(name_of(dataset.guarantee()))};
  for (const std::string& line : lines_of(dataset.explain(shown))) {
    // How many threads there are is the machine's business, and shares follow from the budget.
    if (!line.starts_with("  threads: ") && !line.starts_with("  shares: ") &&
        !line.starts_with("  stages, in the order"))
      lines.push_back(abridged(line));
  }
  shown.memory_bytes = 1;
  const std::string refused = thrown_in_one_line([&] { (void)dataset.iterate(shown); });
  if (refused != "nothing") lines.push_back("with a byte of memory: " + refused);
  return lines;
}

std::vector<std::string> counted(const RecordedGraph& graph, const Stats& stats) {
  std::vector<std::string> lines{"counted: " + std::to_string(stats.elements) + " elements, " +
                                 std::to_string(stats.batches) + " batches, " +
                                 std::to_string(stats.errors.count) + " errors, " +
                                 std::to_string(stats.errors.retried) + " retried"};
  if (graph.options.on_error != OnError::skip) return lines;
  std::vector<std::string> skipped;
  for (const Error& error : stats.errors.first) skipped.push_back("  " + line_of(error));
  std::sort(skipped.begin(), skipped.end());
  lines.insert(lines.end(), skipped.begin(), skipped.end());
  if (graph.options.quarantine.empty()) return lines;
  std::vector<std::string> quarantine = lines_of(read_file(graph.options.quarantine));
  std::sort(quarantine.begin(), quarantine.end());
  lines.emplace_back("quarantine:");
  lines.insert(lines.end(), quarantine.begin(), quarantine.end());
  return lines;
}

/// Which of `count` states are gone on from: the first, the last, and some between.
std::set<std::size_t> places_in(std::size_t count) {
  return {0, 1 % count, count / 3, count / 2, count * 2 / 3, count - 1};
}

std::vector<std::string> resume(const RecordedGraph& graph, const Dataset& dataset,
                                const Setting& setting, const std::string& state) {
  RunOptions options = options_for(graph.options, setting, graph.least);
  options.quarantine.clear();
  options.seed = 0;  // the state's counts
  if (setting.workers) options.workers = setting.workers(dataset);
  Iterator iterator = dataset.restore(state, options);
  std::vector<std::string> rest = collect(iterator, graph.unordered);
  if (setting.ended) setting.ended(iterator.stats());
  return rest;
}

}  // namespace

bool is_rest(const std::vector<std::string>& rest, const std::vector<std::string>& run,
             std::size_t position, bool unordered) {
  if (position > run.size() || rest.size() != run.size() - position) return false;
  if (!unordered)
    return std::equal(rest.begin(), rest.end(),
                      run.begin() + static_cast<std::ptrdiff_t>(position));
  std::vector<std::string> all = run;
  std::vector<std::string> some = rest;
  std::sort(all.begin(), all.end());
  std::sort(some.begin(), some.end());
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

Observed observe(const RecordedGraph& graph, const Setting& setting) {
  enter_folder();
  RunOptions options = options_for(graph.options, setting, graph.least);
  if (!options.quarantine.empty()) std::filesystem::remove(options.quarantine);
  const Dataset dataset = graph.build();
  if (setting.workers) options.workers = setting.workers(dataset);
  Observed seen;
  seen.about = about(graph, dataset);
  std::vector<std::pair<std::size_t, std::string>> states;
  std::string refused;
  {
    Iterator iterator = dataset.iterate(options);
    seen.run = collect(iterator, graph.unordered, [&](std::size_t position) {
      states.emplace_back(position, saved(iterator, refused));
    });
    for (std::string& line : counted(graph, iterator.stats())) seen.about.push_back(line);
    if (setting.ended) setting.ended(iterator.stats());
  }
  if (!refused.empty()) {
    seen.about.push_back("save: " + refused);
    return seen;
  }
  Setting other = setting;
  other.threads = setting.threads == 1 ? 2 : 1;
  // A run that its error budget has ended may be gone on with, and gets to another error.
  const auto over = std::find_if(seen.run.begin(), seen.run.end(), [](const std::string& line) {
    return line.find("exceed the error budget") != std::string::npos;
  });
  const auto last = static_cast<std::size_t>(over - seen.run.begin());
  while (states.back().first > last) states.pop_back();
  for (const std::size_t place : places_in(states.size())) {
    const auto& [position, state] = states[place];
    const std::vector<std::string> rest = resume(graph, dataset, other, state);
    if (is_rest(rest, seen.run, position, graph.unordered)) continue;
    seen.resumed.push_back("resumed at " + std::to_string(position) + " it differs:");
    for (const std::string& line : rest) seen.resumed.push_back("  " + line);
  }
  const std::string& first = states.front().second;
  if (graph.same_first_state) {
    seen.about.push_back("first state: " + first.substr(0, first.find('\n')) + ", " +
                         std::to_string(first.size()) + " bytes, " +
                         digest_of(Element({{"state", Tensor::copy_bytes(first)}})));
  }
  seen.states.insert(states[states.size() * 2 / 3]);
  return seen;
}

Observed observe(const RecordedRedeal& redeal, const Setting& setting) {
  enter_folder();
  const RunOptions options = options_for(redeal.options, setting, redeal.least);
  std::vector<std::string> states;
  Observed seen;
  for (std::int64_t index = 0; index < redeal.before; ++index) {
    Iterator iterator = redeal.build(redeal.before, index).iterate(options);
    seen.run.push_back("consumer " + std::to_string(index) + " of " +
                       std::to_string(redeal.before));
    for (int step = 0; step < redeal.steps; ++step) {
      Next next = iterator.next();
      seen.run.push_back(next.has_value() ? digest_of(*next) : "no element");
    }
    states.push_back(iterator.save());
  }
  for (std::int64_t index = 0; index < redeal.after; ++index) {
    seen.run.push_back("consumer " + std::to_string(index) + " of " + std::to_string(redeal.after));
    const std::string refused = thrown_in_one_line([&] {
      Iterator iterator = redeal.build(redeal.after, index).restore(states, options);
      for (std::string& line : collect(iterator, false)) seen.run.push_back(std::move(line));
    });
    if (refused != "nothing") seen.run.push_back(refused);
  }
  return seen;
}

std::vector<Recorded> recorded() {
  std::vector<Recorded> all;
  for (const auto& list : {source_graphs(), image_graphs(), order_graphs(), value_graphs(),
                           work_graphs(), error_graphs()}) {
    for (const RecordedGraph& graph : list) {
      all.push_back({graph.name,
                     [graph](const Setting& setting) { return observe(graph, setting); },
                     [graph](const Setting& setting, std::size_t, const std::string& state) {
                       enter_folder();
                       return resume(graph, graph.build(), setting, state);
                     },
                     graph.unordered});
    }
  }
  for (const RecordedRedeal& redeal : recorded_redeals())
    all.push_back(
        {redeal.name, [redeal](const Setting& setting) { return observe(redeal, setting); }});
  for (const RecordedFeed& feed : recorded_feeds()) {
    all.push_back(
        {feed.name, [feed](const Setting& setting) { return observe(feed, setting); },
         feed.in_turn
             ? [feed](const Setting& setting, std::size_t position,
                      const std::string& state) { return resume(feed, setting, position, state); }
             : decltype(Recorded::resume)()});
  }
  return all;
}

}  // namespace penstock::test
