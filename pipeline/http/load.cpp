// Opens the module with libcurl.
#include <penstock/error.h>
#include <penstock/internal/module.h>
#include <penstock/remote_files.h>

#include "pipeline/http/transport.h"

namespace penstock {
namespace http {

const RemoteModule& remote_module() {
  using Entry = const RemoteModule* (*)();
  const auto of_this_version = [](void* symbol) {
    return reinterpret_cast<Entry>(symbol)()->version == RemoteModule::kVersion;
  };
  static const RemoteModule& module = [&]() -> const RemoteModule& {
    try {
      return *reinterpret_cast<Entry>(
          module_symbol(kRemoteModuleFile, kRemoteModuleSymbol, of_this_version))();
    } catch (const Error& error) {
      throw Error(
          ErrorCode::invalid_argument,
          "data on servers is not supported by this build (PENSTOCK_REMOTE): " + error.cause());
    }
  }();
  return module;
}

}  // namespace http

bool remote_available() noexcept {
  try {
    http::remote_module();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace penstock
