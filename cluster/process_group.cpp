#include "cluster/process_group.h"

namespace penstock::cluster {

std::string_view name_of(Exchange exchange) noexcept {
  return exchange == Exchange::ring ? "ring" : "ordered";
}

Exchange parse_exchange(std::string_view name) {
  for (const Exchange exchange : {Exchange::ordered, Exchange::ring})
    if (name_of(exchange) == name) return exchange;
  throw Error(ErrorCode::invalid_argument,
              "no exchange " + std::string(name) + "; there are: ordered, ring");
}

std::string_view name_of(Transport transport) noexcept {
  return transport == Transport::grpc ? "grpc" : "gloo";
}

Transport parse_transport(std::string_view name) {
  for (const Transport transport : {Transport::gloo, Transport::grpc})
    if (name_of(transport) == name) return transport;
  throw Error(ErrorCode::invalid_argument,
              "no transport " + std::string(name) + "; there are: gloo, grpc");
}

std::string_view name_of(Compress compress) noexcept {
  return compress == Compress::bf16 ? "bf16" : "none";
}

Compress parse_compress(std::string_view name) {
  for (const Compress compress : {Compress::none, Compress::bf16})
    if (name_of(compress) == name) return compress;
  throw Error(ErrorCode::invalid_argument,
              "no compression " + std::string(name) + "; there are: none, bf16");
}

}  // namespace penstock::cluster
