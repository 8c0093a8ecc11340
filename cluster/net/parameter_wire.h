// Conversions between messages and the questions and answers of parameter servers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <google/protobuf/map.h>
#include <google/protobuf/repeated_field.h>

#include "cluster/net/parameters.pb.h"
#include "towers/servers/parameter_server.h"

namespace penstock::cluster {

/// Messages may hold anything. The functions that read them throw Error{invalid_argument} for
/// unknown shapes and verdicts.
wire::Trainee wire_of(const towers::Trainee& who);
towers::Trainee trainee_of(const wire::Trainee& who);
wire::KeptFeed wire_of(const towers::KeptFeed& feed);
towers::KeptFeed feed_of(const wire::KeptFeed& feed);
wire::Beginning wire_of(const towers::Beginning& beginning);
towers::Beginning beginning_of(const wire::Beginning& beginning);
wire::Update wire_of(const towers::Update& update);
towers::Update update_of(const wire::Update& update);

/// `write` fills an answer, and the `…_of` functions read one.
void write(const towers::Entered& entered, wire::Answer& answer);
towers::Entered entered_of(const wire::Answer& answer);
/// Convert pushes. The pieces' values follow the question.
void write(const towers::Push& push, wire::Ask& ask);
towers::Push push_of(const wire::Ask& ask, std::vector<towers::Piece> pieces);
void write(const towers::Pushed& pushed, wire::Answer& answer);
towers::Pushed pushed_of(const wire::Answer& answer);
void write(const towers::SnapshotHead& head, wire::Answer& answer);
towers::SnapshotHead head_of(const wire::Answer& answer);
void write(const std::vector<towers::SquareSum>& norms, wire::Answer& answer);
std::vector<towers::SquareSum> norms_of(const wire::Answer& answer);
void write(const towers::ServerFigures& figures, wire::Answer& answer);
towers::ServerFigures figures_of(const wire::Answer& answer);

using WireFacts = google::protobuf::Map<std::string, std::string>;
inline void write(const std::map<std::string, std::string>& facts, WireFacts& to) {
  for (const auto& [name, value] : facts) to[name] = value;
}
inline std::map<std::string, std::string> facts_of(const WireFacts& facts) {
  return {facts.begin(), facts.end()};
}

}  // namespace penstock::cluster
