#include "pipelines/kinds.h"

#include <penstock/iterator.h>

#include "pipelines/parameters.h"
#include "pipelines/text.h"

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
       open_text("remote_list",
                 "a file or URL that names, one a line, what there is on servers of http:// and "
                 "https://, for patterns and folders",
                 "FILE|URL"),
       {"remote_connections", ValueType::integer, "requests to servers at once (default 256)", true,
        1, 1024},
       {"remote_timeout", ValueType::number,
        "seconds that a request to a server takes at most, with all its tries (default 60)", true,
        0.1, 86'400},
       open_text(
           "cache_dir",
           "a folder in which blocks of what was read from servers are kept, for all processes of "
           "this machine (default: none)",
           "DIR"),
       {"cache_bytes", ValueType::bytes, "bytes of files in it at most (default 16GiB)", true, 1,
        kMostCount},
       open_text("s3_endpoint",
                 "URL of what speaks S3's protocol (default: $AWS_ENDPOINT_URL, or AWS)", "URL"),
       open_text("s3_region", "of s3:// (default: $AWS_REGION, the profile's, or us-east-1)",
                 "NAME"),
       text("s3_addressing",
            "where the bucket's name stands in requests: in front of the host or in the path "
            "(default auto: the profile's, else virtual at AWS and path elsewhere)",
            {"auto", "virtual", "path"}),
       flag("requester_pays", "pay for requests of s3:// (default false)"),
       flag("s3_anonymous", "read s3:// without credentials (default false)"),
       flag("insecure", "take any certificate of a server (default false)"),
       text("jpeg_backend",
            "who decodes JPEGs, with the same pixels (default auto: own where it is faster)",
            {"auto", "own", "libjpeg-turbo"}),
       open_text(
           "simd",
           "no better SIMD instructions than these (default auto: the best of this machine): AVX2, "
           "SSE4, ...",
           "NAME"),
       count("batches", "stop after this many batches"),
       text("on_error", "what a bad element does", {"fail", "skip", "retry"}),
       {"max_errors", ValueType::budget,
        "with skip: how many bad elements end the run after all (default: any number)"},
       {"retries", ValueType::integer,
        "times that a read which failed for the moment is done again (default: 4 with retry, else "
        "0)",
        true, 0, 1000},
       open_text("quarantine", "with skip: append bad records to this file, as JSON lines", "FILE"),
       flag("trust_data",
            "take states and caches of files with the same names and sizes, unread, and objects of "
            "a "
            "server by their size and Last-Modified, whatever their ETags (default false)"),
       open_text("workers",
                 "input workers (penstock serve): HOST:PORT,... or etcd://HOST:PORT/PREFIX",
                 "LIST"),
       {"local_threads", ValueType::integer,
        "with workers: threads that make elements here beside them (default: all; 0: none)", true,
        0, kMostThreads},
       {"worker_timeout", ValueType::number,
        "seconds without a sign of life after which a worker is lost (default 10)", true, 0.01,
        86400},
       text(
           "wire",
           "with workers: lz4 has those of other machines compress what they send where that pays, "
           "tcp has those of this machine send it over TCP, too (default none)",
           {"none", "lz4", "tcp"}),
       open_text("tls_cert", "with workers: PEM, of this process", "FILE"),
       open_text("tls_key", "PEM, of that certificate", "FILE"),
       open_text("tls_ca", "PEM, whose certificates are believed", "FILE"),
       open_text("token_file", "holds the token of workers; beyond loopback one is needed", "FILE"),
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
