#include <charconv>

#include <penstock/device.h>

namespace penstock {

DeviceId DeviceId::parse(std::string_view text) {
  DeviceId id;
  std::string_view number = text;
  if (text.starts_with("host:")) {
    number.remove_prefix(5);
  } else if (text.starts_with("cuda:")) {
    id.kind = DeviceKind::cuda;
    number.remove_prefix(5);
  } else {
    number = {};
  }
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id.index);
  constexpr int kMost = 1023;
  if (number.empty() || error != std::errc() || end != number.data() + number.size() ||
      id.index < 0 || id.index > kMost) {
    throw Error(ErrorCode::invalid_argument,
                "\"" + std::string(text) +
                    "\" is not a device: expected host:N or cuda:N, N in [0, " +
                    std::to_string(kMost) + "]");
  }
  return id;
}

std::string DeviceId::to_string() const {
  const char* const names[] = {"host:", "cuda:", "other:"};
  return names[static_cast<std::size_t>(kind)] + std::to_string(index);
}

}  // namespace penstock
