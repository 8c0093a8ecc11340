#include "staging/batch_spans.h"

#include <cstdint>
#include <new>

#include "pipeline/core/spans.h"

namespace penstock {

void note_spans(const std::string& tower, const BatchTimes& times) noexcept {
  Spans& spans = Spans::of_process();
  if (!spans.on()) return;
  const auto rows = static_cast<std::uint64_t>(times.rows);
  try {
    spans.note_on(tower + ": copies", Spans::Kind::copy, "copy", times.sequence, times.copy_begin,
                  times.ready, rows);
    spans.note_on(tower + ": steps", Spans::Kind::step, "step", times.sequence, times.passed,
                  times.stepped, rows);
  } catch (const std::bad_alloc&) {
    return;  // the batch is left out
  }
}

}  // namespace penstock
