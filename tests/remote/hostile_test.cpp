// Links to a worker that are no runs, or runs that want to fill its memory: it keeps few of them,
// holds few bytes for them, and has room for others. And workers that end a link at once.
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/element.h>
#include <penstock/plan.h>
#include <penstock/serve.h>
#include <penstock/sources.h>
#include <penstock/version.h>

#include "pipeline/remote/messages.h"
#include "pipeline/remote/transport.h"
#include "pipeline/stage/fingerprint.h"
#include "tests/remote/loop_transport.h"
#include "tests/support/log_capture.h"
#include "tests/support/time_limit.h"
#include "tests/support/wait_until.h"

namespace penstock::remote {
namespace {

using test::TimeLimit;
using test::wait_until;

constexpr std::uint64_t kMemory = 64 << 20;
constexpr int kRuns = 4;

/// What the worker under test has given to the transport.
struct Port {
  AcceptLink accept;
};
Port& port() {
  static Port* const instance = new Port;
  return *instance;
}

/// A client's side of a link that reads nothing, and the messages for it.
class Unread final : public WorkerLink {
 public:
  void send(WireBytes message) override {
    const std::lock_guard lock(mutex_);
    bytes_ += message.size();
    messages_.push_back(std::move(message));
  }
  void admit() noexcept override { admitted_ = true; }
  void close() noexcept override { closed_ = true; }

  std::size_t messages() const {
    const std::lock_guard lock(mutex_);
    return messages_.size();
  }
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  Kind last_kind() const {
    const std::lock_guard lock(mutex_);
    return Incoming(messages_.back()).kind();
  }
  bool admitted() const noexcept { return admitted_; }
  bool closed() const noexcept { return closed_; }

 private:
  mutable std::mutex mutex_;
  std::vector<WireBytes> messages_;
  std::size_t bytes_ = 0;
  std::atomic<bool> admitted_{false}, closed_{false};
};

/// A client. At its end, its link is lost.
class Client {
 public:
  Client() : listener_(port().accept(link)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    if (listener_ != nullptr) listener_->lost({ErrorCode::unavailable, "the client is gone"});
  }
  bool refused() const noexcept { return listener_ == nullptr; }
  void send(WireBytes message) { listener_->received(std::move(message)); }

  Unread link;

 private:
  std::shared_ptr<LinkListener> listener_;
};

class FakePort final : public WorkerPort {
 public:
  std::string address() const override { return "fake:1"; }
  void set_serving(bool /*serving*/) override {}
  std::size_t refused() const noexcept override { return 0; }
};

class HostileRuns : public testing::Test {
 protected:
  HostileRuns() : dataset_(range(1000)) {
    static WorkerTransport transport = test::loop_transport();
    transport.listen = [](const std::string&, const WorkerSecurity&,
                          AcceptLink accept) -> std::unique_ptr<WorkerPort> {
      port().accept = std::move(accept);
      return std::make_unique<FakePort>();
    };
    use_worker_transport(transport);
    server_ = serve(dataset_, {.threads = 1, .memory_bytes = kMemory, .most_runs = kRuns});
  }
  ~HostileRuns() override {
    server_.reset();
    use_worker_transport(test::loop_transport());
  }

  WireBytes hello() const {
    RunOptions options;
    options.memory_bytes = kMemory;
    const Plan plan = compile(dataset_, options);
    StateWriter fingerprint;
    Fingerprint(*plan.root()).save(fingerprint);
    Hello hello;
    hello.version = version();
    hello.build = build_id();
    hello.fingerprint = fingerprint.take();
    return encode(hello);
  }
  /// Says hello, and waits for the welcome.
  void greet(Client& client) const {
    client.send(hello());
    wait_until([&] { return client.link.messages() > 0; });
    ASSERT_EQ(client.link.last_kind(), Kind::welcome);
    EXPECT_TRUE(client.link.admitted());
  }
  /// A question that no worker answers but by a refusal.
  static WireBytes nonsense() {
    StateWriter head;
    head.put(static_cast<std::uint64_t>(Kind::ask));
    head.put(7);
    head.put(1'000'000);
    return message(head.bytes());
  }

