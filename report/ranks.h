// The figures that the processes of a training job report about themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// The figures of one rank.
struct RankFigures {
  struct Tower {
    int number = 0;  ///< among the towers of all ranks
    std::string device{};
    std::uint64_t steps = 0;
    double stall_s = 0;
    double wall_s = 0;

    double stall_share() const noexcept { return wall_s > 0 ? stall_s / wall_s : 0; }
  };
  int rank = 0;
  std::uint64_t steps = 0;    ///< updates of the variables
  double loss = 0;            ///< of its own rows, as a decaying average
  double images_per_s = 0;    ///< of its own towers
  double wall_s = 0;          ///< since its first step
  double exchange_s = 0;      ///< during which gradients were exchanged
  double exposed_s = 0;       ///< the part of it in which no backward pass of this rank ran
  double clock_within_s = 0;  ///< bound for its error in rank 0's clock; below 0: unknown
  std::vector<Tower> towers{};

  double exposed_share() const noexcept { return wall_s > 0 ? exposed_s / wall_s : 0; }
  /// Returns the stall share of the tower that stalls most.
  double stall_share() const noexcept;
};

/// Convert to and from JSON in one line. Parsing returns nothing for text that is not such figures.
std::string to_text(const RankFigures& figures);
std::optional<RankFigures> parse_figures(std::string_view text);
/// Returns a JSON array of the figures.
std::string ranks_json(const std::vector<RankFigures>& ranks);

/// Sets the figures that this process's metrics show from now on: on rank 0 those of all ranks,
/// elsewhere its own. Thread-safe.
void publish(std::vector<RankFigures> ranks);
std::vector<RankFigures> published();

}  // namespace penstock
