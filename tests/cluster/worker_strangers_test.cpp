// Whoever is no run of a worker's job, and no worker of a run's: refused, counted, and nobody else
// is harmed. And what a worker's port says to those who look after its health.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_builder.h>

#include <penstock/rng.h>

#include "cluster/net/worker_transport.h"
#include "tests/cluster/certificates.h"
#include "tests/cluster/ranks.h"
#include "tests/cluster/worker_peers.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using test::echoes;
using test::Heard;
using test::make_certificates;
using test::message_of;

/// True if a message comes back.
bool works(const std::string& address, const WorkerSecurity& security) {
  Heard heard;
  const auto link = connect_to_worker(address, security, 10s, heard);
  link->send(message_of("still there"));
  return heard.waits_messages(1) && heard.take() == std::vector<std::string>{"still there"};
}

/// Why a link did not come to stand.
std::pair<ErrorCode, std::string> why_refused(const std::string& address,
                                              const WorkerSecurity& security) {
  Heard heard;
  const auto link = connect_to_worker(address, security, 2s, heard);
  EXPECT_TRUE(heard.waits_lost(4s));
  EXPECT_EQ(heard.connected_times(), 0);
  return {heard.code(), heard.why()};
}

/// Calls a method with one message, by a channel without penstock; what came back.
grpc::Status call(const std::string& address, const std::string& method, const std::string& message,
                  std::string& reply) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 10s);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(message);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer answer;
  grpc::Status status;
  const auto reader = stub.PrepareUnaryCall(&context, method, request, &queue);
  reader->StartCall();
  reader->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool done = false;
  queue.Next(&tag, &done);
  std::vector<grpc::Slice> slices;
  if (status.ok() && answer.Dump(&slices).ok())
    for (const grpc::Slice& part : slices)
      reply.append(reinterpret_cast<const char*>(part.begin()), part.size());
  return status;
}

TEST(WorkerStrangers, ForbiddenAddresses) {
  Heard heard;
  const auto listen = [](const std::string& address, const WorkerSecurity& security = {}) {
    return test::error_of([&] { static_cast<void>(listen_for_runs(address, security, echoes())); });
  };
  for (const char* address : {"", "host", ":1", "host:", "host:x", "host:123456", "unix:/x:1",
                              "dns:///host:1", "a:1,b:1"}) {
    EXPECT_NE(listen(address).find("HOST:PORT"), std::string::npos) << address;
    EXPECT_NE(test::error_of([&] {
                static_cast<void>(connect_to_worker(address, {}, 1s, heard));
              }).find("HOST:PORT"),
              std::string::npos)
        << address;
  }
  EXPECT_NE(listen("0.0.0.0:1").find("--tls-cert"), std::string::npos);
  EXPECT_NE(listen("10.0.0.1:1", {"cert", "key", "ca", ""}).find("token"), std::string::npos);
  EXPECT_NE(listen("10.0.0.1:1", {"cert", "key", "ca", "t"}).find("can't read the TLS"),
            std::string::npos);
  EXPECT_NE(listen("127.0.0.1:1", {"cert", "", "ca", ""}).find("all three"), std::string::npos);
}

