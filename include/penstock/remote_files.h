// Data on servers: every file system takes paths that begin with http://, https://, s3:// or gs://.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <penstock/file_system.h>

namespace penstock {

/// The way in which everything in this process reads and writes remote files.
struct RemoteOptions {
  /// A file, or the URL of one, with the names of the data, one a line: URLs, or names relative to
  /// the location of the list. HTTP can't list folders; with a list, patterns and folders work.
  std::string list;
  /// Requests in flight at once. A server that throttles (429, 503) gets fewer per second for a
  /// while.
  std::size_t connections = 256;
  /// Number of retries of a request after a broken connection, an invalid answer, 408, 429 or 5xx.
  /// Each retry comes after a longer wait with a random part. A throttled request does not count as
  /// long as the server gives good answers to others. If a read fails for good,
  /// RunOptions::retries decides whether the run repeats it.
  int retries = 5;
  /// The first of these waits. The longest is five seconds, or the time that the server asks for.
  std::chrono::milliseconds retry_wait{100};
  /// Hedge slow requests: if an answer takes much longer than similar ones, send the request again
  /// and take the first answer. Limited to one request in fifty. Switch it off where requests cost
  /// more than waiting does.
  bool hedge = true;
  /// Time limit of one request with all its retries, from when it is sent first. A request may take
  /// a second longer for each 64 KiB of it, if they come. Listing takes no longer for each 1,000
  /// names.
  std::chrono::milliseconds deadline{60'000};
  /// A connection that delivers less than 1 KiB a second for this time has failed.
  std::chrono::milliseconds stall{15'000};
  /// Largest size of one request in bytes. Larger reads are split into several concurrent requests.
  std::size_t most_request_bytes = 4 << 20;
  /// Bytes that all files together read ahead of scans and streams. They come on top of RunOptions'
  /// memory_bytes, which counts the memory of records. 0 disables reading ahead.
  std::size_t read_ahead_bytes = 64 << 20;
  /// Size of a part of a multipart upload. Smaller objects are written by one request. No store
  /// takes parts below 5 MiB, except the last one. The size doubles after each 2,000 parts.
  std::size_t part_bytes = 8 << 20;
  /// Bytes of parts in flight for each object that is written. At least two parts are in flight
  /// whatever this value is.
  std::size_t upload_bytes = 64 << 20;
  /// A local folder that caches blocks of objects for later epochs, runs and other processes. It is
  /// made if it is missing. Empty: nothing is cached.
  std::string cache_dir;
  /// Limit for the bytes of the files in the cache. The least recently used blocks are removed
  /// first.
  std::uint64_t cache_bytes = std::uint64_t{16} << 30;
  /// File of trusted certificates, as PEM. Empty: for s3:// $AWS_CA_BUNDLE and the profile's
  /// ca_bundle; then $CURL_CA_BUNDLE, $SSL_CERT_FILE, else the system's.
  std::string ca_file;
  /// Accept any certificate. A warning is logged.
  bool insecure = false;
  /// Address of the S3 service. Empty: $AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, that of the
  /// profile's services or of the profile, else AWS.
  std::string s3_endpoint;
  /// The place of a bucket's name: "virtual", in front of the host, or "path", first in the path.
  /// Empty, or "auto": the profile's (addressing_style below "s3 ="), else virtual at AWS, and path
  /// elsewhere.
  std::string s3_addressing;
  /// Region of S3. Empty: $AWS_REGION, $AWS_DEFAULT_REGION, the profile's, else us-east-1. A bucket
  /// in another region is found there.
  std::string s3_region;
  /// Take an object of the same size and Last-Modified for the same one, whatever its ETag is.
  /// Otherwise another ETag is another object. For stores whose servers give one object several
  /// ETags.
  bool trust_dates = false;
  /// Sign nothing, for public buckets. Otherwise the credentials for s3:// come from the
  /// environment (AWS_ACCESS_KEY_ID, …), from web identity, from the profile $AWS_PROFILE, or from
  /// the service of the container or the instance; those of services are renewed before they
  /// expire. The credentials for gs:// are GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY.
  bool s3_anonymous = false;
  /// Accept to pay for requests of s3:// and what they transfer, which the owners of some buckets
  /// demand.
  bool requester_pays = false;

  friend bool operator==(const RemoteOptions&, const RemoteOptions&) = default;
};

/// Replaces the process-wide options. Open files keep the options they were opened with. Setting
/// the same options again has no effect. Thread-safe.
void choose_remote(RemoteOptions options);

/// True for paths on a server: http://, https://, s3:// and gs://.
bool is_remote(std::string_view path) noexcept;
/// Returns a number that identifies the contents of a remote file: a hash of its ETag, or else of
/// Last-Modified. Returns 0 if the server sends neither, and for local files.
std::uint64_t version_of(std::string_view path, const FileInfo& info) noexcept;
/// Returns a path without the part of a URL's query that may change from run to run.
std::string_view without_query(std::string_view path) noexcept;
/// True if this build can read remote files, and the module with libcurl can be opened.
bool remote_available() noexcept;

/// Returns a URL whose query or credentials are secret, as those of presigned URLs are, in a form
/// that may be shown and that this process can open. The secrets are kept in memory, and a number
/// stands in their place. Other paths are returned as they are. `glob` returns paths in this form.
/// Thread-safe.
std::string hide_secrets(const std::string& path);

/// Figures of all requests to servers since the process began.
struct RemoteStats {
  std::uint64_t requests = 0;       ///< all requests sent
  std::uint64_t again = 0;          ///< of these, retries of a failed request
  std::uint64_t hedged = 0;         ///< of these, repeated because the answer was late
  std::uint64_t throttled = 0;      ///< throttling answers: 429 and 503
  std::uint64_t bytes = 0;          ///< of bodies received
  std::uint64_t bytes_needed = 0;   ///< requested by readers and not in the cache on disk
  std::uint64_t bytes_cached = 0;   ///< requested by readers and in the cache
  std::uint64_t bytes_written = 0;  ///< of bodies that servers accepted
  double waiting_s = 0;             ///< sum of the durations of all requests
  std::uint64_t connections = 0;    ///< limit for requests in flight
  double requests_per_second = 0;   ///< limit after throttling, of the slowest server; 0: none
  double latency_ms = 0;            ///< recent time from a request to its answer's first byte
  double bytes_per_second = 0;      ///< recent rate of one connection; 0: unknown
};
/// Returns the statistics so far.
RemoteStats remote_stats() noexcept;

}  // namespace penstock
