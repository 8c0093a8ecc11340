#include "report/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <penstock/version.h>

#include "report/printable.h"
#include "report/rank.h"
#include "report/ranks.h"
#include "report/verdict.h"

namespace penstock {
namespace {

using Label = std::pair<std::string_view, std::string>;

/// A metric of a run, a stage or a tower.
template <typename Of>
struct Metric {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const Of&);
};

double of(std::uint64_t count) {
  return static_cast<double>(count);
}

constexpr std::array kRunMetrics{
    Metric<RunReport>{"penstock_elements_total", "counter", "Elements delivered.",
                      [](const RunReport& r) { return of(r.elements); }},
    Metric<RunReport>{"penstock_batches_total", "counter", "Batches delivered.",
                      [](const RunReport& r) { return of(r.batches); }},
    Metric<RunReport>{"penstock_errors_total", "counter", "Bad elements.",
                      [](const RunReport& r) { return of(r.stats.errors.count); }},
    Metric<RunReport>{"penstock_read_retries_total", "counter", "Retried reads.",
                      [](const RunReport& r) { return of(r.stats.errors.retried); }},
    Metric<RunReport>{"penstock_run_seconds", "gauge", "Time since the start of the run.",
                      [](const RunReport& r) { return r.wall_s; }},
    Metric<RunReport>{"penstock_first_batch_seconds", "gauge",
                      "From the start of the run until its first batch; 0 before that.",
                      [](const RunReport& r) { return r.first_batch_s; }},
    Metric<RunReport>{"penstock_wait_seconds_total", "counter",
                      "Time that the consumer waited; for towers, the mean.",
                      [](const RunReport& r) { return r.wait_s; }},
    Metric<RunReport>{"penstock_epoch", "gauge", "The epoch that the input delivers, from 0.",
                      [](const RunReport& r) { return of(r.stats.epoch); }},
    Metric<RunReport>{"penstock_threads", "gauge", "Threads that may compute.",
                      [](const RunReport& r) { return static_cast<double>(r.stats.threads); }},
    Metric<RunReport>{"penstock_reading_threads", "gauge", "Threads that may wait for reads.",
                      [](const RunReport& r) { return static_cast<double>(r.stats.readers); }},
    Metric<RunReport>{"penstock_memory_bytes", "gauge", "Host memory in use.",
                      [](const RunReport& r) { return of(r.stats.memory.used_bytes); }},
    Metric<RunReport>{"penstock_memory_peak_bytes", "gauge", "The most host memory in use so far.",
                      [](const RunReport& r) { return of(r.stats.memory.peak_bytes); }},
    Metric<RunReport>{"penstock_memory_budget_bytes", "gauge", "Host memory that may be used.",
                      [](const RunReport& r) { return of(r.stats.memory.budget_bytes); }},
    Metric<RunReport>{"penstock_elements_left_total", "counter",
                      "Elements at the end of epochs that no tower received.",
                      [](const RunReport& r) { return of(r.lost); }},
};

constexpr std::array kWorkerMetrics{
    Metric<WorkerStats>{"penstock_worker_connected", "gauge",
                        "1 if the input worker makes groups of elements now.",
                        [](const WorkerStats& w) { return w.connected ? 1.0 : 0.0; }},
    Metric<WorkerStats>{"penstock_worker_groups_total", "counter", "Groups that it made.",
                        [](const WorkerStats& w) { return of(w.groups); }},
    Metric<WorkerStats>{"penstock_worker_elements_total", "counter", "Elements in those groups.",
                        [](const WorkerStats& w) { return of(w.elements); }},
    Metric<WorkerStats>{"penstock_worker_shared_elements_total", "counter",
                        "Elements of those that it had made for another run (--cache-memory).",
                        [](const WorkerStats& w) { return of(w.shared); }},
    Metric<WorkerStats>{"penstock_worker_received_bytes_total", "counter", "Bytes of its answers.",
                        [](const WorkerStats& w) { return of(w.received_bytes); }},
    Metric<WorkerStats>{"penstock_worker_busy_seconds_total", "counter",
                        "Time that its threads worked for the run.",
                        [](const WorkerStats& w) { return w.busy_s; }},
    Metric<WorkerStats>{"penstock_worker_round_trip_seconds", "gauge",
                        "Mean time from a request to its answer, minus the worker's own time.",
                        [](const WorkerStats& w) { return w.round_trip_s; }},
    Metric<WorkerStats>{"penstock_worker_hedged_total", "counter",
                        "Groups also requested elsewhere because the worker was slow.",
                        [](const WorkerStats& w) { return of(w.hedged); }},
    Metric<WorkerStats>{"penstock_worker_lost_total", "counter",
                        "Groups that it was making when it was lost.",
                        [](const WorkerStats& w) { return of(w.lost); }},
};

constexpr std::array kRemoteMetrics{
    Metric<RemoteStats>{"penstock_remote_requests_total", "counter",
                        "Requests that the process sent to data servers.",
                        [](const RemoteStats& r) { return of(r.requests); }},
    Metric<RemoteStats>{"penstock_remote_again_total", "counter",
                        "Of these, retries of failed requests.",
                        [](const RemoteStats& r) { return of(r.again); }},
    Metric<RemoteStats>{"penstock_remote_hedged_total", "counter",
                        "Of these, repetitions of late requests.",
                        [](const RemoteStats& r) { return of(r.hedged); }},
    Metric<RemoteStats>{"penstock_remote_throttled_total", "counter",
                        "Answers by which a server throttled.",
                        [](const RemoteStats& r) { return of(r.throttled); }},
    Metric<RemoteStats>{"penstock_remote_bytes_total", "counter", "Bytes received.",
                        [](const RemoteStats& r) { return of(r.bytes); }},
    Metric<RemoteStats>{"penstock_remote_needed_bytes_total", "counter",
                        "Bytes needed that the disk cache did not have.",
                        [](const RemoteStats& r) { return of(r.bytes_needed); }},
    Metric<RemoteStats>{"penstock_remote_cached_bytes_total", "counter",
                        "Bytes needed that the disk cache had.",
                        [](const RemoteStats& r) { return of(r.bytes_cached); }},
    Metric<RemoteStats>{"penstock_remote_waiting_seconds_total", "counter",
                        "Time from each request to its end, summed.",
                        [](const RemoteStats& r) { return r.waiting_s; }},
    Metric<RemoteStats>{"penstock_remote_latency_seconds", "gauge",
                        "Recent time from a request to its answer's first byte.",
                        [](const RemoteStats& r) { return 1e-3 * r.latency_ms; }},
    Metric<RemoteStats>{"penstock_remote_limit_requests_per_second", "gauge",
                        "Limit after throttling, of the slowest server; 0: none.",
                        [](const RemoteStats& r) { return r.requests_per_second; }},
};

constexpr std::array kStageMetrics{
    Metric<StageStats>{"penstock_stage_items_total", "counter", "Elements that left the stage.",
                       [](const StageStats& s) { return of(s.items); }},
    Metric<StageStats>{"penstock_stage_bytes_total", "counter", "Bytes that left the stage.",
                       [](const StageStats& s) { return of(s.bytes); }},
    Metric<StageStats>{"penstock_stage_padding_bytes_total", "counter", "Of these bytes, padding.",
                       [](const StageStats& s) { return of(s.padding_bytes); }},
    Metric<StageStats>{"penstock_stage_busy_seconds_total", "counter",
                       "Time of work in the stage, summed over threads.",
                       [](const StageStats& s) { return s.busy_s; }},
    Metric<StageStats>{"penstock_stage_wait_seconds_total", "counter",
                       "Time that the stage's own thread waited.",
                       [](const StageStats& s) { return s.wait_s; }},
};

constexpr std::array kTowerMetrics{
    Metric<TowerStats>{"penstock_tower_steps_total", "counter", "Steps that the tower took.",
                       [](const TowerStats& t) { return of(t.steps); }},
    Metric<TowerStats>{"penstock_tower_elements_total", "counter", "Elements in those steps.",
                       [](const TowerStats& t) { return of(t.elements); }},
    Metric<TowerStats>{"penstock_tower_step_seconds_total", "counter",
                       "Time that the tower's stream worked on batches.",
                       [](const TowerStats& t) { return t.step_s; }},
    Metric<TowerStats>{
        "penstock_tower_other_seconds_total", "counter",
        "Time in which the tower had not asked for a batch, or waited for its first.",
        [](const TowerStats& t) { return t.other_s; }},
    Metric<TowerStats>{"penstock_tower_copy_seconds_total", "counter",
                       "Time that batches were copied to the tower's device.",
                       [](const TowerStats& t) { return t.copy_s; }},
};

constexpr std::array kRankMetrics{
    Metric<RankFigures>{"penstock_train_steps_total", "counter", "Updates of the variables.",
                        [](const RankFigures& r) { return of(r.steps); }},
    Metric<RankFigures>{"penstock_train_loss", "gauge",
                        "Loss of the rank's own rows, a moving average.",
                        [](const RankFigures& r) { return r.loss; }},
    Metric<RankFigures>{"penstock_train_images_per_second", "gauge",
                        "Images per second of the rank's own towers.",
                        [](const RankFigures& r) { return r.images_per_s; }},
    Metric<RankFigures>{"penstock_train_exchange_seconds_total", "counter",
                        "Time in which gradients were being exchanged.",
                        [](const RankFigures& r) { return r.exchange_s; }},
    Metric<RankFigures>{"penstock_train_exposed_seconds_total", "counter",
                        "Of it, time after the backward passes of the rank had ended.",
                        [](const RankFigures& r) { return r.exposed_s; }},
};

/// A page of families, one after the other, each with its help.
class Page {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_.append("# HELP ").append(name).append(" ").append(help);
    text_.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
  }