TEST(WorkerStrangers, WithoutTheTokenAreRefusedForGood) {
  const TimeLimit limit(60);
  WorkerSecurity security;
  security.token = "the job's";
  const auto port = listen_for_runs("127.0.0.1:0", security, echoes());
  for (const char* token : {"", "another job's", "the job'S"}) {
    WorkerSecurity wrong;
    wrong.token = token;
    const auto [code, why] = why_refused(port->address(), wrong);
    EXPECT_EQ(code, ErrorCode::invalid_argument);
    EXPECT_NE(why.find(port->address() + " refused this process: not this job's token"),
              std::string::npos)
        << why;
  }
  EXPECT_EQ(port->refused(), 3U);
  std::string reply;
  EXPECT_EQ(call(port->address(), "/penstock.Workers/Other", "x", reply).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(call(port->address(), "/penstock.Workers/Stream", "x", reply).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(port->refused(), 5U);
  EXPECT_TRUE(works(port->address(), security));
}

TEST(WorkerStrangers, RunsNotAccepted) {
  const TimeLimit limit(60);
  const auto port =
      listen_for_runs("127.0.0.1:0", {}, [](WorkerLink& /*link*/) { return nullptr; });
  const auto [code, why] = why_refused(port->address(), {});
  EXPECT_EQ(code, ErrorCode::unavailable);
  EXPECT_NE(why.find("accepts no runs"), std::string::npos) << why;
  EXPECT_EQ(port->refused(), 0U);
}

TEST(WorkerStrangers, RandomBytes) {
  const TimeLimit limit(60);
  const auto port = listen_for_runs("127.0.0.1:0", {}, echoes());
  Heard heard;
  const auto link = connect_to_worker(port->address(), {}, 5s, heard);
  ASSERT_TRUE(heard.waits_connected());
  Rng rng(1, 0, 0);
  const std::string address = port->address();
  const auto number = static_cast<unsigned short>(std::stoi(address.substr(address.find(':') + 1)));
  boost::asio::io_context context;
  std::vector<std::unique_ptr<boost::asio::ip::tcp::socket>> silent;
  for (int i = 0; i < 100; ++i) {
    auto socket = std::make_unique<boost::asio::ip::tcp::socket>(context);
    socket->connect({boost::asio::ip::address_v4::loopback(), number});
    std::string junk = i % 2 == 0 ? "" : "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (std::uint64_t n = rng.below(5000); n > 0; --n)
      junk.push_back(static_cast<char>(rng.below(256)));
    boost::system::error_code ignored;
    if (i % 4 != 0) boost::asio::write(*socket, boost::asio::buffer(junk), ignored);
    if (i % 3 == 0) silent.push_back(std::move(socket));  // stays
  }
  link->send(message_of("unharmed"));
  ASSERT_TRUE(heard.waits_messages(1)) << heard.why();
  EXPECT_EQ(heard.lost_times(), 0);
  EXPECT_TRUE(works(address, {}));
}

TEST(WorkerStrangers, OversizedMessage) {
  const TimeLimit limit(60);
  const auto accepted = std::make_shared<Heard>();
  const auto port = listen_for_runs("127.0.0.1:0", {}, [&](WorkerLink& link) {
    link.admit();  // a stranger would be cut off earlier
    return accepted;
  });
  std::string reply;
  const grpc::Status status = call(port->address(), "/penstock.Workers/Stream",
                                   std::string(WorkerLink::kMostBytesOfMessage + 1000, 'x'), reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  ASSERT_TRUE(accepted->waits_lost());
  EXPECT_NE(accepted->why().find("64 MiB"), std::string::npos) << accepted->why();
  EXPECT_TRUE(accepted->take().empty());
  Heard heard;
  const auto link = connect_to_worker(port->address(), {}, 5s, heard);
  EXPECT_TRUE(heard.waits_connected());
}

/// What is there is no worker.
TEST(WorkerStrangers, AreNoWorkers) {
  const TimeLimit limit(60);
  // A server of gRPC that knows nothing of workers, and lets everybody in.
  struct Generous final : grpc::CallbackGenericService {
    struct Silent final : grpc::ServerGenericBidiReactor {
      Silent() { StartSendInitialMetadata(); }
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* /*context*/) override {
      return new Silent;
    }
  } generous;
  for (const bool knows : {false, true}) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    grpc::CallbackGenericService nothing;
    builder.RegisterCallbackGenericService(knows ? &generous : &nothing);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    const auto [code, why] = why_refused("127.0.0.1:" + std::to_string(port), {});
    EXPECT_EQ(code, ErrorCode::unavailable);
    EXPECT_NE(why.find(knows ? "no answer" : "is not a Penstock input worker"), std::string::npos)
        << why;
    server->Shutdown(std::chrono::system_clock::now());
  }
}

TEST(WorkerStrangers, WithTheWrongCertificateOrNoneAreNotReached) {
  const TimeLimit limit(60);
  const TempFolder folder;
  if (!make_certificates(folder.path())) GTEST_SKIP() << "Debian's openssl is not installed";
  const auto files = [&](const std::string& name, const std::string& ca) {
    return WorkerSecurity{folder / (name + ".pem"), folder / (name + ".key"),
                          folder / (ca + ".pem"), "t"};
  };
  const WorkerSecurity right = files("rank", "ca");
  const auto port = listen_for_runs("127.0.0.1:0", right, echoes());
  struct {
    const char* name;
    WorkerSecurity security;
    ErrorCode code;
  } const kWrong[] = {
      {"none", {"", "", "", "t"}, ErrorCode::unavailable},
      {"a stranger's", files("stranger", "ca"), ErrorCode::unavailable},
      {"another authority", files("rank", "other-ca"), ErrorCode::invalid_argument},
  };
  for (const auto& wrong : kWrong) {
    SCOPED_TRACE(wrong.name);
    const auto [code, why] = why_refused(port->address(), wrong.security);
    EXPECT_EQ(code, wrong.code) << why;
    EXPECT_NE(why.find("certificate"), std::string::npos) << why;
  }
  WorkerSecurity token = right;
  token.token = "another job's";
  EXPECT_EQ(why_refused(port->address(), token).first, ErrorCode::invalid_argument);
  EXPECT_EQ(port->refused(), 1U);
  EXPECT_TRUE(works(port->address(), right));
  const auto open = listen_for_runs("127.0.0.1:0", {}, echoes());
  const auto [code, why] = why_refused(open->address(), right);
  EXPECT_EQ(code, ErrorCode::invalid_argument) << why;
}

TEST(WorkerHealth, IsWhatTheWorkerSays) {
  const TimeLimit limit(60);
  const auto port = listen_for_runs("127.0.0.1:0", {}, echoes());
  const std::pair<bool, const char*> kSaid[] = {{true, "\x08\x01"}, {false, "\x08\x02"}};
  for (const auto& [serving, says] : kSaid) {
    port->set_serving(serving);
    std::string reply;
    EXPECT_TRUE(call(port->address(), "/grpc.health.v1.Health/Check", "", reply).ok());
    EXPECT_EQ(reply, says);
  }
  EXPECT_EQ(port->refused(), 0U);
  EXPECT_TRUE(works(port->address(), {}));  // who drains says so to its runs itself
}

}  // namespace
}  // namespace penstock::cluster
