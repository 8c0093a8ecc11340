// What batches, values and errors come of elements that are made one after the other: what the
// engine must give, whoever makes them when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

namespace penstock::test {

/// What becomes of an element. One that finds no memory fails as any other does.
enum class Made : std::uint8_t { good, failed, starved };

struct SequentialOptions {
  std::size_t rows = 0;  ///< of a batch; 0: values alone
  bool drop_remainder = false;
  bool skip = false;  ///< OnError::skip; else fail
  std::uint64_t max_errors = UINT64_MAX;
  double max_error_share = 1.0;
};

/// One call of `next`. Elements are numbered from 0.
struct SequentialOutput {
  enum class Kind : std::uint8_t {
    elements,  ///< a batch, or a value
    error,     ///< of one element
    over,      ///< of the one that exceeds the error budget: the end follows
    end
  } kind = Kind::end;
  std::vector<std::uint64_t> elements{};  ///< the rows in order, or the one that failed
  std::uint64_t consumed = 0;             ///< elements up to here: a restored run begins with this
  std::uint64_t skipped = 0;              ///< bad ones among them that were passed over

  friend bool operator==(const SequentialOutput&, const SequentialOutput&) = default;
};

/// "0 1 (2, 0)": the elements, and what was consumed and skipped.
inline std::ostream& operator<<(std::ostream& out, const SequentialOutput& output) {
  constexpr const char* kNames[] = {"", "E", "over ", "end"};
  out << kNames[static_cast<std::size_t>(output.kind)];
  for (std::size_t i = 0; i < output.elements.size(); ++i) {
    out << (i > 0 ? " " : "") << output.elements[i];
  }
  return out << " (" << output.consumed << ", " << output.skipped << ")";
}

/// All outputs; the last is the end.
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
      ++skipped;
      const bool too_large_share =
          seen >= 100 &&
          static_cast<double>(skipped) > options.max_error_share * static_cast<double>(seen);
      if (skipped <= options.max_errors && !too_large_share) continue;
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