  void sample(const std::vector<Label>& labels, double value) {
    text_ += name_;
    char separator = '{';
    for (const auto& [label, text] : labels) {
      text_ += separator;
      text_.append(label).append("=\"").append(escaped(text)).append("\"");
      separator = ',';
    }
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    if (separator == ',') text_ += '}';
    text_.append(" ").append(digits.data(), end).append("\n");
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : printable(text)) {
      if (c == '\\' || c == '"') out += '\\';
      out += c;
    }
    return out;
  }

  std::string_view name_;
  std::string text_;
};

std::vector<Label> labels_of(const NamedRun& run) {
  return {{"rank", std::to_string(rank_of_process())},
          {"run", std::to_string(run.lane)},
          {"kind", run.feed ? "feed" : "iterator"}};
}

std::vector<Label> with(std::vector<Label> labels, std::string_view name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

template <typename Of, typename Each>
void add(Page& page, const Metric<Of>& metric, const std::vector<NamedRun>& runs,
         const Each& for_each) {
  page.family(metric.name, metric.type, metric.help);
  for (const NamedRun& run : runs)
    for_each(run, [&](const Of& one, const std::vector<Label>& labels) {
      page.sample(labels, metric.value(one));
    });
}

void each_stage(const NamedRun& run, const auto& look) {
  for (const StageStats& stage : run.report.stats.stages)
    look(stage, with(labels_of(run), "stage", stage.name));
}

void each_worker(const NamedRun& run, const auto& look) {
  for (const WorkerStats& worker : run.report.stats.workers)
    look(worker, with(labels_of(run), "worker", worker.address));
}

void each_tower(const NamedRun& run, const auto& look) {
  for (std::size_t t = 0; t < run.report.towers.size(); ++t) {
    const TowerStats& tower = run.report.towers[t];
    look(tower, with(with(labels_of(run), "tower", std::to_string(t)), "device", tower.device));
  }
}

void add_causes(Page& page, const std::vector<NamedRun>& runs, CounterFloor& floor) {
  page.family("penstock_tower_stall_seconds_total", "counter",
              "Time that the tower waited for a batch, by what it waited for.");
  for (const NamedRun& run : runs)
    each_tower(run, [&](const TowerStats& tower, const std::vector<Label>& labels) {
      const std::string& number = labels[labels_of(run).size()].second;
      for (const auto& [cause, seconds] : tower.causes)
        page.sample(with(labels, "cause", cause),
                    floor.of(std::to_string(run.number) + "/" + number + "/" + cause, seconds));
    });
  page.family("penstock_tower_gain_seconds", "gauge",
              "Time by which the tower would have been done sooner without the cause.");
  for (const NamedRun& run : runs)
    each_tower(run, [&](const TowerStats& tower, const std::vector<Label>& labels) {
      for (const auto& [cause, seconds] : tower.gains)
        page.sample(with(labels, "cause", cause), seconds);
    });
}

/// Adds this process's requests to servers, for all runs together.
void add_servers(Page& page) {
  const RemoteStats remote = remote_stats();
  for (const Metric<RemoteStats>& metric : kRemoteMetrics) {
    page.family(metric.name, metric.type, metric.help);
    page.sample({}, metric.value(remote));
  }
}

void add_ranks(Page& page, const std::vector<RankFigures>& ranks) {
  for (const Metric<RankFigures>& metric : kRankMetrics) {
    page.family(metric.name, metric.type, metric.help);
    for (const RankFigures& rank : ranks)
      page.sample({{"rank", std::to_string(rank.rank)}}, metric.value(rank));
  }
  page.family("penstock_train_stall_share", "gauge",
              "Share of the tower's time that it waited for a batch.");
  for (const RankFigures& rank : ranks)
    for (const RankFigures::Tower& tower : rank.towers)
      page.sample({{"rank", std::to_string(rank.rank)}, {"tower", std::to_string(tower.number)}},
                  tower.stall_share());
}

void add_verdicts(Page& page, const std::vector<NamedRun>& runs) {
  page.family("penstock_verdict_gain_seconds", "gauge",
              "Time saved if the main limit of the run, given by label cause, were removed.");
  for (const NamedRun& run : runs) {
    const Verdict said = verdict(run.report);
    page.sample(with(labels_of(run), "cause", said.cause.empty() ? "unknown" : said.cause),
                said.gain_s);
  }
}

}  // namespace

