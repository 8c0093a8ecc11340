#include "staging/host/checker.h"

#include <algorithm>
#include <atomic>

namespace penstock {
namespace {

std::string text_of(const Site& site) {
  const std::string_view path = site.file;
  return std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(site.line);
}

/// Unlike std::thread::id, the number is never reused for another thread.
std::uint64_t this_thread_number() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t number = ++threads;
  return number;
}

}  // namespace

std::string Hazard::to_string() const {
  const std::string first = earlier_actor + " (" + text_of(earlier) + ")";
  const std::string second = later_actor + " (" + text_of(later) + ")";
  switch (kind) {
    case Kind::read_before_ready:
      return "read before its ready event: read by " + second + ", written by " + first;
    case Kind::overwritten_in_use:
      return "overwritten while in use: written by " + second + ", used by " + first;
    case Kind::freed_in_flight:
      break;
  }
  return "freed in flight: freed by " + second + ", used by " + first;
}

void Checker::join(Times& into, const Times& from) {
  into.resize(std::max(into.size(), from.size()));
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

int Checker::add_actor(std::string name) {
  names_.push_back(std::move(name));
  times_.emplace_back();
  return static_cast<int>(names_.size()) - 1;
}

int Checker::add_stream(std::string name) {
  MutexLock lock(mutex_);
  return add_actor("stream " + std::move(name));
}

int Checker::host() {
  const auto [found, added] = threads_.try_emplace(this_thread_number(), 0);
  if (added) found->second = add_actor("host thread " + std::to_string(threads_.size()));
  return found->second;
}

Checker::Times& Checker::tick(int actor) {
  Times& times = times_[static_cast<std::size_t>(actor)];
  times.resize(std::max(times.size(), static_cast<std::size_t>(actor) + 1));
  ++times[static_cast<std::size_t>(actor)];
  return times;
}

void Checker::report(Hazard::Kind kind, const Access& earlier, int actor, const Site& site) {
  if (hazards_.size() >= kMostHazards) return;
  hazards_.push_back({kind, earlier.site, site, names_[static_cast<std::size_t>(earlier.actor)],
                      names_[static_cast<std::size_t>(actor)]});
}

void Checker::check(int actor, Memory memory, bool writes, const Site& site) {
  const Times& now = tick(actor);
  const std::byte* begin = memory.data();
  const std::byte* end = begin + memory.size();
  if (begin == end) return;
  std::erase_if(accesses_, [&](const Access& earlier) {
    mutex_.assert_held();
    if (earlier.end <= begin || earlier.begin >= end) return false;
    const bool ordered = before(earlier, now);
    if (!ordered && earlier.writes && !writes) {
      report(Hazard::Kind::read_before_ready, earlier, actor, site);
    } else if (!ordered && writes) {
      report(Hazard::Kind::overwritten_in_use, earlier, actor, site);
    }
    const bool covered = earlier.begin >= begin && earlier.end <= end;
    return covered && (writes || (!earlier.writes && earlier.actor == actor));
  });
  accesses_.push_back({begin, end, actor, now[static_cast<std::size_t>(actor)], writes, site});
}

void Checker::access(int stream, Memory memory, bool writes, const Site& site) {
  MutexLock lock(mutex_);
  const int thread = host();  // this may add one more
  join(times_[static_cast<std::size_t>(stream)], times_[static_cast<std::size_t>(thread)]);
  check(stream, memory, writes, site);
}

void Checker::host_access(Memory memory, bool writes, const Site& site) {
  MutexLock lock(mutex_);
  check(host(), memory, writes, site);
}

void Checker::record(int stream, const void* event) {
  MutexLock lock(mutex_);
  const int thread = host();
  Times& times = tick(stream);
  join(times, times_[static_cast<std::size_t>(thread)]);
  events_[event] = times;
}

void Checker::wait(int stream, const void* event) {
  MutexLock lock(mutex_);
  const auto found = events_.find(event);
  if (found != events_.end()) join(times_[static_cast<std::size_t>(stream)], found->second);
}

void Checker::saw(const void* event) {
  MutexLock lock(mutex_);
  const auto found = events_.find(event);
  if (found != events_.end()) join(times_[static_cast<std::size_t>(host())], found->second);
}

void Checker::saw_stream(int stream) {
  MutexLock lock(mutex_);
  const int thread = host();
  join(times_[static_cast<std::size_t>(thread)], times_[static_cast<std::size_t>(stream)]);
}

void Checker::forget(const void* event) {
  MutexLock lock(mutex_);
  events_.erase(event);
}

void Checker::hand_over(const void* what) {
  MutexLock lock(mutex_);
  join(handed_[what], tick(host()));
}

void Checker::take_over(const void* what) {
  MutexLock lock(mutex_);
  const auto found = handed_.find(what);
  if (found != handed_.end()) join(times_[static_cast<std::size_t>(host())], found->second);
}

void Checker::freed(Memory memory, const Site& site) {
  MutexLock lock(mutex_);
  const int thread = host();
  const Times& now = tick(thread);
  const std::byte* begin = memory.data();
  const std::byte* end = begin + memory.size();
  std::erase_if(accesses_, [&](const Access& earlier) {
    mutex_.assert_held();
    if (earlier.end <= begin || earlier.begin >= end) return false;
    if (!before(earlier, now)) report(Hazard::Kind::freed_in_flight, earlier, thread, site);
    return true;
  });
}

std::vector<Hazard> Checker::hazards() const {
  MutexLock lock(mutex_);
  return hazards_;
}

}  // namespace penstock
