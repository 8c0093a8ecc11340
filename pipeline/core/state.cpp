#include <penstock/state.h>

#include <penstock/error.h>

namespace penstock {
namespace {

[[noreturn]] void damaged() {
  throw Error(ErrorCode::data_loss, "the state is damaged");
}

}  // namespace

std::uint64_t StateReader::get() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (bytes_.empty()) damaged();
    const auto byte = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    const std::uint64_t part = byte & 0x7F;
    if (shift == 63 && part > 1) damaged();
    value |= part << shift;
    if ((byte & 0x80) == 0) return value;
  }
  damaged();
}

std::string_view StateReader::get_bytes() {
  const std::uint64_t size = get();
  if (size > bytes_.size()) damaged();
  const std::string_view result = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  return result;
}

}  // namespace penstock
