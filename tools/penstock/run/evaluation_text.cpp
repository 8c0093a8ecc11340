#include "tools/penstock/run/evaluation_text.h"

#include <array>
#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

#include "pipelines/numbers.h"

namespace penstock::tool {

std::string test_text(const towers::Evaluation& evaluation) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "test loss %.4f  test accuracy %.2f %%", evaluation.loss,
                100 * evaluation.accuracy);
  std::string all = text.data();
  const auto add = [&](const char* name, const std::optional<double>& figure) {
    if (!figure) return;
    std::snprintf(text.data(), text.size(), "  %s %.4f", name, *figure);
    all += text.data();
  };
  add("AUC", evaluation.auc);
  add("precision", evaluation.precision);
  add("recall", evaluation.recall);
  return all + " of " + grouped(static_cast<std::uint64_t>(evaluation.rows));
}

nlohmann::ordered_json json_of(const std::optional<double>& figure) {
  return figure ? nlohmann::ordered_json(*figure) : nlohmann::ordered_json(nullptr);
}

std::string evaluation_json(const towers::Evaluation& evaluation) {
  nlohmann::ordered_json json{{"step", evaluation.step},
                              {"loss", evaluation.loss},
                              {"accuracy", evaluation.accuracy},
                              {"auc", json_of(evaluation.auc)},
                              {"precision", json_of(evaluation.precision)},
                              {"recall", json_of(evaluation.recall)},
                              {"auc_micro", json_of(evaluation.auc_micro)},
                              {"rows", evaluation.rows}};
  json["classes"] = nlohmann::ordered_json::array();
  for (std::size_t c = 0; c < evaluation.classes.size(); ++c) {
    const towers::ClassFigures& one = evaluation.classes[c];
    json["classes"].push_back({{"class", one.name.empty() ? std::to_string(c) : one.name},
                               {"rows", one.rows},
                               {"precision", json_of(one.precision)},
                               {"recall", json_of(one.recall)},
                               {"auc", json_of(one.auc)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace penstock::tool