  const Dataset dataset_;
  std::unique_ptr<InputServer> server_;
  const TimeLimit limit_{60};
};

TEST_F(HostileRuns, SilentLinks) {
  std::list<Client> silent;
  for (int i = 0; i < 50; ++i) silent.emplace_back();
  std::size_t open = 0;
  for (const Client& client : silent) {
    EXPECT_FALSE(client.refused());
    EXPECT_FALSE(client.link.admitted());
    open += client.link.closed() ? 0 : 1;
  }
  EXPECT_EQ(open, kRuns + 4U) << "the oldest go";
  EXPECT_TRUE(silent.front().link.closed());
  EXPECT_FALSE(silent.back().link.closed());
  std::list<Client> runs;
  for (int i = 0; i < kRuns; ++i) greet(runs.emplace_back());
  EXPECT_EQ(server_->stats().runs, kRuns);
  EXPECT_TRUE(Client().refused());
  runs.pop_front();
  wait_until([&] { return server_->stats().runs < kRuns; });
  greet(runs.emplace_back());
}

TEST_F(HostileRuns, GreetingsOfStrangers) {
  std::list<Client> strangers;
  for (int i = 0; i < 20; ++i) {
    Client& client = strangers.emplace_back();
    Hello other;
    other.version = "0.0.1";
    client.send(encode(other));
    wait_until([&] { return client.link.messages() > 0 || client.link.closed(); });
  }
  wait_until([&] { return server_->stats().runs == 0; });
  Client run;
  greet(run);
}

TEST_F(HostileRuns, UnreadAnswers) {
  Client client;
  greet(client);
  // A fourth of a run's memory, and a little more.
  const std::size_t most = (kMemory / kRuns / 4 + (1 << 20)) / 8192 + 2;
  std::size_t sent = 0;
  for (; sent < 1'000'000 && !client.link.closed(); ++sent) client.send(nonsense());
  EXPECT_TRUE(client.link.closed()) << "what waits for it is bounded, too";
  EXPECT_LT(sent, 100'000U);
  EXPECT_LE(client.link.messages(), most);
  Client other;
  greet(other);
}

TEST_F(HostileRuns, BytesBeforeTheHello) {
  Client client;
  const auto large = std::make_shared<const std::string>(3 << 20, 'x');
  client.send({{std::as_bytes(std::span(*large))}, large});
  EXPECT_TRUE(client.link.closed());
}

TEST_F(HostileRuns, UnknownStageNames) {
  Client client;
  greet(client);
  const auto ask = [&](const std::string& name, std::uint64_t components) {
    StateWriter head;
    head.put(static_cast<std::uint64_t>(Kind::ask));
    head.put(1);  // id
    head.put(0);  // stage
    head.put(0);  // no rows
    put_fixed(head, 0);
    head.put(1);  // layouts
    head.put(components);
    for (std::uint64_t i = 0; i < components; ++i) {
      head.put_bytes(name + std::to_string(i));
      head.put(0);
    }
    head.put(0);  // items
    const std::size_t before = client.link.messages();
    client.send(message(head.bytes()));
    wait_until([&] { return client.link.messages() > before; });
    EXPECT_EQ(client.link.last_kind(), Kind::refused);
  };
  const std::string name(1000, 'n');
  ask(name, 3);
  const std::vector<std::string> names{name + "0", name + "1", name + "2"};
  EXPECT_EQ(Names::known(names), nullptr);
  ask("many", 5000);
}

/// A link whose loss is told by its destructor, as that of a link is that waits for its thread.
class Lost final : public WorkerLink {
 public:
  explicit Lost(LinkListener& listener) : listener_(listener) {}
  ~Lost() override { listener_.lost({ErrorCode::unavailable, "the link has ended"}); }
  void send(WireBytes /*message*/) override {}
  void close() noexcept override {}

 private:
  LinkListener& listener_;
};

/// "refuses" does so before connect() returns, "wrong" is no address, and others are silent.
WorkerTransport hostile_workers() {
  WorkerTransport transport = test::loop_transport();
  transport.connect = [](const std::string& address, const WorkerSecurity&,
                         std::chrono::milliseconds,
                         LinkListener& listener) -> std::unique_ptr<WorkerLink> {
    if (address == "wrong") throw Error(ErrorCode::invalid_argument, "wrong is no address");
    if (address == "refuses")
      listener.received(encode_refused({ErrorCode::invalid_argument, "the graph is another"}));
    return std::make_unique<Lost>(listener);
  };
  return transport;
}

class HostileWorkers : public testing::Test {
 protected:
  HostileWorkers() { use_worker_transport(transport_); }
  ~HostileWorkers() override { use_worker_transport(test::loop_transport()); }

  static RunOptions options(std::vector<std::string> addresses) {
    RunOptions options{.threads = 1, .memory_bytes = kMemory};
    options.workers.addresses = std::move(addresses);
    options.workers.local_threads = 1;
    return options;
  }

  const WorkerTransport transport_ = hostile_workers();
  const Dataset dataset_ = range(1000).map([](Element e) { return e; }).batch(10);
  const TimeLimit limit_{60};
};

TEST_F(HostileWorkers, RefusalBeforeTheLinkIsKnown) {
  for (int i = 0; i < 20; ++i) {
    Iterator run = dataset_.iterate(options({"refuses", "silent", "refuses"}));
    std::int64_t rows = 0;
    while (Next next = run.next()) rows += next->valid_rows;
    EXPECT_EQ(rows, 1000);
    EXPECT_THAT(run.stats().workers.at(0).problem, testing::HasSubstr("the graph is another"));
  }
}

TEST_F(HostileWorkers, WrongAddressBehindLinks) {
  const test::LogCapture log;
  try {
    dataset_.iterate(options({"silent", "refuses", "silent", "wrong", "silent"}));
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(error.what(), "wrong is no address");
  }
  EXPECT_EQ(log.count("wrong is no address"), 0U) << "the error says it";
}

}  // namespace
}  // namespace penstock::remote
