#include "cluster/net/parameter_wire.h"

#include <algorithm>

namespace penstock::cluster {
namespace {

using Numbers = google::protobuf::RepeatedField<std::uint64_t>;

void write(const std::vector<std::uint64_t>& values, Numbers& to) {
  to.Assign(values.begin(), values.end());
}

std::vector<std::uint64_t> numbers_of(const Numbers& values) {
  return {values.begin(), values.end()};
}

towers::PushVerdict verdict_of(std::uint32_t number) {
  if (number > static_cast<std::uint32_t>(towers::PushVerdict::finished))
    throw Error(ErrorCode::invalid_argument,
                "push verdict " + std::to_string(number) + " is unknown");
  return static_cast<towers::PushVerdict>(number);
}

}  // namespace

wire::Trainee wire_of(const towers::Trainee& who) {
  wire::Trainee wired;
  wired.set_process(who.process);
  wired.set_incarnation(who.incarnation);
  return wired;
}

towers::Trainee trainee_of(const wire::Trainee& who) {
  return {.process = who.process(), .incarnation = who.incarnation()};
}

wire::KeptFeed wire_of(const towers::KeptFeed& feed) {
  wire::KeptFeed wired;
  wired.set_position(feed.position);
  write(feed.pushes, *wired.mutable_pushes());
  return wired;
}

towers::KeptFeed feed_of(const wire::KeptFeed& feed) {
  return {.position = feed.position(), .pushes = numbers_of(feed.pushes())};
}

wire::Beginning wire_of(const towers::Beginning& beginning) {
  wire::Beginning wired;
  write(beginning.facts, *wired.mutable_facts());
  wired.set_server(beginning.server);
  wired.set_processes(beginning.processes);
  wired.set_replicas(beginning.replicas);
  wired.set_strategy(beginning.strategy);
  wired.set_aggregate(beginning.aggregate);
  wired.set_max_staleness(beginning.max_staleness);
  wired.set_max_steps(beginning.max_steps);
  wired.set_combine(beginning.combine);
  wired.set_optimizer(beginning.optimizer);
  wired.set_schedule(beginning.schedule);
  wired.set_planned_steps(beginning.planned_steps);
  wired.set_clip_norm(beginning.clip_norm);
  wired.set_batches(beginning.batches);
  wired.set_all_needed(beginning.all_needed);
  wired.set_step(beginning.step);
  for (const towers::ServedVariable& variable : beginning.variables) {
    wire::ServedVariable& to = *wired.add_variables();
    to.set_number(variable.number);
    to.set_name(variable.name);
    for (const std::int64_t dim : variable.shape.dims()) to.add_shape(dim);
    to.set_trainable(variable.trainable);
    to.set_by_rows(variable.by_rows);
  }
  write(beginning.pushes, *wired.mutable_pushes());
  for (const towers::KeptFeed& feed : beginning.feeds) *wired.add_feeds() = wire_of(feed);
  for (const std::string& server : beginning.servers) wired.add_servers(server);
  return wired;
}

towers::Beginning beginning_of(const wire::Beginning& wired) {
  towers::Beginning beginning;
  beginning.facts = facts_of(wired.facts());
  beginning.server = wired.server();
  beginning.processes = wired.processes();
  beginning.replicas = wired.replicas();
  beginning.strategy = wired.strategy();
  beginning.aggregate = wired.aggregate();
  beginning.max_staleness = wired.max_staleness();
  beginning.max_steps = wired.max_steps();
  beginning.combine = wired.combine();
  beginning.optimizer = wired.optimizer();
  beginning.schedule = wired.schedule();
  beginning.planned_steps = wired.planned_steps();
  beginning.clip_norm = wired.clip_norm();
  beginning.batches = wired.batches();
  beginning.all_needed = wired.all_needed();
  beginning.step = wired.step();
  for (const wire::ServedVariable& from : wired.variables()) {
    towers::ServedVariable& variable = beginning.variables.emplace_back();
    variable.number = from.number();
    variable.name = from.name();
    variable.shape =
        Shape(std::span(from.shape().data(), static_cast<std::size_t>(from.shape_size())));
    if (!variable.shape.is_static())
      throw Error(ErrorCode::invalid_argument,
                  "variable " + variable.name + " of shape " + variable.shape.to_string());
    variable.trainable = from.trainable();
    variable.by_rows = from.by_rows();
  }
  beginning.pushes = numbers_of(wired.pushes());
  for (const wire::KeptFeed& feed : wired.feeds()) beginning.feeds.push_back(feed_of(feed));
  beginning.servers.assign(wired.servers().begin(), wired.servers().end());
  return beginning;
}

wire::Update wire_of(const towers::Update& update) {
  wire::Update wired;
  wired.set_step(update.step);
  wired.set_scale(update.scale);
  for (const towers::Contribution& contribution : update.contributions) {
    wire::Contribution& to = *wired.add_contributions();
    to.set_replica(contribution.replica);
    to.set_number(contribution.number);
    to.set_rows(contribution.rows);
  }
  return wired;
}

towers::Update update_of(const wire::Update& wired) {
  towers::Update update;
  update.step = wired.step();
  update.scale = wired.scale();
  for (const wire::Contribution& from : wired.contributions())
    update.contributions.push_back(
        {.replica = from.replica(), .number = from.number(), .rows = from.rows()});
  return update;
}

void write(const towers::Entered& entered, wire::Answer& answer) {
  answer.set_run(entered.run);
  answer.set_step(entered.step);
  write(entered.pushes, *answer.mutable_pushes());
  *answer.mutable_feed() = wire_of(entered.feed);
  answer.set_finished(entered.finished);
}

towers::Entered entered_of(const wire::Answer& answer) {
  return {.run = answer.run(),
          .step = answer.step(),
          .pushes = numbers_of(answer.pushes()),
          .feed = feed_of(answer.feed()),
          .finished = answer.finished()};
}

void write(const towers::Push& push, wire::Ask& ask) {
  ask.set_replica(push.replica);
  ask.set_number(push.number);
  ask.set_seen(push.seen);
  ask.set_rows(push.rows);
  ask.set_have(push.have);
  if (push.decided) ask.set_decided(static_cast<std::uint32_t>(*push.decided) + 1);
}

towers::Push push_of(const wire::Ask& ask, std::vector<towers::Piece> pieces) {
  towers::Push push{.replica = ask.replica(),
                    .number = ask.number(),
                    .seen = ask.seen(),
                    .rows = ask.rows(),
                    .pieces = std::move(pieces),
                    .have = ask.have(),
                    .decided = {}};
  if (ask.decided() > 0) push.decided = verdict_of(ask.decided() - 1);
  return push;
}

void write(const towers::Pushed& pushed, wire::Answer& answer) {
  answer.set_push(static_cast<std::uint32_t>(pushed.verdict));
  answer.set_step(pushed.step);
  answer.set_staleness(pushed.staleness);
}

towers::Pushed pushed_of(const wire::Answer& answer) {
  return {
      .verdict = verdict_of(answer.push()), .step = answer.step(), .staleness = answer.staleness()};
}

void write(const towers::SnapshotHead& head, wire::Answer& answer) {
  answer.set_step(head.step);
  write(head.pushes, *answer.mutable_pushes());
  for (const towers::KeptFeed& feed : head.feeds) *answer.add_feeds() = wire_of(feed);
}

towers::SnapshotHead head_of(const wire::Answer& answer) {
  towers::SnapshotHead head{
      .step = answer.step(), .pushes = numbers_of(answer.pushes()), .feeds = {}};
  for (const wire::KeptFeed& feed : answer.feeds()) head.feeds.push_back(feed_of(feed));
  return head;
}

void write(const std::vector<towers::SquareSum>& norms, wire::Answer& answer) {
  for (const towers::SquareSum& norm : norms) {
    wire::SquareSum& to = *answer.add_norms();
    to.set_variable(norm.variable);
    to.set_squares(norm.squares);
  }
}

std::vector<towers::SquareSum> norms_of(const wire::Answer& answer) {
  std::vector<towers::SquareSum> norms;
  for (const wire::SquareSum& from : answer.norms())
    norms.push_back({.variable = from.variable(), .squares = from.squares()});
  return norms;
}

void write(const towers::ServerFigures& figures, wire::Answer& answer) {
  answer.set_step(figures.step);
  answer.set_applied(figures.applied);
  answer.set_dropped(figures.dropped);
  answer.set_repeated_pushes(figures.repeated);
  write(figures.staleness, *answer.mutable_stalenesses());
  answer.set_pending(figures.pending);
  answer.set_losses(figures.losses);
  answer.mutable_lost()->Assign(figures.lost.begin(), figures.lost.end());
  answer.set_others_ended(figures.others_ended);
  answer.set_left(figures.left);
  answer.set_lost_ms(figures.lost_ms);
  answer.set_rows(figures.rows);
  answer.set_fixed(figures.fixed);
}

towers::ServerFigures figures_of(const wire::Answer& answer) {
  return {.step = answer.step(),
          .applied = answer.applied(),
          .dropped = answer.dropped(),
          .repeated = answer.repeated_pushes(),
          .staleness = numbers_of(answer.stalenesses()),
          .pending = answer.pending(),
          .rows = answer.rows(),
          .losses = answer.losses(),
          .lost = {answer.lost().begin(), answer.lost().end()},
          .fixed = answer.fixed(),
          .others_ended = answer.others_ended(),
          .left = answer.left(),
          .lost_ms = answer.lost_ms()};
}

}  // namespace penstock::cluster
