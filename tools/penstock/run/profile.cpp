#include "tools/penstock/run/profile.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <penstock/image_codec.h>
#include <penstock/process.h>
#include <penstock/simd.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "report/observed.h"
#include "tools/penstock/run/build.h"
#include "tools/penstock/run/consumer.h"
#include "tools/penstock/run/monitor.h"
#include "tools/penstock/run/opening_limit.h"
#include "tools/penstock/run/progress.h"

namespace penstock::tool {
namespace {

using Clock = std::chrono::steady_clock;

double expected_batches(const Dataset& dataset, const RunOptions& run, std::uint64_t limit) {
  double expected = -1;
  if (dataset.cardinality() >= 0)
    expected = static_cast<double>(dataset.cardinality()) * static_cast<double>(run.epochs);
  if (limit > 0 && (expected < 0 || expected > static_cast<double>(limit)))
    expected = static_cast<double>(limit);
  return expected;
}

UsageError other_seed(std::uint64_t saved, std::uint64_t wanted, const std::string& file) {
  return UsageError(
      "the state was saved with seed " + std::to_string(saved) + ", not " + std::to_string(wanted),
      file);
}

}  // namespace

Progress start_of(const ProfileOptions& options, const PipelineSpec& spec, std::uint64_t seed) {
  std::optional<Progress> saved;
  if (!options.state_file.empty()) saved = load_progress(options.state_file);
  if (!saved) {
    Progress fresh;
    fresh.seed = seed;
    return fresh;
  }
  if (saved->foreign) {
    saved->seed = seed;
  } else if (spec.run.has("seed") && saved->seed != seed) {
    throw other_seed(saved->seed, seed, options.state_file);
  }
  return *std::move(saved);
}

namespace {

/// Returns the positions of all consumers of another run. Sets `start` to the facts that they
/// share.
std::vector<std::string> positions_of(const std::vector<std::string>& files,
                                      const PipelineSpec& spec, Progress& start) {
  std::vector<std::string> positions;
  for (const std::string& file : files) {
    const std::optional<Progress> saved = load_progress(file);
    if (!saved) throw Error(ErrorCode::not_found, "there is no state", {.shard = file});
    start.foreign = start.foreign || saved->foreign;
    if (spec.run.has("seed") && !saved->foreign && saved->seed != start.seed)
      throw other_seed(saved->seed, start.seed, file);
    positions.push_back(saved->iterator);
    if (&file != &files.front()) continue;
    if (!saved->foreign) start.seed = saved->seed;
    start.epoch = saved->epoch;
    start.batch = saved->batch;
  }
  return positions;
}

/// Checks that what the program counted goes with the iterator that it saved. A run that continues
/// those of other consumers counts its own elements only.
void check_same(const Progress& start, const Iterator& restored) {
  const Stats stats = restored.stats();
  if (start.seed == stats.seed && start.epoch == stats.epoch && start.elements <= stats.elements)
    return;
  const auto place = [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t elements) {
    return "seed " + std::to_string(seed) + ", epoch " + std::to_string(epoch) + " and " +
           std::to_string(elements) + " elements";
  };
  throw Error(ErrorCode::data_loss, "the state is inconsistent: the program counted " +
                                        place(start.seed, start.epoch, start.elements) +
                                        ", and its iterator " +
                                        place(stats.seed, stats.epoch, stats.elements));
}

/// Restores `start` or the positions of other consumers, if there are any. Completes `start` if
/// another program saved it. Throws UsageError if that has another seed than `seed`.
Iterator iterator_of(const Dataset& dataset, Progress& start, const RunOptions& run,
                     const std::vector<std::string>& others, const std::string& state_file,
                     std::optional<std::uint64_t> seed) {
  if (start.iterator.empty() && others.empty()) return dataset.iterate(run);
  try {
    Iterator restored = start.iterator.empty() ? dataset.restore(others, run)
                                               : dataset.restore(start.iterator, run);
    if (start.foreign) {
      const Stats stats = restored.stats();
      if (seed && *seed != stats.seed) throw other_seed(stats.seed, *seed, state_file);
      start.seed = stats.seed;
      start.epoch = stats.epoch;
    } else if (!start.iterator.empty()) {
      check_same(start, restored);
    }
    return restored;
  } catch (const Error& error) {
    if (!error.where().shard.empty()) throw;
    std::string cause = error.cause();
    if (cause.find("the states of all that stopped") != cause.npos) cause += ": --resume-from";
    throw Error(error.code(), cause, {.shard = state_file, .stage = error.where().stage});
  }
}

}  // namespace

std::string title_of(const PipelineSpec& spec) {
  std::string text = spec.source->kind().name;
  const auto given = spec.source->given();
  if (!given.empty()) {
    const Value& value = given.front().second;
    if (const auto* path = std::get_if<std::string>(&value)) text += " " + *path;
    if (const auto* number = std::get_if<std::int64_t>(&value))
      text += " " + std::to_string(*number);
    if (const auto* list = std::get_if<List>(&value)) {
      text += " " + list->front();
      if (list->size() > 1) text += " and " + std::to_string(list->size() - 1) + " more";
    }
  }
  return text;
}

Report report_of(const PipelineSpec& spec) {
  Report report{process_report(), {}};
  report.of_program = true;
  report.io = spec.run.get("io", std::string("pread"));
  if (spec.run.has("step_ms")) report.step_ms = spec.run.get("step_ms", 0.0);
  return report;
}

void note_dataset(Report& report, const PipelineSpec& spec, const Dataset& dataset) {
  report.guarantee = name_of(dataset.guarantee());
  const Spec& made = dataset.spec();
  const int image = made.find("image");
  const bool encoded = image >= 0 && made[static_cast<std::size_t>(image)].dtype == DType::bytes;
  const auto is_image = [](const Settings& stage) { return stage.kind().is_image(); };
  if (encoded && std::ranges::none_of(spec.stages, is_image))
    report.undecoded = "--decode, or another image stage such as --resize,";
}

RunOptions profile_options(const PipelineSpec& spec, const ProfileOptions& options) {
  RunOptions run = run_options(spec, options.seed);
  run.close_deadline_ms = 1000;
  return run;
}

void note_process(Report& report, const CpuTimes& before) {
  report.starved = cpu_times() - before;
  report.rss_peak_bytes = peak_resident_bytes();
  report.decoding = decoding_counts();  // a process decodes for one run only
  report.simd = simd();
  report.remote = asked_of_servers();
  report.slow_shard = slow_shard_of_process();
}

Report run_profile(const PipelineSpec& spec, const ProfileOptions& options,
                   Interrupts& interrupts) {
  const auto begin = Clock::now();
  const auto elapsed = [&begin] {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  RunOptions run = profile_options(spec, options);
  Progress start = start_of(options, spec, run.seed);
  std::vector<std::string> others;
  if (start.iterator.empty()) others = positions_of(options.resume_from, spec, start);
  run.seed = start.seed;
  const auto limit = static_cast<std::uint64_t>(spec.run.get("batches", std::int64_t{0}));
  const double step_ms = spec.run.get("step_ms", 0.0);
  Report report = report_of(spec);

  std::optional<OpeningLimit> opening(std::in_place, options.limit_s);
  const Dataset dataset = build(spec);
  report.build_s = elapsed();
  note_dataset(report, spec, dataset);
  if (!start.iterator.empty()) {
    report.resumed_batches = start.batches;
    report.resumed_elements = start.elements;
  }
  Iterator made = iterator_of(dataset, start, run, others, options.state_file,
                              spec.run.has("seed") ? std::optional(run.seed) : std::nullopt);
  report.seed = start.seed;
  if (start.foreign) {
    const Stats before = made.stats();
    report.resumed_batches = before.batches;
    report.resumed_elements = before.elements;
  }
  opening.reset();
  Consumer consumer(options, step_ms, limit, start);
  const double cpu_before = cpu_seconds();
  const CpuTimes times_before = cpu_times();
  auto owned = std::make_unique<Iterator>(std::move(made));
  Iterator& iterator = *owned;
  const auto cancel = [&] {
    consumer.stop();
    iterator.cancel();
  };
  Scene scene;
  scene.title = "penstock profile · " + title_of(spec);
  scene.epochs = run.epochs;
  scene.expected = expected_batches(dataset, run, limit);
  if (scene.expected >= 0)
    scene.expected = std::max(0.0, scene.expected - static_cast<double>(start.batches));
  scene.colour = traits_of(stderr).colour;
  const Watched watched{[&] { return iterator.stats(); },
                        [&] {
                          return Moment{iterator.epoch(), consumer.delivered(), elapsed()};
                        },
                        cancel};
  {
    Monitor monitor(
        scene, watched,
        {.quiet = options.quiet, .watchdog_s = options.watchdog_s, .limit_s = options.limit_s});
    const Cancellation cancellation(interrupts, cancel);
    consumer.consume(iterator, report);
    report.timeline = monitor.finish();
    if (monitor.gave_up() && report.ending == Ending::interrupted)
      report.ending = Ending::no_progress;
    if (monitor.timed_out() && report.ending == Ending::interrupted && interrupts.received() == 0) {
      report.ending = Ending::batch_limit;
      report.failure.reset();
    }
  }
  report.cpu_s = cpu_seconds() - cpu_before;
  report.stats = iterator.stats();
  report.slot_bytes = report.stats.slot_bytes;
  note_process(report, times_before);  // while its threads still exist
  // The destructor would wait for the part that hangs.
  if (report.ending == Ending::no_progress) static_cast<void>(owned.release());
  return report;
}

}  // namespace penstock::tool
