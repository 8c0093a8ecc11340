#include <penstock/simd.h>

#include <hwy/targets.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdint>

#include <penstock/error.h>

namespace penstock {
namespace {

std::string upper(std::string_view text) {
  std::string all(text);
  for (char& c : all) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return all;
}

/// Returns the machine's targets as bits, whatever was chosen before. The lowest bit is the best
/// target. Plain C++ is always compiled, even if Highway does not count it.
std::int64_t all_targets() {
  static const std::int64_t all = hwy::SupportedTargets() | HWY_SCALAR;
  return all;
}
// Evaluated before any code can choose targets.
[[maybe_unused]] const std::int64_t kAsked = all_targets();

std::atomic<std::int64_t>& left() {
  static std::atomic<std::int64_t> targets{all_targets()};
  return targets;
}

std::string best_of(std::int64_t targets) {
  return hwy::TargetName(targets & -targets);
}

}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (std::int64_t some = all_targets(); some != 0; some &= some - 1)
    names.push_back(best_of(some));
  return names;
}

void choose_simd(std::string_view target) {
  const std::string wanted = upper(target);
  std::int64_t some = all_targets();
  if (wanted != "AUTO")
    while (some != 0 && best_of(some) != wanted) some &= some - 1;
  if (some == 0) {
    std::string names;
    for (const std::string& name : simd_targets()) names += (names.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::invalid_argument,
                "this machine has no SIMD target " + wanted + ", but " + names);
  }
  left() = some;
  hwy::DisableTargets(all_targets() & ~some & ~HWY_SCALAR);
  hwy::GetChosenTarget().DeInit();
}

std::string simd() {
  return best_of(left());
}

std::string describe_simd() {
  const std::string best = best_of(all_targets());
  const std::string used = simd();
  return used == best ? best + ", the best here" : used + ", as chosen; the best here is " + best;
}

}  // namespace penstock
