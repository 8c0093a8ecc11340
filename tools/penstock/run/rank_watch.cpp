#include "tools/penstock/run/rank_watch.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "report/trace.h"

namespace penstock::tool {
namespace {

double seconds(std::int64_t ns) {
  return 1e-9 * static_cast<double>(ns);
}

std::vector<RankFigures> parsed(const std::vector<std::string>& texts) {
  std::vector<RankFigures> all;
  for (const std::string& text : texts)
    if (std::optional<RankFigures> figures = parse_figures(text))
      all.push_back(*std::move(figures));
  std::ranges::sort(all, {}, &RankFigures::rank);
  return all;
}

/// Returns text that fits into a sign of life. With very many towers, leaves out their single
/// figures.
std::string short_text(const RankFigures& figures) {
  constexpr std::size_t kMost = std::size_t{16} << 10;
  std::string text = to_text(figures);
  if (text.size() <= kMost) return text;
  RankFigures fewer = figures;
  fewer.towers.clear();
  return to_text(fewer);
}

}  // namespace

void RankWatch::on_step(const towers::StepReport& report, Time now) {
  const bool first = steps_ == 0;
  if (first) began_ = now;
  steps_ = report.step + 1;
  // The duration of the first step is not known; it would include all the preparations.
  if (!first) rows_ += static_cast<std::uint64_t>(report.own_rows);
  loss_ = first ? report.own_loss : 0.95 * loss_ + 0.05 * report.own_loss;
}

RankFigures RankWatch::own(const FeedStats& feed, Time now) const {
  RankFigures figures;
  figures.rank = job_ == nullptr ? 0 : job_->rank();
  figures.steps = steps_;
  figures.loss = loss_;
  if (steps_ > 0) figures.wall_s = std::chrono::duration<double>(now - began_).count();
  if (figures.wall_s > 0) figures.images_per_s = static_cast<double>(rows_) / figures.wall_s;
  const towers::StrategyStats exchange = trainer_.strategy().stats();
  figures.exchange_s = exchange.exchange_s;
  figures.exposed_s = exchange.exposed_s;
  if (job_ != nullptr) {
    const std::int64_t within_ns = job_->clock().within_ns;
    figures.clock_within_s = within_ns < 0 ? -1 : seconds(within_ns);
  }
  const int first = figures.rank * static_cast<int>(feed.towers.size());
  for (const TowerStats& tower : feed.towers)
    figures.towers.push_back({first + static_cast<int>(figures.towers.size()), tower.device,
                              tower.steps, tower.stall_s, tower.wall_s});
  return figures;
}

const std::vector<RankFigures>& RankWatch::look(const FeedStats& feed, Time now) {
  RankFigures mine = own(feed, now);
  if (job_ != nullptr) job_->say(short_text(mine));
  known_ = job_ != nullptr && mine.rank == 0 ? parsed(job_->said()) : std::vector<RankFigures>();
  // This rank's last message may not have been sent yet.
  std::erase_if(known_, [&](const RankFigures& each) { return each.rank == mine.rank; });
  known_.insert(known_.begin(), std::move(mine));
  publish(known_);
  return known_;
}

std::vector<RankFigures> RankWatch::gather(const FeedStats& feed, Time now) {
  RankFigures mine = own(feed, now);
  std::vector<RankFigures> all;
  if (job_ == nullptr) {
    all.push_back(std::move(mine));
  } else {
    all = parsed(job_->gather_texts(to_text(mine)));
  }
  publish(all);
  return all;
}

std::string RankWatch::gather_trace() {
  const int rank = job_ == nullptr ? 0 : job_->rank();
  TraceProcess process{.number = rank + 1, .name = "rank " + std::to_string(rank)};
  if (job_ == nullptr) {
    process.origin_ns = trace_start_ns();
    return joined_trace({trace_events_so_far(process)});
  }
  const cluster::ClockOffset told = job_->clock();
  const cluster::ClockOffset measured = job_->measure_clock();
  const bool nearer = told.within_ns >= 0 && told.within_ns < measured.within_ns;
  process.ahead_ns = (nearer ? told : measured).ahead_ns;
  // The trace begins when the first rank began.
  const std::vector<std::string> starts =
      job_->gather_texts(std::to_string(trace_start_ns() + process.ahead_ns));
  std::int64_t origin = INT64_MAX;
  for (const std::string& text : starts) {
    std::int64_t start = INT64_MAX;
    std::from_chars(text.data(), text.data() + text.size(), start);
    origin = std::min(origin, start);
  }
  process.origin_ns = origin;
  return joined_trace(job_->gather_texts(trace_events_so_far(process)));
}

}  // namespace penstock::tool
