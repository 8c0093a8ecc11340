#include "report/rank.h"

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <optional>

#include <unistd.h>

#include <penstock/internal/launchers.h>
#include <penstock/report.h>

namespace penstock {
namespace {

std::atomic<int> rank_set{-1};
std::atomic<int> ranks_set{0};
std::atomic<double> exposed_set{-1};

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  int number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || stop != digits.data() + digits.size() || number < 0)
    return std::nullopt;
  return number;
}

}  // namespace

void set_report_rank(int rank, int ranks) noexcept {
  ranks_set.store(ranks, std::memory_order_relaxed);
  rank_set.store(rank, std::memory_order_release);
}

void set_report_exposed(double seconds) noexcept {
  exposed_set.store(seconds, std::memory_order_relaxed);
}

double exposed_seconds() noexcept {
  return exposed_set.load(std::memory_order_relaxed);
}

int rank_of_process() {
  if (const int rank = rank_set.load(std::memory_order_acquire); rank >= 0) return rank;
  for (const char* variable : {kTorchrun.rank, kOpenMpi.rank, kPmixRank, kPmi.rank})
    if (const std::optional<int> rank = number_in(variable)) return *rank;
  // In a batch script outside of a step, Slurm reports the rank of a first process.
  if (!number_in(kSlurmStep)) return 0;
  return number_in(kSlurm.rank).value_or(0);
}

int ranks_of_job() {
  const int rank = rank_of_process();
  if (const int ranks = ranks_set.load(std::memory_order_relaxed); ranks > 0) return ranks;
  for (const LauncherVariables* launcher : {&kTorchrun, &kOpenMpi, &kPmi, &kSlurm}) {
    if (launcher == &kSlurm && !number_in(kSlurmStep)) continue;
    if (number_in(launcher->rank) != rank) continue;
    if (const std::optional<int> ranks = number_in(launcher->world)) return *ranks;
  }
  return 0;
}

std::string with_process(std::string_view pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'p') {
      text += std::to_string(::getpid());
    } else if (next == 'r') {
      text += std::to_string(rank_of_process());
    } else if (next == '%') {
      text += '%';
    } else {
      text += pattern[i];
      continue;
    }
    ++i;
  }
  return text;
}

}  // namespace penstock
