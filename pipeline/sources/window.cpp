#include "pipeline/sources/window.h"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::size_t kWindowBytes = 256 << 10;
constexpr std::size_t kPage = 4 << 10;
/// From this distance between headers on, reading the bytes between them costs more than another
/// call.
constexpr std::uint64_t kFar = 16 << 10;

}  // namespace

Window::Window(File& file)
    : file_(file), memory_(std::make_unique_for_overwrite<std::byte[]>(kWindowBytes)) {}

std::span<const std::byte> Window::slice(std::uint64_t offset, std::size_t size) const noexcept {
  return held_.subspan(offset - start_, size);
}

std::span<const std::byte> Window::at(std::uint64_t offset, std::size_t size) {
  if (offset >= file_size()) return {};
  size = std::min<std::uint64_t>(size, file_size() - offset);
  const bool far = offset > last_ + kFar;
  last_ = offset;
  if (offset < start_ || offset + size > start_ + held_.size())
    load(offset, std::max(size, far ? kPage : kWindowBytes), false);
  return slice(offset, size);
}

std::span<const std::byte> Window::at_uncached(std::uint64_t offset, std::size_t size) {
  if (offset >= file_size()) return {};
  size = std::min<std::uint64_t>(size, file_size() - offset);
  load(offset, size, true);
  return slice(offset, size);
}

void Window::load(std::uint64_t offset, std::size_t size, bool uncached) {
  size = std::min<std::uint64_t>(size, file_size() - offset);
  held_ = {};
  ReadRequest request{offset, size, memory_.get(), {}};
  uncached ? file_.read_uncached({&request, 1}) : file_.read({&request, 1});
  if (!request.status.ok()) throw request.status.error();
  held_ = {memory_.get(), size};
  start_ = offset;
}

}  // namespace penstock
