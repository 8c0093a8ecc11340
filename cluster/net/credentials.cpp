#include "cluster/net/credentials.h"

#include <fstream>
#include <iterator>

#include <penstock/error.h>

namespace penstock::cluster {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file || text.empty())
    throw Error(ErrorCode::not_found, "can't read the TLS file, or it is empty", {.shard = path});
  return text;
}

bool is_loopback(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

}  // namespace

void check_exposure(const std::string& address, const RendezvousOptions& options, Server server) {
  const TlsFiles& tls = options.tls;
  if (tls.certificate.empty() != tls.key.empty() || tls.key.empty() != tls.authority.empty())
    throw Error(
        ErrorCode::invalid_argument,
        "--tls-cert, --tls-key and --tls-ca must be given together: give all three or none");
  if (is_loopback(address)) return;
  const bool no_token = server == Server::rank_0 && options.token.empty();
  if (!tls.given() || no_token)
    throw Error(ErrorCode::invalid_argument,
                address + " can be reached from other machines: " +
                    (tls.given() ? "give the job a token"
                                 : std::string("give --tls-cert, --tls-key and --tls-ca") +
                                       (no_token ? ", and a token" : "")));
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& files) {
  if (!files.given()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = read_file(files.authority);
  options.pem_key_cert_pairs.push_back({read_file(files.key), read_file(files.certificate)});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsFiles& files) {
  if (!files.given()) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials(
      {read_file(files.authority), read_file(files.key), read_file(files.certificate)});
}

grpc::ChannelArguments patient_channel() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);  // time limit of an attempt
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 500);  // default: 30 s
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

bool shows_token(const grpc::ServerContextBase& context, std::string_view token) {
  if (token.empty()) return true;
  const auto found = context.client_metadata().find(kTokenName);
  if (found == context.client_metadata().end() || found->second.size() != token.size())
    return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < token.size(); ++i)
    difference |=
        static_cast<unsigned char>(found->second.data()[i]) ^ static_cast<unsigned char>(token[i]);
  return difference == 0;
}

}  // namespace penstock::cluster
