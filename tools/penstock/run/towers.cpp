#include "tools/penstock/run/towers.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include <penstock/internal/start_thread.h>
#include <penstock/process.h>
#include <penstock/version.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/run/build.h"
#include "tools/penstock/run/monitor.h"
#include "tools/penstock/run/opening_limit.h"
#include "tools/penstock/run/tower_work.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double seconds_since(std::int64_t start_ns) {
  return 1e-9 * static_cast<double>(now_ns() - start_ns);
}

Ending ending_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::cancelled:
      return Ending::interrupted;
    case ErrorCode::device_lost:
      return Ending::device_lost;
    case ErrorCode::no_progress:
      return Ending::no_progress;
    default:
      return Ending::failed;
  }
}

/// Returns the importance of an ending. The least important is that of a tower that was cancelled
/// because of another's error.
int weight(Ending ending) {
  switch (ending) {
    case Ending::device_lost:
      return 4;
    case Ending::no_progress:
      return 3;
    case Ending::failed:
      return 2;
    case Ending::interrupted:
      return 1;
    default:
      return 0;
  }
}

Feed feed_of(const Dataset& dataset, const Progress& start, const ProfileOptions& options,
             const FeedOptions& feed_options) {
  if (start.iterator.empty()) return Feed(dataset, devices(options.devices), feed_options);
  try {
    return Feed::restore(start.iterator, dataset, devices(options.devices), feed_options);
  } catch (const Error& error) {
    if (!error.where().shard.empty()) throw;
    throw Error(error.code(), error.cause(),
                {.shard = options.state_file, .stage = error.where().stage});
  }
}

}  // namespace

bool Towers::over() const {
  if (stopped_.load(std::memory_order_acquire)) return true;
  return steps_.limit_s > 0 && seconds_since(start_ns_) >= steps_.limit_s;
}

void Towers::step(int tower) {
  const Stream stream(feed_.device(tower).shared_from_this(), "tower " + std::to_string(tower));
  const auto towers = static_cast<std::uint64_t>(feed_.towers());
  const std::uint64_t most =
      steps_.batch_limit == 0 ? UINT64_MAX : (steps_.batch_limit + towers - 1) / towers;
  std::optional<TowerWork> work;
  if (steps_.on_device || steps_.digest != nullptr)
    work.emplace(feed_.device(tower).shared_from_this(), steps_.batches, steps_.on_device,
                 steps_.digest);
  std::uint64_t taken = 0;
  std::uint64_t epoch = 1;
  while (taken < most && !over() && !feed_.ended(tower)) {
    std::optional<StagedBatch> batch = feed_.next(tower);
    if (!batch) {
      if (!feed_.ended(tower)) ++epoch;
      if (tower == 0) epoch_.store(epoch, std::memory_order_relaxed);
      continue;
    }
    std::int64_t never = 0;
    first_ns_.compare_exchange_strong(never, now_ns());
    batch->wait(stream);
    if (work) work->run(stream, *batch);
    if (steps_.step_ns > 0) stream.view().busy(steps_.step_ns);
    batch->release(stream);
    ++taken;
    const std::uint64_t delivered = delivered_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (steps_.save_every == 0 || delivered % steps_.save_every != 0) continue;
    const MutexLock lock(saving_);
    steps_.save();
  }
  stream.view().synchronize();
  if (!over()) return;
  stop();
  feed_.cancel();  // others may wait for batches, with the memory of these in this one's slots
}

// Reports epochs that all towers received to their end. With sharded inputs, each has only a part
// of an epoch.
void Towers::audit(const Stats& run, Report& report) const {
  std::uint64_t ended = UINT64_MAX;
  for (int t = 0; t < feed_.towers(); ++t) ended = std::min(ended, feed_.epochs(t));
  if (steps_.sharded) return;
  for (const EpochStats& epoch : run.epochs)
    if (epoch.epoch >= ended_before_ && epoch.epoch < ended) report.audit.push_back({epoch, {}});
}

