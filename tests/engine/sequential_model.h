// A model in which elements are made one after the other. Its batches, values and errors are those
// that the engine must give, in whatever order and on whatever threads elements are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

namespace penstock::test {

/// The fate of an element. One that finds no memory fails like any other.
enum class Made : std::uint8_t { good, failed, blocked };

struct SequentialOptions {
  std::size_t rows = 0;  ///< of a batch; 0: values instead of batches
  bool drop_remainder = false;
  bool skip = false;  ///< OnError::skip; else OnError::fail
  std::uint64_t max_errors = UINT64_MAX;
  double max_error_share = 1.0;
};

/// The result of one call of `next`. Elements are numbered from 0.
struct SequentialOutput {
  enum class Kind : std::uint8_t {
    elements,  ///< a batch, or a value
    error,     ///< of one element
    over,      ///< the error that ends a run which skips bad elements; the end follows
    end
  } kind = Kind::end;
  std::vector<std::uint64_t> elements{};  ///< the rows in order, or the failed element
  std::uint64_t consumed = 0;  ///< elements up to here; a restored run begins with this one
  std::uint64_t skipped = 0;   ///< bad elements among these that were skipped

  friend bool operator==(const SequentialOutput&, const SequentialOutput&) = default;
};

/// Prints text such as "0 1 (2, 0)": the elements, and the counts of consumed and skipped ones.
inline std::ostream& operator<<(std::ostream& out, const SequentialOutput& output) {
  constexpr const char* kNames[] = {"", "E", "over ", "end"};
  out << kNames[static_cast<std::size_t>(output.kind)];
  for (std::size_t i = 0; i < output.elements.size(); ++i) {
    out << (i > 0 ? " " : "") << output.elements[i];
  }
  return out << " (" << output.consumed << ", " << output.skipped << ")";
}

/// Returns all outputs; the last one is the end.
inline std::vector<SequentialOutput> sequential(std::span<const Made> elements,
                                                const SequentialOptions& options) {
  using Kind = SequentialOutput::Kind;
  std::vector<SequentialOutput> outputs;
  std::vector<std::uint64_t> rows;  // of the batch that is being filled
  std::uint64_t seen = 0;
  std::uint64_t skipped = 0;
  const auto put = [&](Kind kind, std::vector<std::uint64_t> which) {
    outputs.push_back({kind, std::move(which), seen, skipped});
  };
  for (const Made made : elements) {
    const std::uint64_t element = seen++;
    if (made == Made::good) {
      rows.push_back(element);
      if (options.rows > rows.size()) continue;
      put(Kind::elements, rows);
      rows.clear();
    } else if (!options.skip) {  // the rows in front of it are lost
      rows.clear();
      put(Kind::error, {element});
    } else {
      // Too little memory is no fault of the element.
      const bool lacks_memory = made == Made::blocked;
      skipped += lacks_memory ? 0 : 1;
      const bool too_large_share =
          seen >= 100 &&
          static_cast<double>(skipped) > options.max_error_share * static_cast<double>(seen);
      if (!lacks_memory && skipped <= options.max_errors && !too_large_share) continue;
      put(Kind::over, {element});
      put(Kind::end, {});
      return outputs;
    }
  }
  if (!rows.empty() && !options.drop_remainder) put(Kind::elements, rows);
  put(Kind::end, {});
  return outputs;
}

}  // namespace penstock::test
