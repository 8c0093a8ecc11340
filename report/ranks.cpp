#include "report/ranks.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/internal/thread_annotations.h>

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

class Board {
 public:
  void set(std::vector<RankFigures> ranks) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ranks_ = std::move(ranks);
  }
  std::vector<RankFigures> get() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return ranks_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<RankFigures> ranks_ GUARDED_BY(mutex_);
};

Board& board() {
  static Board board;
  return board;
}

Json json_of(const RankFigures& figures) {
  Json towers = Json::array();
  for (const RankFigures::Tower& tower : figures.towers)
    towers.push_back({{"tower", tower.number},
                      {"device", tower.device},
                      {"steps", tower.steps},
                      {"stall_s", tower.stall_s},
                      {"wall_s", tower.wall_s},
                      {"stall_share", tower.stall_share()}});
  return {{"rank", figures.rank},
          {"steps", figures.steps},
          {"loss", figures.loss},
          {"images_per_second", figures.images_per_s},
          {"wall_s", figures.wall_s},
          {"exchange_s", figures.exchange_s},
          {"exposed_s", figures.exposed_s},
          {"exposed_share", figures.exposed_share()},
          {"clock_within_s", figures.clock_within_s},
          {"towers", std::move(towers)}};
}

}  // namespace

double RankFigures::stall_share() const noexcept {
  double most = 0;
  for (const Tower& tower : towers) most = std::max(most, tower.stall_share());
  return most;
}

std::string to_text(const RankFigures& figures) {
  return json_of(figures).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<RankFigures> parse_figures(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    RankFigures figures;
    figures.rank = json.at("rank");
    figures.steps = json.at("steps");
    // NaN and infinity are null in JSON.
    const auto number = [&](const char* name) {
      return json.at(name).is_null() ? 0 : json.at(name).get<double>();
    };
    figures.loss = number("loss");
    figures.images_per_s = number("images_per_second");
    figures.wall_s = number("wall_s");
    figures.exchange_s = number("exchange_s");
    figures.exposed_s = number("exposed_s");
    figures.clock_within_s = number("clock_within_s");
    for (const Json& tower : json.at("towers"))
      figures.towers.push_back({tower.at("tower"), tower.at("device"), tower.at("steps"),
                                tower.at("stall_s"), tower.at("wall_s")});
    return figures;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string ranks_json(const std::vector<RankFigures>& ranks) {
  Json all = Json::array();
  for (const RankFigures& figures : ranks) all.push_back(json_of(figures));
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void publish(std::vector<RankFigures> ranks) {
  board().set(std::move(ranks));
}

std::vector<RankFigures> published() {
  return board().get();
}

}  // namespace penstock
