// Numbers in a form for people.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// Returns text such as "512 B" or "96.0 MiB".
std::string human_bytes(double bytes);
/// Returns text such as "96MiB" if that is exact, else the plain number.
std::string exact_bytes(std::int64_t bytes);
/// Returns text such as "1,234,567".
std::string grouped(std::uint64_t value);
/// Returns text such as "1 element" or "1,234 elements".
std::string plural(std::uint64_t count, const std::string& one, const std::string& many);
/// Returns three significant digits and a unit: "842", "12.3k", "4.56M".
std::string human_count(double value);
/// Returns text such as "850 ns", "12.3 ms", "4.56 s" or "3 min 07 s".
std::string human_seconds(double seconds);
/// Returns a share as a percentage: "83%", "0.4%".
std::string human_share(double share);
/// Returns sixteen hexadecimal digits in lower case.
std::string hex16(std::uint64_t value);

}  // namespace penstock
