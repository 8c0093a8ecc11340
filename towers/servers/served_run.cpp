#include "towers/servers/served_run.h"

#include <algorithm>

#include <penstock/error.h>

namespace penstock::towers {
namespace {

[[noreturn]] void refuse_run(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "a run can't begin: " + why);
}

const Beginning& checked_beginning(const Beginning& begun, const Trainee& chief) {
  if (chief.process != 0) refuse_run("process 0 is the chief");
  if (begun.processes < 1) refuse_run("it has no processes");
  if (begun.replicas < begun.processes || begun.replicas % begun.processes != 0)
    refuse_run(std::to_string(begun.replicas) + " replicas are not as many in each of " +
               std::to_string(begun.processes) + " processes");
  if (begun.pushes.size() != static_cast<std::size_t>(begun.replicas))
    refuse_run("it tells pushes of " + std::to_string(begun.pushes.size()) + " replicas, not of " +
               std::to_string(begun.replicas));
  if (begun.strategy != "async" && begun.strategy != "sync_replicas" && begun.strategy != "none")
    refuse_run("there is no strategy " + begun.strategy + " of parameter servers");
  if (begun.combine != "average" && begun.combine != "sum")
    refuse_run("gradients can't be combined as " + begun.combine);
  if (begun.aggregate < 0) refuse_run("less than one gradient can't be aggregated");
  if (begun.server < 0 ||
      (!begun.servers.empty() && static_cast<std::size_t>(begun.server) >= begun.servers.size()))
    refuse_run("there is no server " + std::to_string(begun.server));
  if (begun.server == 0) {
    if (begun.feeds.size() != static_cast<std::size_t>(begun.processes))
      refuse_run("server 0 needs a position of each process's input");
    for (const KeptFeed& feed : begun.feeds)
      if (feed.pushes.size() != static_cast<std::size_t>(begun.replicas / begun.processes))
        refuse_run("a position is one of another number of replicas");
  }
  return begun;
}

}  // namespace

ShardServer::Run::Run(const Beginning& begun, const Trainee& chief,
                      const ShardServerOptions& options)
    : beginning(checked_beginning(begun, chief)),
      chief_incarnation(chief.incarnation),
      roster(begun.processes, begun.replicas, chief, options.peer_timeout, options.join_timeout,
             options.now()),
      shard(begun),
      ledger(begun.pushes, begun.max_steps, begun.max_staleness),
      arrived(begun.pushes),
      told(static_cast<std::size_t>(begun.processes)) {
  if (begun.strategy == "sync_replicas") {
    held = std::make_unique<HeldPushes>(shard,
                                        begun.combine == "sum" ? Combine::sum : Combine::average);
    if (begun.server == 0)
      line.emplace(begun.replicas, begun.aggregate > 0 ? begun.aggregate : begun.replicas,
                   begun.step);
    if (begun.server == 0 && begun.servers.size() > 1 && !options.connect)
      refuse_run("server 0 has no way to the others");
  }
  if (begun.server == 0)
    for (const KeptFeed& feed : begun.feeds) feeds.emplace_back(feed);
  // Processes that had already finished need not come.
  for (int process = 1; process < begun.processes; ++process)
    for (int r = roster.first_replica(process);
         is_done(process) && r < roster.first_replica(process + 1); ++r) {
      roster.leave(r);
      drop_out(r);
    }
}

void ShardServer::Run::note_told(int process) {
  if (process >= 0 && process < roster.processes()) told[static_cast<std::size_t>(process)] = 1;
}

bool ShardServer::Run::all_know() const {
  if (!ended) return true;
  for (int process = 0; process < roster.processes(); ++process) {
    const bool asks = ended->ok() ? !roster.came(process) : roster.takes_part(process);
    if (asks && told[static_cast<std::size_t>(process)] == 0) return false;
  }
  return true;
}

bool ShardServer::Run::is_done(int process) const {
  return beginning.batches > 0 &&
         std::ranges::all_of(pushes_of(process, received()),
                             [this](std::uint64_t pushes) { return pushes >= beginning.batches; });
}

