// One pass over all records.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <penstock/dataset.h>

#include "tools/penstock/support/interrupts.h"

namespace penstock::tool {

struct PassResult {
  std::uint64_t good = 0;
  std::uint64_t bad = 0;
  std::vector<Error> errors;  ///< the first `keep` errors
  bool interrupted = false;
};

struct PassOptions {
  std::string title;          ///< of the live view
  int threads = 0;            ///< 0: all cores
  std::uint64_t keep = 1000;  ///< errors to keep
  bool quiet = false;
  std::uint64_t memory_bytes = 0;  ///< see RunOptions
};

/// Goes through the dataset once, and continues after bad records. `visit` is called for each good
/// one, in order. Throws Error{resource_exhausted} if there is too little memory for a record,
/// which says nothing about the record.
PassResult skip(const Dataset& dataset, const PassOptions& options, Interrupts& interrupts,
                const std::function<void(const Element&)>& visit);

}  // namespace penstock::tool
