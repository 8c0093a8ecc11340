#include <algorithm>
#include <cstdlib>
#include <new>

#include "pipelines/c/handles.h"

namespace penstock::c {
namespace {

constexpr std::size_t kMostText = 4095;
thread_local char last_error[kMostText + 1];

penstock_status status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return PENSTOCK_INVALID_ARGUMENT;
    case ErrorCode::not_found:
      return PENSTOCK_NOT_FOUND;
    case ErrorCode::data_loss:
      return PENSTOCK_DATA_LOSS;
    case ErrorCode::out_of_range:
      return PENSTOCK_OUT_OF_RANGE;
    case ErrorCode::resource_exhausted:
      return PENSTOCK_RESOURCE_EXHAUSTED;
    case ErrorCode::unavailable:
      return PENSTOCK_UNAVAILABLE;
    case ErrorCode::cancelled:
      return PENSTOCK_CANCELLED;
    case ErrorCode::user:
      return PENSTOCK_USER;
    case ErrorCode::internal:
      return PENSTOCK_INTERNAL;
    case ErrorCode::device_lost:
      return PENSTOCK_DEVICE_LOST;
    case ErrorCode::no_progress:
      return PENSTOCK_NO_PROGRESS;
    case ErrorCode::mismatch:
      return PENSTOCK_MISMATCH;
    case ErrorCode::changed:
      return PENSTOCK_CHANGED;
    case ErrorCode::diverged:  // the C interface does not train
      return PENSTOCK_INTERNAL;
  }
  return PENSTOCK_INTERNAL;
}

const char* name_of_status(penstock_status status) noexcept {
  switch (status) {
    case PENSTOCK_OK:
      return "ok";
    case PENSTOCK_END:
      return "end";
    case PENSTOCK_INVALID_ARGUMENT:
      return "invalid_argument";
    case PENSTOCK_NOT_FOUND:
      return "not_found";
    case PENSTOCK_DATA_LOSS:
      return "data_loss";
    case PENSTOCK_OUT_OF_RANGE:
      return "out_of_range";
    case PENSTOCK_RESOURCE_EXHAUSTED:
      return "resource_exhausted";
    case PENSTOCK_UNAVAILABLE:
      return "unavailable";
    case PENSTOCK_CANCELLED:
      return "cancelled";
    case PENSTOCK_USER:
      return "user";
    case PENSTOCK_INTERNAL:
      return "internal";
    case PENSTOCK_DEVICE_LOST:
      return "device_lost";
    case PENSTOCK_NO_PROGRESS:
      return "no_progress";
    case PENSTOCK_CHANGED:
      return "changed";
    case PENSTOCK_MISMATCH:
      return "mismatch";
  }
  return "unknown";
}

/// Returns the number of bytes to keep of `text`, at most `most`, so that no character is split.
std::size_t whole_characters(std::string_view text, std::size_t most) noexcept {
  if (text.size() <= most) return text.size();
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return most;
}

}  // namespace

penstock_status failed(ErrorCode code, std::string_view text) noexcept {
  const std::size_t size = whole_characters(text, kMostText);
  std::copy_n(text.data(), size, last_error);
  last_error[size] = '\0';
  return status_of(code);
}

penstock_status failed(const Error& error) noexcept {
  return failed(error.code(), error.what());
}

char* copy_for_caller(std::string_view bytes) {
  auto* const copy = static_cast<char*>(std::malloc(bytes.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::copy(bytes.begin(), bytes.end(), copy);
  copy[bytes.size()] = '\0';
  return copy;
}

}  // namespace penstock::c

const char* penstock_status_name(penstock_status status) {
  return penstock::c::name_of_status(status);
}

const char* penstock_error() {
  return penstock::c::last_error;
}

const char* penstock_version() {
  return PENSTOCK_VERSION;
}

void penstock_free(void* memory) {
  std::free(memory);
}
