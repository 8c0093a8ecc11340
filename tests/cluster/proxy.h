// A connection that a test can break or halt.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

namespace penstock::cluster::test {

/// Forwards connections to an address on the loopback interface. Counts the bytes of both
/// directions.
class Proxy {
  using tcp = boost::asio::ip::tcp;

 public:
  explicit Proxy(const std::string& target)
      : target_(boost::asio::ip::address_v4::loopback(),
                static_cast<unsigned short>(std::stoi(target.substr(target.find(':') + 1)))),
        acceptor_(context_, {boost::asio::ip::address_v4::loopback(), 0}) {
    accept();
    thread_ = std::jthread([this] { context_.run(); });
  }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  ~Proxy() {
    context_.stop();
    thread_.join();
  }

  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  /// Cuts all connections, once, after this many more bytes.
  void cut_after(std::size_t bytes) {
    was_cut_ = false;
    moved_ = 0;
    cut_at_ = bytes;
  }
  bool was_cut() const { return was_cut_; }
  /// Halts the connections for good after this many more bytes: they stay open, but nothing passes.
  void freeze_after(std::size_t bytes) {
    moved_ = 0;
    freeze_at_ = bytes;
  }

 private:
  struct Pair {
    explicit Pair(boost::asio::io_context& context) : near(context), far(context) {}
    tcp::socket near, far;
    std::vector<char> there = std::vector<char>(1 << 18), back = std::vector<char>(1 << 18);
  };

  void accept() {
    auto pair = std::make_shared<Pair>(context_);
    acceptor_.async_accept(pair->near, [this, pair](const boost::system::error_code& error) {
      if (error) return;
      pairs_.push_back(pair);
      boost::system::error_code refused;
      pair->far.connect(target_, refused);
      if (!refused) {
        pass(pair, pair->near, pair->far, pair->there);
        pass(pair, pair->far, pair->near, pair->back);
      }
      accept();
    });
  }

  void pass(const std::shared_ptr<Pair>& pair, tcp::socket& from, tcp::socket& to,
            std::vector<char>& buffer) {
    from.async_read_some(
        boost::asio::buffer(buffer),
        [this, pair, &from, &to, &buffer](const boost::system::error_code& error, std::size_t got) {
          moved_ += got;
          if (moved_ >= freeze_at_) {
            frozen_.push_back(pair);
            return;
          }
          if (moved_ >= cut_at_) {
            cut_at_ = kNever;
            was_cut_ = true;
            for (const std::weak_ptr<Pair>& other : pairs_)
              if (const auto open = other.lock()) close(*open);
            pairs_.clear();
            return;
          }
          if (error) return close(*pair);
          boost::asio::async_write(
              to, boost::asio::buffer(buffer, got),
              [this, pair, &from, &to, &buffer](const boost::system::error_code& failed,
                                                std::size_t /*written*/) {
                if (failed) return close(*pair);
                pass(pair, from, to, buffer);
              });
        });
  }

  static void close(Pair& pair) {
    boost::system::error_code ignored;
    pair.near.close(ignored);
    pair.far.close(ignored);
  }

  static constexpr std::size_t kNever = ~std::size_t{0};

  const tcp::endpoint target_;
  std::atomic<std::size_t> moved_{0}, cut_at_{kNever}, freeze_at_{kNever};
  std::atomic<bool> was_cut_{false};
  boost::asio::io_context context_;
  tcp::acceptor acceptor_;
  std::vector<std::weak_ptr<Pair>> pairs_;     // used by the thread only
  std::vector<std::shared_ptr<Pair>> frozen_;  // used by the thread only
  std::jthread thread_;
};

}  // namespace penstock::cluster::test