bool ShardServer::Run::is_finished() const {
  return (ended && ended->ok()) || (beginning.max_steps > 0 && shard.step() >= beginning.max_steps);
}

void ShardServer::Run::drop_out(int replica) {
  if (line) line->leave(replica);
  ledger.release(replica);
}

void ShardServer::Run::come_back(int replica) {
  if (line) line->join(replica);
}

void ShardServer::Run::check(const Push& push) const {
  if (push.rows < 0 || push.number == 0)
    throw Error(ErrorCode::invalid_argument, "a push of replica " + std::to_string(push.replica) +
                                                 " has no number, or less than no rows");
  std::vector<char> seen(shard.size());
  for (const Piece& piece : push.pieces) {
    shard.check(piece);
    const std::size_t index = shard.index_of(piece.variable);
    const std::string& name = shard.variable(index).name;
    if ((piece.rows != nullptr) != shard.by_rows(index))
      throw Error(ErrorCode::invalid_argument, "variable " + name + " is pushed " +
                                                   (shard.by_rows(index) ? "by rows" : "whole") +
                                                   " only");
    if (std::exchange(seen[index], 1) != 0)
      throw Error(ErrorCode::invalid_argument, "variable " + name + " is twice in a push");
  }
}

// The pushes of a replica that wait for an update have rising numbers.
Pushes ShardServer::Run::contained() const {
  if (!synchronous()) return arrived;
  Pushes pushes = line ? ledger.settled() : arrived;
  for (const Contribution& one : counted) {
    std::uint64_t& last = pushes[static_cast<std::size_t>(one.replica)];
    last = std::min(last, one.number - 1);
  }
  return pushes;
}

std::span<const std::uint64_t> ShardServer::Run::pushes_of(int process,
                                                           const Pushes& pushes) const {
  return {pushes.data() + roster.first_replica(process), static_cast<std::size_t>(roster.each())};
}

SnapshotHead ShardServer::Run::head() const {
  SnapshotHead head{shard.step(), contained(), {}};
  for (std::size_t p = 0; p < feeds.size(); ++p)
    head.feeds.push_back(feeds[p].at(pushes_of(static_cast<int>(p), head.pushes)));
  return head;
}

bool ShardServer::Run::is_fixed() const {
  if (!line) return false;
  for (int process = 0; process < roster.processes(); ++process)
    if (roster.left(process)) return true;  // an update that lacks its pushes is never made
  const Pushes in_values = contained();
  for (int process = 0; process < roster.processes(); ++process) {
    const auto of_process = pushes_of(process, in_values);
    const bool all_in =
        std::ranges::equal(pushes_of(process, arrived), of_process, std::less_equal());
    if (process == 0 && !all_in) return false;
    // A process reports a position before it pushes on, so then it reports no earlier one.
    const KeptFeeds& reported = feeds[static_cast<std::size_t>(process)];
    if (process > 0 && all_in && !std::ranges::equal(reported.newest().pushes, of_process))
      return false;
  }
  return true;
}

ServerFigures ShardServer::Run::figures(Roster::Time now) {
  ServerFigures all = ledger.figures();
  all.step = shard.step();
  all.pending = counted.size();
  all.rows = rows;
  all.fixed = is_fixed();
  all.losses = roster.losses();
  all.others_ended = true;
  for (int process = 0; process < roster.processes(); ++process) {
    if (roster.lost(process)) all.lost.push_back(process);
    if (roster.left(process)) ++all.left;
    if (roster.lost(process) && !is_done(process)) {
      const auto age =
          std::chrono::duration_cast<std::chrono::milliseconds>(now - roster.lost_since(process));
      all.lost_ms = std::min(all.lost_ms, static_cast<std::uint64_t>(age.count()));
    }
    if (process > 0 && !roster.lost(process) && !roster.left(process)) all.others_ended = false;
  }
  return all;
}

}  // namespace penstock::towers
