#include <nlohmann/json.hpp>

#include "report/format.h"
#include "report/prizes.h"
#include "report/run_report.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

Json error_json(const Error& error) {
  const Provenance& where = error.where();
  const auto known = [](std::int64_t value) { return value >= 0 ? Json(value) : Json(nullptr); };
  return {{"path", where.shard},           {"offset", known(where.offset)},
          {"length", known(where.length)}, {"index", known(where.index)},
          {"stage", where.stage},          {"code", name_of(error.code())},
          {"cause", error.cause()}};
}

Json decoding_json(const DecodingCounts& decoding) {
  constexpr const char* kScales[] = {"1", "1/2", "1/4", "1/8"};
  Json scales;
  for (std::size_t i = 0; i < decoding.jpeg_scales.size(); ++i)
    scales[kScales[i]] = decoding.jpeg_scales[i];
  Json on_host = Json::object();
  for (const auto& [reason, count] : decoding.on_host) on_host[reason] = count;
  return {{"jpeg", decoding.images.jpeg},
          {"png", decoding.images.png},
          {"warned", decoding.images.warned},
          {"jpeg_scales", std::move(scales)},
          {"jpeg_rows", decoding.jpeg_rows},
          {"jpeg_rows_spared", decoding.jpeg_rows_spared},
          {"on_device", decoding.on_device},
          {"on_host", std::move(on_host)},
          {"share", decoding.timed_s > 0 ? Json(1 - decoding.timed_pixels_s / decoding.timed_s)
                                         : Json(nullptr)}};
}

Json backend_json(const RunReport& report) {
  Json fallback = Json::object();
  for (const auto& [reason, count] : report.decoding.jpeg_fallback) fallback[reason] = count;
  return {{"library", report.jpeg_backend.empty() ? Json(nullptr) : Json(report.jpeg_backend)},
          {"own", report.decoding.jpeg_own},
          {"coefficients", report.decoding.jpeg_coefficients},
          {"indexed", report.decoding.jpeg_indexed},
          {"fallback", std::move(fallback)}};
}

Json stage_json(const StageStats& stage) {
  return {{"name", stage.name},     {"items", stage.items},
          {"bytes", stage.bytes},   {"padding_bytes", stage.padding_bytes},
          {"busy_s", stage.busy_s}, {"apart_s", stage.apart_s},
          {"wait_s", stage.wait_s}, {"waits_on", stage.waits_on}};
}

Json worker_json(const WorkerStats& worker) {
  return {{"address", worker.address},
          {"connected", worker.connected},
          {"problem", worker.problem.empty() ? Json(nullptr) : Json(worker.problem)},
          {"threads", worker.threads},
          {"groups", worker.groups},
          {"elements", worker.elements},
          {"shared", worker.shared},
          {"sent_bytes", worker.sent_bytes},
          {"received_bytes", worker.received_bytes},
          {"unpacked_bytes", worker.unpacked_bytes},
          {"busy_s", worker.busy_s},
          {"least_round_trip_s", worker.least_round_trip_s},
          {"groups_at_once", worker.groups_at_once},
          {"round_trip_s", worker.round_trip_s},
          {"hedged", worker.hedged},
          {"lost", worker.lost},
          {"late", worker.late},
          {"returned", worker.returned}};
}

Json remote_json(const RemoteStats& remote) {
  return {{"requests", remote.requests},
          {"again", remote.again},
          {"hedged", remote.hedged},
          {"throttled", remote.throttled},
          {"bytes", remote.bytes},
          {"bytes_needed", remote.bytes_needed},
          {"bytes_cached", remote.bytes_cached},
          {"waiting_s", remote.waiting_s},
          {"connections", remote.connections},
          {"requests_per_second", remote.requests_per_second},
          {"latency_ms", remote.latency_ms},
          {"bytes_per_second", remote.bytes_per_second}};
}

Json slow_shard_json(const SlowShard& shard) {
  return {
      {"path", shard.path}, {"read_ms", 1000 * shard.read_s}, {"others_ms", 1000 * shard.others_s}};
}

Json tower_json(const TowerStats& tower) {
  Json causes = Json::object();
  for (const auto& [name, seconds] : tower.causes) causes[name] = seconds;
  Json gains = Json::object();
  for (const auto& [name, seconds] : tower.gains) gains[name] = seconds;
  return {{"device", tower.device},
          {"steps", tower.steps},
          {"elements", tower.elements},
          {"stall_s", tower.stall_s},
          {"stall_share", tower.stall_share()},
          {"causes", causes},
          {"gains", gains},
          {"copy_s", tower.copy_s},
          {"copy_hidden_share", tower.copy_hidden_share},
          {"step_s", tower.step_s},
          {"other_s", tower.other_s},
          {"wall_s", tower.wall_s}};
}

