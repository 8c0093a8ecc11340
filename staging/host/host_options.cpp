#include "staging/host/host_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

namespace penstock {
namespace {

constexpr std::string_view kHost = "host:";
constexpr double kMost = 1e18;

struct Option {
  std::string_view name;
  bool has_value;
  bool copies;  // gives the device memory of its own
  void (*set)(HostOptions& options, double value);
};

std::uint64_t whole(double value) {
  return static_cast<std::uint64_t>(value);
}

constexpr std::array kOptions{
    Option{"copies", false, true, [](HostOptions&, double) {}},
    Option{"bytes_per_s", true, true, [](HostOptions& o, double v) { o.bytes_per_s = v; }},
    Option{"latency_us", true, true,
           [](HostOptions& o, double v) { o.latency_ns = static_cast<std::int64_t>(v * 1e3); }},
    Option{"memory", true, true, [](HostOptions& o, double v) { o.memory_bytes = whole(v); }},
    Option{"check", false, true, [](HostOptions& o, double) { o.check = true; }},
    Option{"fail_allocation", true, true,
           [](HostOptions& o, double v) { o.faults.fail_allocation = whole(v); }},
    Option{"fail_pinning", true, false,
           [](HostOptions& o, double v) { o.faults.fail_pinning = whole(v); }},
    Option{"fail_record", true, false,
           [](HostOptions& o, double v) { o.faults.fail_record = whole(v); }},
    Option{"sticky", false, false, [](HostOptions& o, double) { o.faults.sticky = true; }},
    Option{"hang_copy", true, true,
           [](HostOptions& o, double v) { o.faults.hang_copy = whole(v); }},
};

[[noreturn]] void refuse(std::string_view text, std::string_view part) {
  std::string known;
  for (const Option& option : kOptions) {
    if (!known.empty()) known += ", ";
    known += option.name;
    if (option.has_value) known += "=N";
  }
  throw Error(ErrorCode::invalid_argument, "\"" + std::string(text) +
                                               "\" is not a device: a host has the options " +
                                               known + "; not \"" + std::string(part) + "\"");
}

}  // namespace

bool is_host_with_options(std::string_view text) noexcept {
  return text.starts_with(kHost) && text.find(':', kHost.size()) != std::string_view::npos;
}

HostOptions parse_host_options(std::string_view text) {
  std::size_t colon = text.find(':', kHost.size());
  HostOptions options{.index = DeviceId::parse(text.substr(0, colon)).index};
  while (colon != std::string_view::npos) {
    const std::size_t next = text.find(':', colon + 1);
    const std::string_view part = text.substr(colon + 1, next - colon - 1);
    const std::size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    const auto* option = std::find_if(kOptions.begin(), kOptions.end(),
                                      [&](const Option& known) { return known.name == name; });
    if (option == kOptions.end() || option->has_value != (equals != std::string_view::npos))
      refuse(text, part);
    double value = 0;
    if (option->has_value) {
      const std::string_view number = part.substr(equals + 1);
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), value);
      const bool read = error == std::errc() && end == number.data() + number.size();
      if (!read || !std::isfinite(value) || value < 0 || value > kMost) refuse(text, part);
    }
    option->set(options, value);
    if (option->copies) options.unified = false;
    colon = next;
  }
  return options;
}

}  // namespace penstock
