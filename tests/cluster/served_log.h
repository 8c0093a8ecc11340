// The log of the processes of a job with parameter servers.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace penstock::cluster::test {

/// The contents of a log. Each line is written at once and ends with " .":
///
///    begin RUN SERVER P0,P1,…       a server's run begins after these pushes of its replicas
///    took RUN SERVER REPLICA NUMBER the values there contain the push, or it was dropped
///    ids REPLICA NUMBER I,J,…       the elements of the batch
///    told RUN SERVER REPLICA NUMBER the trainer has learnt that its push counts, or was dropped
///    lost                           a process was taken for lost, and its token went to others
///    end STEPS DIGEST
struct ServedLog {
  struct Server {
    std::vector<std::uint64_t> begun{};                ///< pushes of each replica
    std::map<int, std::vector<std::uint64_t>> took{};  ///< of each replica: numbers, in order
    std::map<int, std::set<std::uint64_t>> told{};
  };
  std::vector<std::string> runs{};  ///< in order
  std::map<std::pair<std::string, int>, Server> servers{};
  std::map<std::pair<int, std::uint64_t>, std::vector<int>> ids{};
  int other_ids = 0;  ///< batches whose elements differed between attempts
  int losses = 0;
  std::string end{};  ///< empty: the run did not reach its end
};

ServedLog read_served_log(const std::string& path);

struct PushCount {
  int twice = 0;     ///< pushes that a server took twice in one run
  int left_out = 0;  ///< numbers that a server skipped
  int lost = 0;      ///< pushes that count for a trainer, but that the server did not take
  int missing = 0, repeated = 0;  ///< elements, over all epochs
};

/// `batches`: of each replica, in total. There are `epochs` epochs of `elements` each.
PushCount count_pushes(const ServedLog& log, int replicas, std::uint64_t batches, int elements,
                       int epochs);

}  // namespace penstock::cluster::test
