// Reads answers of a parameter server, independent of the transport.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "cluster/net/parameter_answers.h"
#include "cluster/net/parameters.pb.h"
#include "towers/servers/parameter_server.h"

namespace penstock::cluster {

/// The memory that values are written to. If a question is asked again, its values go to the same
/// memory as in the first attempt.
class Places {
 public:
  /// `taker` receives the values; null if none are requested.
  explicit Places(towers::Takers* taker) : taker_(taker) {}
  /// Returns the memory for these values. Throws Error{mismatch} for values that were not
  /// requested, and what the taker throws.
  float* of(std::uint32_t variable, std::uint64_t count);

 private:
  towers::Takers* const taker_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, float*> places_;
};

enum class Reading {
  whole,
  broken,  ///< nothing arrived, or the answer is incomplete
  odd,     ///< not an answer
};
/// Reads an answer. Writes values only to memory from `places`, and throws what that throws.
Reading read_answer(Messages& messages, wire::Answer& answer, Places& places);

}  // namespace penstock::cluster
