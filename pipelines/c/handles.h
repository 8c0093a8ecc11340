// The handles of the C interface, and the error handling of its functions.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include <penstock/c.h>
#include <penstock/element.h>
#include <penstock/error.h>
#include <penstock/iterator.h>
#include <penstock/pipelines.h>
#include <penstock/report.h>

struct penstock_pipeline {
  penstock::Pipeline value;
};
struct penstock_run {
  penstock::Iterator value;
};
struct penstock_element {
  penstock::Element value;
};

namespace penstock::c {

/// Keeps `text` for this thread's `penstock_error`. Allocates no memory. Returns the status that
/// corresponds to `code`.
penstock_status failed(ErrorCode code, std::string_view text) noexcept;
penstock_status failed(const Error& error) noexcept;

/// Returns the argument. Throws Error{invalid_argument} with its name if it is null.
template <typename T>
T& require(T* argument, const char* name) {
  if (argument == nullptr) throw Error(ErrorCode::invalid_argument, std::string(name) + " is NULL");
  return *argument;
}

/// Returns the status that `body` returns, or the status of the exception that it throws.
template <typename Body>
penstock_status guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    return failed(error);
  } catch (const std::bad_alloc&) {
    return failed(Status::out_of_memory().error());
  } catch (const std::exception& error) {
    return failed(ErrorCode::internal, error.what());
  } catch (...) {
    return failed(ErrorCode::internal, "an exception of no known type");
  }
}

/// Returns memory that the caller owns, with these bytes and a zero byte after them. Throws
/// std::bad_alloc.
char* copy_for_caller(std::string_view bytes);

/// Gives the caller the saved state of a run or a feed.
template <typename From>
penstock_status save_for_caller(const From* from, void** state, std::size_t* size) noexcept {
  return guarded([&] {
    require(state, "state") = nullptr;
    require(size, "state_size") = 0;
    const std::string saved = require(from, "what is saved").value.save();
    *state = copy_for_caller(saved);
    *size = saved.size();
    return PENSTOCK_OK;
  });
}

/// Gives the caller the report of a run or a feed.
template <typename From>
penstock_status report_for_caller(const From* from, char** json) noexcept {
  return guarded([&] {
    require(json, "json") = nullptr;
    *json = copy_for_caller(report(require(from, "what is reported").value).json);
    return PENSTOCK_OK;
  });
}

}  // namespace penstock::c
