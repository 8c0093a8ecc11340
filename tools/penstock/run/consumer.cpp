#include "tools/penstock/run/consumer.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <penstock/log.h>

#include "pipelines/numbers.h"

namespace penstock::tool {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostAudits = 10'000;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t elements_of(const Element& element) {
  return element.valid_rows >= 0 ? static_cast<std::uint64_t>(element.valid_rows) : 1;
}

}  // namespace

Consumer::Consumer(const ProfileOptions& options, double step_ms, std::uint64_t batch_limit,
                   Progress start)
    : options_(options),
      step_s_(step_ms / 1000),
      batch_limit_(batch_limit),
      progress_(std::move(start)) {
  if (options.digest || !options.digests_file.empty()) {
    digest_ = std::make_unique<Digest>();
    epoch_digest_ = std::make_unique<Digest>();
  }
  if (!progress_.iterator.empty() && !progress_.foreign) {
    resume();
  } else if (!options.digests_file.empty()) {
    digests_.emplace(options.digests_file);
  }
  if (options.dump_count > 0)
    dump_ = std::make_unique<Dump>(options.dump_folder, options.dump_count);
}

void Consumer::resume() {
  const std::vector<DigestLine> lines = digests_in(options_.digests_file, progress_.log_bytes);
  std::uint64_t elements = 0;
  for (const DigestLine& line : lines) {
    digest_->add_known(line.digest);
    elements += line.elements;
    if (line.epoch == progress_.epoch) epoch_digest_->add_known(line.digest);
  }
  const bool begun = !lines.empty() && lines.back().epoch == progress_.epoch;
  if (digest_->total() != progress_.digest || lines.size() != progress_.batches ||
      elements != progress_.elements || (begun && lines.back().batch + 1 != progress_.batch))
    throw Error(
        ErrorCode::data_loss,
        "the batches in the file differ from those before the position in " + options_.state_file,
        Provenance{options_.digests_file});
  digests_.emplace(options_.digests_file, progress_.log_bytes);
}

void Consumer::save(Iterator& iterator, Report& report) {
  if (options_.state == nullptr) return;
  const auto start = Clock::now();
  digests_->sync();
  progress_.log_bytes = digests_->bytes();
  progress_.digest = digest_->total();
  progress_.iterator = iterator.save();
  report.state_bytes = std::max<std::uint64_t>(report.state_bytes, progress_.iterator.size());
  save_progress(*options_.state, progress_);
  report.digest_s += since(start);
}

void Consumer::consume(Iterator& iterator, Report& report) {
  const auto start = Clock::now();
  const bool takes = digest_ || dump_ || step_s_ > 0;
  report.epochs = progress_.epoch + 1;
  if (batch_limit_ > 0 && progress_.batches >= batch_limit_) {
    report.ending = Ending::batch_limit;
  } else {
    for (;;) {
      const auto asked = Clock::now();
      Next next = iterator.next();
      const auto got = Clock::now();
      report.wait_s += std::chrono::duration<double>(got - asked).count();
      if (next.is_error()) {
        report.failure = next.error();
        report.ending =
            next.error().code() == ErrorCode::cancelled ? Ending::interrupted : Ending::failed;
        break;
      }
      if (next.is_end()) {
        audit(iterator, report);
        if (!iterator.next_epoch()) break;
        report.epochs = ++progress_.epoch + 1;
        progress_.batch = 0;
        continue;
      }
      if (report.batches == 0)
        report.first_batch_s = std::chrono::duration<double>(got - start).count();
      const Element& element = next.value();
      ++report.batches;
      report.elements += elements_of(element);
      delivered_.store(report.batches, std::memory_order_relaxed);
      if (takes) take(element, report);
      ++progress_.batch;
      ++progress_.batches;
      progress_.elements += elements_of(element);
      if (progress_.batches % options_.save_every == 0) save(iterator, report);
      const bool late = options_.limit_s > 0 && since(start) >= options_.limit_s;
      if (progress_.batches == batch_limit_ || late) {
        report.ending = Ending::batch_limit;
        break;
      }
    }
  }
  // Does not save after an error: a resumed run must meet it again.
  if (report.ending != Ending::failed) save(iterator, report);
  report.wall_s = since(start);
  if (digest_) report.digest = digest_->total();
  if (digests_) digests_->sync();
}

namespace {

/// Warns of an epoch in which some element was not delivered exactly once.
void warn_of(const EpochStats& epoch) {
  if (epoch.skipped == 0 && epoch.missing <= 0 && epoch.repeated <= 0) return;
  std::string line = "epoch " + std::to_string(epoch.epoch) + ": " +
                     plural(epoch.elements, "element", "elements") + " in " +
                     plural(epoch.batches, "batch", "batches") + ", " +
                     plural(epoch.skipped, "bad one", "bad ones") + " skipped";
  if (epoch.missing > 0)
    line += ", " + grouped(static_cast<std::uint64_t>(epoch.missing)) + " missing";
  if (epoch.repeated > 0)
    line += ", " + grouped(static_cast<std::uint64_t>(epoch.repeated)) + " too many";
  log(LogLevel::warning, line);
}

}  // namespace

void Consumer::audit(const Iterator& iterator, Report& report) {
  const std::vector<EpochStats> ended = iterator.stats().epochs;
  EpochAudit audit;
  if (ended.empty()) return;  // the epoch had ended before this run began
  audit.counts = ended.back();
  if (!options_.quiet) warn_of(audit.counts);
  if (epoch_digest_) audit.digest = epoch_digest_->total();
  if (epoch_digest_) epoch_digest_ = std::make_unique<Digest>();
  if (report.audit.size() < kMostAudits) report.audit.push_back(audit);
}

void Consumer::take(const Element& element, Report& report) {
  const auto start = Clock::now();
  if (digest_) {
    const std::uint64_t digest = digest_->add(element);
    epoch_digest_->add_known(digest);
    if (digests_) digests_->add(progress_.epoch, progress_.batch, elements_of(element), digest);
  }
  if (dump_) dump_->add(element);
  report.digest_s += since(start);
  if (step_s_ > 0) {
    const auto begun = Clock::now();
    step();
    report.step_s += since(begun);
  }
}

void Consumer::step() const {
  constexpr double kSlice_s = 0.05;
  const auto start = Clock::now();
  for (double left = step_s_; left > 0 && !stopped_.load(std::memory_order_acquire);
       left = step_s_ - since(start))
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kSlice_s)));
}

}  // namespace penstock::tool
