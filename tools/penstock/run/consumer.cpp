#include "tools/penstock/run/consumer.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace penstock::tool {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t elements_of(const Element& element) {
  return element.valid_rows >= 0 ? static_cast<std::uint64_t>(element.valid_rows) : 1;
}

}  // namespace

Consumer::Consumer(const ProfileOptions& options, double step_ms, std::uint64_t batch_limit)
    : options_(options), step_s_(step_ms / 1000), batch_limit_(batch_limit) {
  if (options.digest || !options.digests_file.empty()) digest_ = std::make_unique<Digest>();
  if (!options.digests_file.empty()) {
    digests_.open(options.digests_file, std::ios::trunc);
    if (!digests_)
      throw Error(ErrorCode::unavailable, "can't write", Provenance{options.digests_file});
  }
  if (options.dump_count > 0)
    dump_ = std::make_unique<Dump>(options.dump_folder, options.dump_count);
}

void Consumer::consume(Iterator& iterator, Report& report) {
  const auto start = Clock::now();
  const bool takes = digest_ || dump_ || step_s_ > 0;
  for (std::uint64_t epoch = 0, batch = 0;;) {
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
      report.epochs = epoch + 1;
      if (!iterator.next_epoch()) break;
      ++epoch;
      batch = 0;
      continue;
    }
    if (report.batches == 0)
      report.first_batch_s = std::chrono::duration<double>(got - start).count();
    const Element& element = next.value();
    ++report.batches;
    report.epochs = epoch + 1;
    report.elements += elements_of(element);
    delivered_.store(report.batches, std::memory_order_relaxed);
    if (takes) take(element, epoch, batch, report);
    ++batch;
    const bool late = options_.limit_s > 0 && since(start) >= options_.limit_s;
    if (report.batches == batch_limit_ || late) {
      report.ending = Ending::batch_limit;
      break;
    }
  }
  report.wall_s = since(start);
  if (digest_) report.digest = digest_->total();
  if (digests_.is_open() && !digests_.flush())
    throw Error(ErrorCode::unavailable, "can't write", Provenance{options_.digests_file});
}

void Consumer::take(const Element& element, std::uint64_t epoch, std::uint64_t batch,
                    Report& report) {
  const auto start = Clock::now();
  if (digest_) {
    const std::uint64_t digest = digest_->add(element);
    if (digests_.is_open())
      digests_ << epoch << ' ' << batch << ' ' << elements_of(element) << ' ' << hex16(digest)
               << '\n';
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
