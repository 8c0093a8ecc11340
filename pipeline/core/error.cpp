#include <penstock/error.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <typeinfo>
#include <utility>

#include <cxxabi.h>

namespace penstock {

void throw_moved_from(const char* type) {
  throw Error(ErrorCode::invalid_argument, "the " + std::string(type) + " was moved from");
}

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
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::diverged:
      return "diverged";
    case ErrorCode::changed:
      return "changed";
  }
  return "unknown";
}

std::string Provenance::to_string() const {
  std::string text = member.empty() || shard.empty() ? member + shard : member + " of " + shard;
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

namespace {

// Made when the process starts, so that it is available when there is no memory. Never destroyed,
// because threads may outlive static objects.
const std::shared_ptr<const Error>& kOutOfMemory =
    *new std::shared_ptr<const Error>(std::make_shared<const Error>(
        ErrorCode::resource_exhausted,
        "out of memory (RLIMIT_AS, RLIMIT_DATA, the container or the machine)", Provenance(),
        std::make_exception_ptr(std::bad_alloc())));

/// Returns the error of an exception that has no message of its own.
Error thrown(const std::string& what) {
  return {ErrorCode::user, what, {}, std::current_exception()};
}

/// Returns the name of the type of the current exception, as C++ writes it.
std::string type_of_current_exception() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an unknown type";
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &failed), &std::free);
  return failed == 0 ? name.get() : type->name();
}

Status status_of_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return {error};
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  } catch (const std::exception& error) {
    return {Error(ErrorCode::user, error.what(), {}, std::current_exception())};
  } catch (const char* text) {
    return {thrown(text == nullptr ? "a null const char* was thrown" : text)};
  } catch (const std::string& text) {
    return {thrown(text)};
  } catch (int number) {
    return {thrown("the int " + std::to_string(number) + " was thrown")};
  } catch (...) {
    return {thrown("an exception of type " + type_of_current_exception())};
  }
}

}  // namespace

Status::Status(Error error) noexcept {
  try {
    error_ = std::make_shared<const Error>(std::move(error));
  } catch (const std::bad_alloc&) {
    error_ = kOutOfMemory;
  }
}

Status Status::out_of_memory() noexcept {
  Status status;
  status.error_ = kOutOfMemory;
  return status;
}

Status status_from_current_exception() noexcept {
  try {
    return status_of_current_exception();
  } catch (...) {
    return Status::out_of_memory();
  }
}

}  // namespace penstock
