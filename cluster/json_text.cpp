#include "cluster/json_text.h"

#include <cstdint>
#include <set>
#include <vector>

#include "cluster/refuse.h"

namespace penstock::cluster {
namespace {

using Json = nlohmann::json;

/// Refuses what is wrong with a text, and what the parsed result does not show. (With a callback of
/// Json::parse, the time for each value would grow with the number of values before it.)
class Check final : public nlohmann::json_sax<Json> {
 public:
  explicit Check(const std::string& what) : what_(what) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(std::string& name) override {
    if (!names_.back().insert(name).second) refuse(what_, "has " + name + " twice in one object");
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const Json::exception&) override {
    refuse(what_, "is not valid JSON, at byte " + std::to_string(at));
  }

 private:
  bool enter() {
    // What reads the result goes down by recursion.
    constexpr std::size_t kMostDepth = 32;
    if (names_.size() == kMostDepth)
      refuse(what_, "is nested deeper than " + std::to_string(kMostDepth) + " levels");
    names_.emplace_back();
    return true;
  }
  bool leave() {
    names_.pop_back();
    return true;
  }

  const std::string& what_;
  std::vector<std::set<std::string>> names_;  // one for each open object or array
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& what) {
  Check check(what);
  Json::sax_parse(text, &check);
  return Json::parse(text);
}

}  // namespace penstock::cluster
