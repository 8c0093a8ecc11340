// The position of a feed's input, as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// A position between two steps.
struct StepPosition {
  bool epoch_over = false;  ///< the next step is the end of this epoch
  bool opened = false;      ///< the next epoch has been opened
  std::uint64_t epoch = 0;
  std::uint64_t lost = 0;
  std::uint64_t wrapped = 0;
  std::vector<std::string> sources{};  ///< BatchSource::save of each

  std::string encode() const;
  /// Reads what `encode` wrote. Throws Error{data_loss}.
  static StepPosition decode(std::string_view bytes);
};

}  // namespace penstock
