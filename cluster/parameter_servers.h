// Parameter servers that are reached over the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cluster/rendezvous.h"
#include "towers/servers/parameter_server.h"

namespace penstock::cluster {

/// A parameter server that other processes can reach. Thread-safe. The destructor ends waiting
/// calls.
class ServedParameters {
 public:
  virtual ~ServedParameters() = default;
  /// Returns the number of attempts by strangers that were refused.
  virtual std::size_t refused() const noexcept = 0;
  /// Return the bytes of all messages of the job that were received, and that were sent.
  virtual std::uint64_t received() const noexcept = 0;
  virtual std::uint64_t sent() const noexcept = 0;
};

/// Serves `server` at "host:port" to processes that carry the job's token. `server` must outlive
/// the returned object. A thread of its own calls `look` every fifth of `peer_timeout`, so that
/// processes without a sign of life for longer are found lost; `look` must not throw. Throws
/// Error{invalid_argument} if the address is not loopback and TLS files or a token are missing,
/// Error{unavailable} if it cannot listen there, and Error{not_found} if the module is missing.
std::unique_ptr<ServedParameters> serve_parameters(towers::ParameterServer& server,
                                                   const std::string& address,
                                                   const RendezvousOptions& options,
                                                   std::function<void()> look = {});

/// Returns the parameter server at "host:port", which errors call `name`, such as "ps 1". It sends
/// nothing yet. The caller must give signs of life (towers::Pulse).
///
/// While the server cannot be reached, calls are retried. Before the server was first reached, they
/// are retried for `join_timeout`, or for the limit that `enter` is given. Afterwards they are
/// retried for `peer_timeout`, and then the server counts as lost. A slow answer is not a loss
/// while other answers arrive. Throws as `serve_parameters` does.
std::unique_ptr<towers::ParameterServer> open_parameter_server(const std::string& name,
                                                               const std::string& address,
                                                               const RendezvousOptions& options);

}  // namespace penstock::cluster
