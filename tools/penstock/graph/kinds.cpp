#include "tools/penstock/graph/kinds.h"

#include <penstock/iterator.h>

#include "tools/penstock/graph/parameters.h"

namespace penstock::tool {

const Kind& run_kind() {
  static const Kind kind{
      "run",
      "",
      {count("epochs", "times the graph is run (default 1)"),
       count("seed", "of every random number", true, 0),
       {"threads", ValueType::integer, "compute threads (default: all)", true, 1, kMostThreads},
       {"memory", ValueType::bytes,
        "host bytes of slots and everything in flight (default: a quarter of the container's "
        "memory, at most 2GiB)",
        true, 1, kMostCount},
       {"slots", ValueType::integer, "batches prepared ahead", true, 1, 1e6},
       text(
           "io",
           "how files are read (default pread); with mmap a file that is cut while it is used ends "
           "the run",
           {"pread", "io_uring", "mmap"}),
       {"io_threads", ValueType::integer, "threads that wait for files", true, 1, kMostIoThreads},
       text("jpeg_backend",
            "who decodes JPEGs, with the same pixels (default auto: own where it is faster)",
            {"auto", "own", "libjpeg-turbo"}),
       count("batches", "stop after this many batches"),
       text("on_error", "what a bad element does", {"fail", "skip", "retry"}),
       {"max_errors", ValueType::budget,
        "with skip: how many bad elements end the run after all (default: any number)"},
       {"retries", ValueType::integer,
        "times that a read which failed for the moment is done again (default: 4 with retry, else "
        "0)",
        true, 0, 1000},
       text("quarantine", "with skip: append bad records to this file, as JSON lines", {}),
       {"step_ms", ValueType::number, "simulate a consumer that takes this long for each batch",
        true, 0, 1e6}}};
  return kind;
}

const Kind* find_kind(const std::vector<Kind>& kinds, std::string_view name) noexcept {
  for (const Kind& kind : kinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace penstock::tool
