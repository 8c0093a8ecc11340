// The module's entry.
#include <memory>
#include <string>

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "pipeline/http/curl/driver.h"

namespace penstock::http {
namespace {

std::unique_ptr<HttpTransport> open_driver(const TransportOptions& options) {
  return std::make_unique<CurlDriver>(options);
}

std::string describe_curl() {
  const curl_version_info_data* const info = curl_version_info(CURLVERSION_NOW);
  std::string text = std::string("libcurl ") + info->version;
  if (info->ssl_version != nullptr) text += std::string(", ") + info->ssl_version;
  return text;
}

Sha256 sha256_of(std::string_view data) {
  Sha256 digest{};
  SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest.data());
  return digest;
}

Sha256 hmac_sha256_of(std::string_view key, std::string_view data) {
  Sha256 digest{};
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest.data(), &size);
  return digest;
}

std::optional<Md5> md5_of(std::string_view data) {
  Md5 digest{};
  if (EVP_Digest(data.data(), data.size(), digest.data(), nullptr, EVP_md5(), nullptr) != 1)
    return {};
  return digest;
}

}  // namespace
}  // namespace penstock::http

extern "C" __attribute__((visibility("default"))) const penstock::http::RemoteModule*
penstock_remote_module() {
  static const penstock::http::RemoteModule module{
      penstock::http::RemoteModule::kVersion, &penstock::http::open_driver,
      &penstock::http::describe_curl,         &penstock::http::sha256_of,
      &penstock::http::hmac_sha256_of,        &penstock::http::md5_of};
  return &module;
}