void Towers::run(Report& report) {
  start_ns_ = now_ns();
  ended_before_ = feed_.epochs(0);
  epoch_ = 1;
  std::vector<Status> errors(static_cast<std::size_t>(feed_.towers()));
  {
    std::vector<Thread> threads;
    threads.reserve(errors.size());
    for (int t = 0; t < feed_.towers(); ++t) {
      Status& error = errors[static_cast<std::size_t>(t)];
      try {
        threads.push_back(start_thread("a tower", [this, t, &error] {
          try {
            step(t);
          } catch (...) {
            error = status_from_current_exception();
            if (over() && error.error().code() == ErrorCode::cancelled) error = Status();
          }
        }));
      } catch (...) {
        error = status_from_current_exception();
        stop();
        feed_.cancel();  // the other towers would wait for this one's batches
      }
    }
  }
  report.wall_s = seconds_since(start_ns_);
  if (first_ns_ > 0) report.first_batch_s = 1e-9 * static_cast<double>(first_ns_ - start_ns_);
  report.epochs = epoch_;
  report.batches = delivered();
  // The reapers may be slightly behind the streams.
  FeedStats stats = feed_.stats();
  const auto finished = [&] {
    std::uint64_t steps = 0;
    for (const TowerStats& tower : stats.towers) steps += tower.steps;
    return steps >= report.batches;
  };
  for (int tries = 0; tries < 200 && !finished(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stats = feed_.stats();
  }
  double stalled = 0;
  for (const TowerStats& tower : stats.towers) {
    report.elements += tower.elements;
    stalled += tower.stall_s / static_cast<double>(feed_.towers());
    report.step_s += tower.step_s / static_cast<double>(feed_.towers());
  }
  report.wait_s = report.first_batch_s + stalled;
  report.towers = std::move(stats.towers);
  report.feed = std::move(stats.verdict);
  report.lost = stats.lost;
  report.wrapped = stats.wrapped;
  report.device_slots = stats.slots;
  report.slots_wanted = stats.host_slots_wanted;
  report.slot_bytes = stats.run.slot_bytes;
  audit(stats.run, report);
  report.stats = std::move(stats.run);
  report.ending = over() || steps_.batch_limit > 0 ? Ending::batch_limit : Ending::finished;
  for (const Status& error : errors) {
    if (error.ok() || weight(ending_of(error.error())) <= weight(report.ending)) continue;
    report.ending = ending_of(error.error());
    report.failure = error.error();
  }
}

Report run_towers(const PipelineSpec& spec, const ProfileOptions& options, Interrupts& interrupts) {
  const std::int64_t begin = now_ns();
  Report report = report_of(spec);
  std::optional<OpeningLimit> opening(std::in_place, options.limit_s);
  const Built built = build_for_devices(spec);
  const Dataset& dataset = built.dataset;
  FeedOptions feed_options = options.feed;
  feed_options.run = profile_options(spec, options);
  // Shorter than the monitor's, so that the error names the part that hangs.
  if (options.watchdog_s > 0) feed_options.watchdog_s = 0.7 * options.watchdog_s;
  const Progress start = start_of(options, spec, feed_options.run.seed);
  if (start.foreign)
    throw UsageError("the state is that of a run without --device", options.state_file);
  report.seed = feed_options.run.seed = start.seed;
  const double step_ms = spec.run.get("step_ms", 0.0);
  note_dataset(report, spec, dataset);
  report.build_s = seconds_since(begin);
  const double cpu_before = cpu_seconds();
  const CpuTimes times_before = cpu_times();
  auto feed = std::make_unique<Feed>(feed_of(dataset, start, options, feed_options));
  opening.reset();
  const FeedStats before = feed->stats();
  if (!start.iterator.empty()) {
    report.resumed_batches = before.batches;
    report.resumed_elements = before.elements;
  }
  const auto save = [&] {
    Progress progress;
    progress.seed = start.seed;
    progress.iterator = feed->save();
    report.state_bytes = std::max<std::uint64_t>(report.state_bytes, progress.iterator.size());
    save_progress(*options.state, progress);
  };
  std::optional<Digest> digest;
  if (options.digest) {
    if (feed->towers() > 1) throw UsageError("works with one device only", "--digest");
    digest.emplace();
  }
  const bool saves = options.state != nullptr;
  const auto limit = static_cast<std::uint64_t>(spec.run.get("batches", std::int64_t{0}));
  Towers towers(*feed, {.step_ns = static_cast<std::int64_t>(step_ms * 1e6),
                        .batch_limit = limit > before.batches ? limit - before.batches : limit,
                        .limit_s = options.limit_s,
                        .save_every = saves ? options.save_every : 0,
                        .save = save,
                        .batches = dataset.spec(),
                        .on_device = built.on_device,
                        .digest = digest ? &*digest : nullptr,
                        .sharded = feed_options.mode == FeedMode::sharded});
  if (limit > 0 && before.batches >= limit) towers.stop();
  const auto cancel = [&] {
    towers.stop();
    feed->cancel();
  };
  Scene scene;
  scene.title = "penstock profile · " + title_of(spec) + " · " + options.devices;
  scene.epochs = feed_options.run.epochs;
  scene.colour = traits_of(stderr).colour;
  const Watched watched{[&] { return feed->stats().run; },
                        [&] {
                          return Moment{towers.epoch(), towers.delivered(), seconds_since(begin)};
                        },
                        cancel, [&] { return feed->stats().towers; }};
  {
    Monitor monitor(
        scene, watched,
        {.quiet = options.quiet, .watchdog_s = options.watchdog_s, .limit_s = options.limit_s});
    const Cancellation cancellation(interrupts, cancel);
    towers.run(report);
    report.timeline = monitor.finish();
    if (interrupts.received() != 0) report.ending = Ending::interrupted;
    if (monitor.gave_up() && report.ending != Ending::device_lost)
      report.ending = Ending::no_progress;
  }
  // Does not save after an error: a resumed run must repeat the work that was under way.
  const bool whole = report.ending == Ending::finished || report.ending == Ending::batch_limit ||
                     report.ending == Ending::interrupted;
  if (saves && whole) save();
  if (digest) report.digest = digest->total();
  report.cpu_s = cpu_seconds() - cpu_before;
  note_process(report, times_before);
  // The destructor would wait for the part that hangs.
  if (report.ending == Ending::no_progress) static_cast<void>(feed.release());
  return report;
}

}  // namespace penstock::tool