double CounterFloor::of(const std::string& series, double value) {
  Last& last = series_[series];
  last.seen = true;
  last.value = std::max(last.value, value);
  return last.value;
}

void CounterFloor::end_of_page() {
  std::erase_if(series_, [](const auto& one) { return !one.second.seen; });
  for (auto& [name, last] : series_) last.seen = false;
}

std::string metrics_text(const std::vector<NamedRun>& runs, CounterFloor& floor) {
  Page page;
  page.family("penstock_build_info", "gauge",
              "Always 1; labels give the version of Penstock and the process of the job.");
  page.sample({{"version", version()},
               {"process", std::to_string(::getpid())},
               {"rank", std::to_string(rank_of_process())}},
              1);
  page.family("penstock_process_cpu_seconds_total", "counter",
              "User and system time of all threads of the process.");
  page.sample({}, cpu_seconds());
  for (const Metric<RunReport>& metric : kRunMetrics)
    add(page, metric, runs,
        [](const NamedRun& run, const auto& look) { look(run.report, labels_of(run)); });
  for (const Metric<StageStats>& metric : kStageMetrics)
    add(page, metric, runs, [](const NamedRun& run, const auto& look) { each_stage(run, look); });
  add_servers(page);
  for (const Metric<WorkerStats>& metric : kWorkerMetrics)
    add(page, metric, runs, [](const NamedRun& run, const auto& look) { each_worker(run, look); });
  page.family("penstock_workers_wanted", "gauge",
              "Input workers that would end the consumer's wait, as far as more of them can.");
  for (const NamedRun& run : runs) page.sample(labels_of(run), workers_wanted(run.report));
  for (const Metric<TowerStats>& metric : kTowerMetrics)
    add(page, metric, runs, [](const NamedRun& run, const auto& look) { each_tower(run, look); });
  add_causes(page, runs, floor);
  floor.end_of_page();
  add_verdicts(page, runs);
  add_ranks(page, published());
  return page.take();
}

}  // namespace penstock