Json verdict_json(const RunReport& report) {
  const Verdict what = verdict(report);
  Json changes = Json::array();
  for (const Prize& prize : prizes(report))
    changes.push_back({{"change", prize.change}, {"low", prize.low}, {"high", prize.high}});
  const auto known = [](double rate) { return rate > 0 ? Json(rate) : Json(nullptr); };
  return {{"text", what.text},
          {"cause", what.cause.empty() ? Json(nullptr) : Json(what.cause)},
          {"remedy", what.remedy.empty() ? Json(nullptr) : Json(what.remedy)},
          {"gain_s", what.gain_s},
          {"rate_then", known(what.rate_then)},
          {"rate_half", known(what.rate_half)},
          {"prizes", std::move(changes)}};
}

Json audit_json(const EpochAudit& audit) {
  const EpochStats& counts = audit.counts;
  return {{"epoch", counts.epoch},
          {"elements", counts.elements},
          {"batches", counts.batches},
          {"skipped", counts.skipped},
          {"expected", counts.expected < 0 ? Json(nullptr) : Json(counts.expected)},
          {"missing", counts.missing < 0 ? Json(nullptr) : Json(counts.missing)},
          {"repeated", counts.repeated < 0 ? Json(nullptr) : Json(counts.repeated)},
          {"padded_rows", counts.padded_rows},
          {"digest", audit.digest ? Json(hex16(*audit.digest)) : Json(nullptr)}};
}

}  // namespace

std::string report_json(const RunReport& report, const std::string& pipeline_toml) {
  const Stats& stats = report.stats;
  const auto elements = static_cast<double>(report.elements);
  Json json;
  json["penstock"] = report.version;
  json["outcome"] = name_of(report.ending);
  json["verdict"] = verdict_json(report);
  json["elements_per_second"] = report.elements_per_second();
  json["cpu_seconds_per_1000"] =
      elements > 0 ? Json(1000 * report.cpu_s / elements) : Json(nullptr);
  json["first_batch_ms"] = report.batches > 0 ? Json(1000 * report.first_batch_s) : Json(nullptr);
  json["elements"] = report.elements;
  json["batches"] = report.batches;
  json["epochs"] = report.epochs;
  json["resumed"] = report.resumed_batches ? Json{{"batches", *report.resumed_batches},
                                                  {"elements", report.resumed_elements}}
                                           : Json(nullptr);
  json["state_bytes"] = report.state_bytes > 0 ? Json(report.state_bytes) : Json(nullptr);
  json["build_s"] = report.build_s;
  json["wall_s"] = report.wall_s;
  json["cpu_s"] = report.cpu_s;
  json["cpu_wait_s"] = report.starved.waited_s;
  json["throttled_s"] = report.starved.throttled_s;
  json["stall_share"] = report.stall_share();
  json["step_ms"] = report.step_ms ? Json(*report.step_ms) : Json(nullptr);
  json["guarantee"] = report.guarantee;
  json["audit"] = Json::array();
  for (const EpochAudit& audit : report.audit) json["audit"].push_back(audit_json(audit));
  json["errors"] = {
      {"count", stats.errors.count}, {"retried", stats.errors.retried}, {"first", Json::array()}};
  for (const Error& error : stats.errors.first)
    json["errors"]["first"].push_back(error_json(error));
  json["failure"] = report.failure ? error_json(*report.failure) : Json(nullptr);
  json["stages"] = Json::array();
  for (const StageStats& stage : stats.stages) json["stages"].push_back(stage_json(stage));
  if (report.remote) json["remote"] = remote_json(*report.remote);
  json["slow_shard"] = report.slow_shard ? slow_shard_json(*report.slow_shard) : Json(nullptr);
  if (!stats.workers.empty()) {
    json["workers"] = Json::array();
    for (const WorkerStats& worker : stats.workers) json["workers"].push_back(worker_json(worker));
    json["groups_of_workers"] = stats.groups_of_workers;
    json["groups_made_here"] = stats.groups_made_here;
  }
  if (!report.towers.empty()) {
    json["towers"] = Json::array();
    for (const TowerStats& tower : report.towers) json["towers"].push_back(tower_json(tower));
    json["lost"] = report.lost;
    json["wrapped"] = report.wrapped;
  }
  json["memory"] = {{"budget_bytes", stats.memory.budget_bytes},
                    {"peak_bytes", stats.memory.peak_bytes},
                    {"rss_peak_bytes", report.rss_peak_bytes}};
  json["threads"] = stats.threads;
  json["decisions"] = Json::array();
  for (const Decision& each : stats.decisions) {
    json["decisions"].push_back({{"at_s", each.at_s},
                                 {"knob", each.knob},
                                 {"from", each.from},
                                 {"to", each.to},
                                 {"reason", each.reason}});
  }
  json["seed"] = report.seed;
  json["io"] = report.io.empty() ? Json(nullptr) : Json(report.io);
  json["digest"] = report.digest ? Json(hex16(*report.digest)) : Json(nullptr);
  json["jpeg_backend"] = backend_json(report);
  json["simd"] = report.simd;
  json["decoding"] = decoding_json(report.decoding);
  json["pipeline"] = pipeline_toml.empty() ? Json(nullptr) : Json(pipeline_toml);
  // Names of files may hold any bytes, but JSON must be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace penstock
