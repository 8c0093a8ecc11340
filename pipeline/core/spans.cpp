#include "pipeline/core/spans.h"

#include <algorithm>
#include <chrono>
#include <new>

#include <unistd.h>

namespace penstock {
namespace {

constexpr std::uint64_t kNoGroup = UINT64_MAX;
thread_local std::uint64_t current_group = kNoGroup;

std::int64_t nanoseconds(std::chrono::steady_clock::time_point time) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::int64_t steady_ns() noexcept {
  return nanoseconds(std::chrono::steady_clock::now());
}

/// Calls `body` and ignores a lack of memory.
template <typename F>
void if_there_is_memory(const F& body) noexcept {
  try {
    body();
  } catch (const std::bad_alloc&) {
    return;  // the span is left out
  }
}

}  // namespace

// Never destroyed: threads may still record spans when the process ends.
Spans& Spans::of_process() noexcept {
  alignas(Spans) static std::byte place[sizeof(Spans)];
  static Spans* const instance = ::new (place) Spans;
  return *instance;
}

void Spans::begin(std::size_t most) noexcept {
  MutexLock lock(mutex_);
  if (on_.load(std::memory_order_relaxed)) return;
  if_there_is_memory([&] {
    mutex_.assert_held();
    trace_.spans.reserve(most);
    trace_.start_ns = steady_ns();
    most_ = most;
    on_.store(true, std::memory_order_relaxed);
  });
}

void Spans::note(Kind kind, std::string_view name, std::int64_t begin_ns, std::int64_t end_ns,
                 std::uint64_t items) noexcept {
  const std::uint64_t group =
      current_group == kNoGroup ? groups_.fetch_add(1, std::memory_order_relaxed) : current_group;
  if (!wanted(group)) return;
  MutexLock lock(mutex_);
  if_there_is_memory([&] {
    mutex_.assert_held();
    add({kind, name_of(name), track_of_thread(kind), group, begin_ns, end_ns, items});
  });
}

void Spans::note_until_now(Kind kind, std::string_view name,
                           std::chrono::steady_clock::time_point begin,
                           std::uint64_t items) noexcept {
  note(kind, name, nanoseconds(begin), steady_ns(), items);
}

void Spans::note_on(const std::string& track, Kind kind, std::string_view name,
                    std::uint64_t sample, std::int64_t begin_ns, std::int64_t end_ns,
                    std::uint64_t items) noexcept {
  if (!wanted(sample)) return;
  MutexLock lock(mutex_);
  if_there_is_memory([&] {
    mutex_.assert_held();
    add({kind, name_of(name), track_of(track), sample, begin_ns, end_ns, items});
  });
}

void Spans::add(Span span) {
  const auto sampled_out = [this](const Span& one) { return !wanted(one.sample); };
  if (trace_.spans.size() >= most_) {
    one_of_.store(2 * one_of_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    std::erase_if(trace_.spans, sampled_out);
  }
  if (trace_.spans.size() < most_ && !sampled_out(span)) trace_.spans.push_back(span);
}

std::uint32_t Spans::name_of(std::string_view name) {
  const auto known = names_.find(name);
  if (known != names_.end()) return known->second;
  const auto number = static_cast<std::uint32_t>(trace_.names.size());
  trace_.names.emplace_back(name);
  names_.emplace(name, number);
  return number;
}

std::uint32_t Spans::track_of(const std::string& track) {
  const auto known = tracks_.find(track);
  if (known != tracks_.end()) return known->second;
  const auto number = static_cast<std::uint32_t>(trace_.tracks.size());
  trace_.tracks.push_back(track);
  tracks_.emplace(track, number);
  return number;
}

// A thread is named after the kind of its first span.
std::uint32_t Spans::track_of_thread(Kind first) {
  const int id = ::gettid();
  const auto known = threads_.find(id);
  if (known != threads_.end()) return known->second;
  const std::uint32_t number = track_of(
      (first == Kind::read ? "reading, thread " : "computing, thread ") + std::to_string(id));
  threads_.emplace(id, number);
  return number;
}

Spans::Trace Spans::taken() const {
  MutexLock lock(mutex_);
  Trace trace = trace_;
  trace.one_of = one_of_.load(std::memory_order_relaxed);
  return trace;
}

GroupSpan::GroupSpan(Spans::Kind kind, std::string_view name, std::uint64_t items) noexcept
    : kind_(kind), name_(name), items_(items) {
  Spans& spans = Spans::of_process();
  if (!spans.on()) return;
  outermost_ = current_group == kNoGroup;
  if (outermost_) current_group = spans.groups_.fetch_add(1, std::memory_order_relaxed);
  if (spans.wanted(current_group)) begin_ns_ = steady_ns();
}

GroupSpan::~GroupSpan() {
  if (begin_ns_ != 0) Spans::of_process().note(kind_, name_, begin_ns_, steady_ns(), items_);
  if (outermost_) current_group = kNoGroup;
}

}  // namespace penstock
