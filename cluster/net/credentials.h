// Access control: TLS files, the job's token, and the addresses that need them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/channel_arguments.h>

#include "cluster/rendezvous.h"

namespace penstock::cluster {

/// The kind of server that `check_exposure` checks. That function throws Error{invalid_argument} if
/// `address` is not loopback and TLS files or the token are missing. It throws the same if only
/// some of the files are given. The token is not required for etcd, which identifies clients by
/// their certificates.
enum class Server { rank_0, etcd };
void check_exposure(const std::string& address, const RendezvousOptions& options,
                    Server server = Server::rank_0);

/// Return credentials. With TLS files, each side shows a certificate and demands one. Throw
/// Error{not_found}, which names the file, if one cannot be read.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& files);
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsFiles& files);

/// Returns arguments for a connection to a server that may start seconds later, or restart. Proxies
/// are not used.
grpc::ChannelArguments patient_channel();

/// The name of the call's metadata that holds the token.
inline constexpr const char* kTokenName = "penstock-token";
/// True if the call carries this token. The comparison takes equally long for every wrong token of
/// the same length.
bool shows_token(const grpc::ServerContextBase& context, std::string_view token);

}  // namespace penstock::cluster
