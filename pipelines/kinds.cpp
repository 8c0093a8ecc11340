#include "pipelines/kinds.h"

#include <penstock/iterator.h>

#include "pipelines/parameters.h"
#include "pipelines/text.h"

namespace penstock::tool {

const Kind& run_kind() {
  static const Kind kind{
      "run",
      "",
      {count("epochs", "how often to run the graph (default 1)"),
       count("seed", "seed of all random numbers", true, 0),
       {"threads", ValueType::integer, "compute threads (default: all)", true, 1, kMostThreads},
       {"memory", ValueType::bytes,
        "host memory for slots and everything in flight (default: a quarter of the container's "
        "memory, at most 2GiB)",
        true, 1, kMostCount},
       {"slots", ValueType::integer, "batches to prepare ahead", true, 1, 1e6},
       text("io",
            "how files are read (default pread); with mmap, truncating a file in use ends the run",
            {"pread", "io_uring", "mmap"}),
       {"io_threads", ValueType::integer, "threads that read files", true, 1, kMostIoThreads},
       open_text(
           "remote_list",
           "a file or URL that lists the files on http:// and https:// servers, one per line, for "
           "patterns and folders",
           "FILE|URL"),
       {"remote_connections", ValueType::integer,
        "most requests to servers at a time (default 256)", true, 1, 1024},
       {"remote_timeout", ValueType::number,
        "time limit in seconds of a request to a server, with all retries (default 60)", true, 0.1,
        86'400},
       open_text("cache_dir",
                 "a folder that caches blocks read from servers, for all processes on this machine "
                 "(default: none)",
                 "DIR"),
       {"cache_bytes", ValueType::bytes, "size limit of that cache (default 16GiB)", true, 1,
        kMostCount},
       open_text("s3_endpoint",
                 "URL of an S3-compatible service (default: $AWS_ENDPOINT_URL, or AWS)", "URL"),
       open_text("s3_region",
                 "region of s3:// buckets (default: $AWS_REGION, the profile's, or us-east-1)",
                 "NAME"),
       text("s3_addressing",
            "where requests put the bucket's name: before the host name or in the path (default "
            "auto: the profile's setting, else virtual for AWS and path elsewhere)",
            {"auto", "virtual", "path"}),
       flag("requester_pays", "pay for requests to s3:// buckets (default false)"),
       flag("s3_anonymous", "read s3:// without credentials (default false)"),
       flag("insecure", "accept any server certificate (default false)"),
       text("jpeg_backend",
            "JPEG decoder; all give the same pixels (default auto: own where it is faster)",
            {"auto", "own", "libjpeg-turbo"}),
       open_text(
           "simd",
           "newest SIMD instructions to use (default auto: the best of this machine): AVX2, SSE4, "
           "...",
           "NAME"),
       count("batches", "stop after this many batches"),
       text("on_error", "how to handle a bad element (default fail)", {"fail", "skip", "retry"}),
       {"max_errors", ValueType::budget,
        "with skip: end the run after more bad elements than this (default: no limit)"},
       {"retries", ValueType::integer,
        "how often to retry a read after a transient failure (default: 4 with retry, else 0), and "
        "a request to a server (default: 5)",
        true, 0, 1000},
       open_text("quarantine", "with skip: append bad records to this file, as JSON lines", "FILE"),
       flag("trust_data",
            "accept states and caches if the files have the same names and sizes, without reading "
            "them, and objects on servers by their size and Last-Modified, whatever their ETags "
            "(default false)"),
       open_text("workers",
                 "input workers (penstock serve): HOST:PORT,... or etcd://HOST:PORT/PREFIX",
                 "LIST"),
       {"local_threads", ValueType::integer,
        "with workers: threads of this process that make elements too (default: all; 0: none)",
        true, 0, kMostThreads},
       {"worker_timeout", ValueType::number,
        "seconds without a heartbeat after which a worker counts as lost (default 10)", true, 0.01,
        86400},
       text("wire",
            "with workers: lz4 lets those on other machines compress what they send where that "
            "pays; tcp lets those on this machine use TCP too (default none)",
            {"none", "lz4", "tcp"}),
       open_text("tls_cert", "with workers: PEM file with this process's certificate", "FILE"),
       open_text("tls_key", "PEM file with the private key of that certificate", "FILE"),
       open_text("tls_ca", "PEM file with the trusted CA certificates", "FILE"),
       open_text("token_file", "file with the workers' token; required beyond loopback", "FILE"),
       {"step_ms", ValueType::number, "simulate a consumer that takes this long for each batch",
        true, 0, 1e6}}};
  return kind;
}

const Kind* find_kind(const std::vector<Kind>& kinds, std::string_view name) noexcept {
  for (const Kind& kind : kinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

std::string source_flags() {
  List flags;
  for (const Kind& kind : source_kinds()) flags.push_back(kind.flag());
  return join(flags, ", ");
}

}  // namespace penstock::tool
