#include <penstock/error.h>

#include <new>

namespace penstock {

std::string_view name_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::data_loss:
      return "data_loss";
    case ErrorCode::out_of_range:
      return "out_of_range";
    case ErrorCode::resource_exhausted:
      return "resource_exhausted";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::user:
      return "user";
    case ErrorCode::internal:
      return "internal";
    case ErrorCode::device_lost:
      return "device_lost";
    case ErrorCode::no_progress:
      return "no_progress";
  }
  return "unknown";
}

std::string Provenance::to_string() const {
  std::string text = shard;
  if (offset >= 0) text += (text.empty() ? "@" : " @") + std::to_string(offset);
  if (index >= 0) text += (text.empty() ? "record " : " record ") + std::to_string(index);
  if (!stage.empty()) text += (text.empty() ? "stage " : ", stage ") + stage;
  return text;
}

Error::Error(ErrorCode code, std::string cause, Provenance where, std::exception_ptr original)
    : code_(code),
      cause_(std::move(cause)),
      where_(std::move(where)),
      original_(std::move(original)),
      text_(cause_) {
  const std::string address = where_.to_string();
  if (!address.empty()) text_ += " (" + address + ")";
}

Status status_from_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return {error};
  } catch (const std::bad_alloc& error) {
    return {Error(ErrorCode::resource_exhausted, error.what(), {}, std::current_exception())};
  } catch (const std::exception& error) {
    return {Error(ErrorCode::user, error.what(), {}, std::current_exception())};
  } catch (...) {
    return {Error(ErrorCode::user, "an exception that is not a std::exception", {},
                  std::current_exception())};
  }
}

}  // namespace penstock
