#include "cluster/reach.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <penstock/error.h>

namespace penstock::cluster {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kPause{200};

std::pair<std::string, std::string> host_and_port(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  std::string host(address.substr(0, colon));
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return {host, std::string(address.substr(colon + 1))};
}

/// Retries one address until it is reached.
class Probe {
 public:
  Probe(asio::io_context& context, Reached& result)
      : result_(result), resolver_(context), socket_(context), pause_(context) {
    result_.problem = "no answer";
    resolve();
  }

 private:
  void resolve() {
    const auto [host, port] = host_and_port(result_.address);
    resolver_.async_resolve(
        host, port, [this](const error_code& error, const tcp::resolver::results_type& found) {
          if (error) return again("unknown host");
          connect(found);
        });
  }

  void connect(const tcp::resolver::results_type& found) {
    asio::async_connect(socket_, found, [this](const error_code& error, const tcp::endpoint&) {
      if (!error) {
        result_.problem.clear();
        error_code ignored;
        socket_.close(ignored);
      } else {
        again(error == asio::error::connection_refused ? "refused: no process listens on this port"
                                                       : error.message());
      }
    });
  }

  void again(const std::string& problem) {
    result_.problem = problem;
    pause_.expires_after(kPause);
    pause_.async_wait([this](const error_code& error) {
      if (!error) resolve();
    });
  }

  Reached& result_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer pause_;
};

/// Accepts every connection, and closes it.
class Door {
 public:
  Door(asio::io_context& context, const std::string& address) : acceptor_(context) {
    const auto [host, port] = host_and_port(address);
    try {
      const tcp::endpoint here = *tcp::resolver(context).resolve(host, port).begin();
      acceptor_.open(here.protocol());
      acceptor_.set_option(tcp::acceptor::reuse_address(true));
      acceptor_.bind(here);
      acceptor_.listen();
    } catch (const boost::system::system_error& error) {
      throw Error(ErrorCode::unavailable,
                  "can't listen at " + address + ": " + error.code().message());
    }
    accept();
  }

 private:
  void accept() {
    acceptor_.async_accept([this](const error_code& error, const tcp::socket&) {
      if (error != asio::error::operation_aborted) accept();
    });
  }

  tcp::acceptor acceptor_;
};

}  // namespace

std::vector<Reached> reach(const Cluster& cluster, std::chrono::milliseconds time,
                           const std::function<bool()>& stop) {
  const auto until = std::chrono::steady_clock::now() + time;
  std::string own;
  std::vector<Reached> others;
  for (const Peer& peer : cluster.peers) {
    if (peer.address.empty()) continue;
    const std::string who = std::string(name_of(peer.role)) + " " + std::to_string(peer.index);
    if (peer.role == cluster.role && peer.index == cluster.index)
      own = peer.address;
    else
      others.push_back({who, peer.address, {}});
  }
  constexpr std::string_view kGrpc = "grpc://";
  if (others.empty() && own.empty() && cluster.rendezvous.starts_with(kGrpc)) {
    const std::string address = cluster.rendezvous.substr(kGrpc.size());
    if (cluster.is_chief())
      own = address;
    else
      others.push_back({"rank 0", address, {}});
  }
  asio::io_context context;
  std::optional<Door> door;
  if (!own.empty()) door.emplace(context, own);
  std::vector<std::unique_ptr<Probe>> probes;
  for (Reached& other : others) probes.push_back(std::make_unique<Probe>(context, other));
  while (!context.stopped() && !stop() && std::chrono::steady_clock::now() < until)
    context.run_until(std::min(until, std::chrono::steady_clock::now() + kPause));
  return others;
}

}  // namespace penstock::cluster
