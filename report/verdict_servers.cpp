// The verdict on servers of data, for a run that waits for them.
#include <algorithm>
#include <string>

#include "report/format.h"
#include "report/verdict.h"

namespace penstock {

std::string servers_help(const RunReport& report) {
  constexpr double kMany = 0.8;         // of the requests allowed at once
  constexpr double kOften = 0.01;       // of the answers
  constexpr double kMostlyBytes = 0.5;  // of the time of a request
  const RemoteStats& remote = *report.remote;
  const auto requests = static_cast<double>(remote.requests);
  const double time_s = report.build_s + report.wall_s;  // shards are scanned first
  const double under_way = remote.waiting_s / time_s;
  const double each_s = remote.waiting_s / requests;
  std::string text = "it waits for servers (" + human_count(under_way) +
                     " requests at once on average, " +
                     human_bytes(static_cast<double>(remote.bytes) / time_s) + "/s in all, " +
                     human_seconds(each_s) + " each), and ";
  if (static_cast<double>(remote.throttled) > kOften * requests)
    return text + "they throttled it " + grouped(remote.throttled) +
           " times: a server with a higher limit, or " + knobs(report).cache + ", would help";
  const bool many = under_way > kMany * static_cast<double>(remote.connections);
  // For most of a request's time, its answer arrives: the network, or the server's network, is
  // full.
  if (each_s - 1e-3 * remote.latency_ms > kMostlyBytes * each_s && remote.latency_ms > 0)
    return text + "mostly for data to arrive: a faster network, or " + knobs(report).cache +
           ", would help";
  if (many) return text + "more " + knobs(report).connections + " or larger records would help";
  return text + "mostly for answers to begin: reading further ahead (" + knobs(report).memory +
         ", " + knobs(report).io_threads + ") or " + knobs(report).cache + " would help";
}

}  // namespace penstock
