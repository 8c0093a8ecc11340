#include <penstock/towers/columns/fingerprint.h>

#include <penstock/error.h>

#if PENSTOCK_HAVE_FARMHASH
#include <farmhash.h>
#endif

namespace penstock::towers {

#if PENSTOCK_HAVE_FARMHASH

std::uint64_t fingerprint64(std::string_view text) {
  return util::Fingerprint64(text.data(), text.size());
}

bool has_fingerprint64() noexcept {
  return true;
}

#else

std::uint64_t fingerprint64(std::string_view /*text*/) {
  throw Error(ErrorCode::invalid_argument,
              "hash buckets, crosses and buckets for words out of a vocabulary need libfarmhash, "
              "which this build does not have");
}

bool has_fingerprint64() noexcept {
  return false;
}

#endif

std::uint64_t fingerprint_cat64(std::uint64_t first, std::uint64_t second) noexcept {
  constexpr std::uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  const auto mix = [](std::uint64_t value) { return value ^ (value >> 47); };
  std::uint64_t joined = first ^ kMultiplier;
  joined ^= mix(second * kMultiplier) * kMultiplier;
  joined *= kMultiplier;
  return mix(mix(joined) * kMultiplier);
}

}  // namespace penstock::towers
