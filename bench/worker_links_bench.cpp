// Rows from an input worker to a run over loopback, beside bytes over a bare connection.
//   penstock_worker_links_bench [ROUNDS [CERTIFICATE KEY AUTHORITY]]
// A process sends messages of 32 rows of 224 x 224 x 3 bytes, of which up to 8 are on their way,
// and another receives them, which reads none of the bytes: GB a second, and CPU seconds a GB of
// each, medians of rounds in which all take turns. Then the round trip of a message of 100 bytes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/internal/module.h>
#include <penstock/internal/worker_links.h>

namespace {

using namespace penstock;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kRow = std::size_t{224} * 224 * 3;
constexpr int kRows = 32;
constexpr std::size_t kMessage = kRows * kRow;
constexpr int kMessages = 60;
constexpr int kOnTheirWay = 8;

double cpu_s() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

const WorkerTransport& transport() {
  return *reinterpret_cast<WorkerTransportFn>(
      module_symbol("libpenstock_cluster.so", kWorkerTransportSymbol, [](void* symbol) {
        return reinterpret_cast<WorkerTransportFn>(symbol)()->version == WorkerTransport::kVersion;
      }))();
}

/// Sends rows for each message that begins with 'r', and any other back.
class Worker final : public LinkListener {
 public:
  Worker(WorkerLink& link, const std::vector<std::byte>& rows) : link_(link) {
    for (int i = 0; i < kRows; ++i) rows_.pieces.emplace_back(rows.data() + i * kRow, kRow);
    rows_.owner = std::shared_ptr<const void>(&rows, [](const void*) {});
  }
  void received(WireBytes message) noexcept override {
    link_.send(message.pieces[0][0] == std::byte{'r'} ? rows_ : std::move(message));
  }
  void lost(const Status& /*why*/) noexcept override {}

 private:
  WorkerLink& link_;
  WireBytes rows_;
};

/// A process that sends, until its parent ends. A byte on one pipe asks for its CPU time, which
/// comes on the other.
class Sender {
 public:
  template <typename Serve>
  explicit Sender(Serve serve) {
    int ask[2];
    int answer[2];
    if (pipe(ask) != 0 || pipe(answer) != 0 || (process_ = fork()) < 0) std::abort();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto served = serve();
      for (char one = 0; read(ask[0], &one, 1) == 1;) {
        const double now = cpu_s();
        if (write(answer[1], &now, sizeof now) != sizeof now) break;
      }
      _exit(0);
    }
    ask_ = ask[1];
    answer_ = answer[0];
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  double cpu() const {
    double now = 0;
    if (write(ask_, "?", 1) != 1 || read(answer_, &now, sizeof now) != sizeof now) std::abort();
    return now;
  }

 private:
  pid_t process_ = -1;
  int ask_ = -1, answer_ = -1;
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void receive(int messages) = 0;
};

class OfLink final : public Receiver, private LinkListener {
 public:
  OfLink(const std::string& address, const WorkerSecurity& security) {
    for (int tries = 0; !let_in_ && tries < 200; ++tries) {
      link_ = transport().connect(address, security, std::chrono::seconds(10), *this);
      heard_.acquire();
      if (!let_in_) usleep(50'000);
    }
    if (!let_in_) std::abort();
  }
  ~OfLink() override { ending_ = true; }
  void receive(int messages) override {
    for (int i = 0; i < messages + kOnTheirWay; ++i) {
      if (i >= kOnTheirWay) heard_.acquire();
      if (i < messages) ask("r");
    }
  }
  double round_trip_us() {
    std::vector<double> us;
    for (int i = 0; i < 500; ++i) {
      const auto before = Clock::now();
      ask(std::string(100, 'x'));
      heard_.acquire();
      us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
    }
    return median(us);
  }

 private:
  void ask(const std::string& text) {
    const auto owner = std::make_shared<const std::string>(text);
    link_->send({{std::as_bytes(std::span(*owner))}, owner});
  }
  void connected() noexcept override {
    let_in_ = true;
    heard_.release();
  }
  void received(WireBytes /*message*/) noexcept override { heard_.release(); }
  void lost(const Status& why) noexcept override {
    if (let_in_ && !ending_) {
      std::fprintf(stderr, "%s\n", why.error().what());
      std::abort();
    }
    heard_.release();
  }

  std::counting_semaphore<> heard_{0};
  bool let_in_ = false;
  std::atomic<bool> ending_{false};
  std::unique_ptr<WorkerLink> link_;
};

class OfSocket final : public Receiver {
 public:
  explicit OfSocket(int socket) : socket_(socket) {}
  void receive(int messages) override {
    if (write(socket_, &messages, sizeof messages) != sizeof messages) std::abort();
    for (std::size_t left = messages * kMessage; left > 0;) {
      const ssize_t got = read(socket_, to_.data(), std::min(left, to_.size()));
      if (got <= 0) std::abort();
      left -= static_cast<std::size_t>(got);
    }
  }

 private:
  const int socket_;
  std::vector<char> to_ = std::vector<char>(kMessage);
};

struct Way {
  std::string name;
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
  std::vector<double> gb_a_second, of_sender, of_receiver;
};

std::string address(int i) {
  return "127.0.0.1:" + std::to_string(20'000 + static_cast<int>(getpid() % 10'000) * 2 + i);
}

/// Forked before this process has threads of gRPC's.
Way by_link(const std::string& name, int i, const WorkerSecurity& security) {
  return {name,
          std::make_unique<Sender>([&, at = address(i)] {
            static const std::vector<std::byte> rows(kMessage, std::byte{7});
            return transport().listen(at, security, [](WorkerLink& link) {
              return std::make_shared<Worker>(link, rows);
            });
          }),
          nullptr,
          {},
          {},
          {}};
}

Way by_socket() {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  if (bind(listening, reinterpret_cast<sockaddr*>(&here), size) != 0 || listen(listening, 1) != 0 ||
      getsockname(listening, reinterpret_cast<sockaddr*>(&here), &size) != 0)
    std::abort();
  auto sender = std::make_unique<Sender>([&] {
    return std::jthread([there = accept(listening, nullptr, nullptr)] {
      const std::vector<char> rows(kMessage, 7);
      for (int messages = 0; read(there, &messages, sizeof messages) == sizeof messages;)
        for (; messages > 0; --messages)
          for (std::size_t sent = 0; sent < kMessage;) {
            const ssize_t now = write(there, rows.data() + sent, kMessage - sent);
            if (now <= 0) return;
            sent += static_cast<std::size_t>(now);
          }
    });
  });
  const int own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(own, reinterpret_cast<sockaddr*>(&here), size) != 0) std::abort();
  return {"bare TCP", std::move(sender), std::make_unique<OfSocket>(own), {}, {}, {}};
}

void measure(Way& way) {
  const double of_sender = way.sender->cpu();
  const double own = cpu_s();
  const auto start = Clock::now();
  way.receiver->receive(kMessages);
  const std::chrono::duration<double> took = Clock::now() - start;
  constexpr double kGb = 1e-9 * kMessages * kMessage;
  way.gb_a_second.push_back(kGb / took.count());
  way.of_receiver.push_back((cpu_s() - own) / kGb);
  way.of_sender.push_back((way.sender->cpu() - of_sender) / kGb);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 11;
  std::vector<Way> ways;
  ways.push_back(by_socket());
  ways.push_back(by_link("in the clear", 0, {}));
  const WorkerSecurity tls =
      argc == 5 ? WorkerSecurity{argv[2], argv[3], argv[4], "t"} : WorkerSecurity{};
  if (argc == 5) ways.push_back(by_link("with TLS", 1, tls));
  std::vector<OfLink*> links;
  for (std::size_t i = 1; i < ways.size(); ++i) {
    auto link =
        std::make_unique<OfLink>(address(static_cast<int>(i) - 1), i == 1 ? WorkerSecurity{} : tls);
    links.push_back(link.get());
    ways[i].receiver = std::move(link);
  }
  for (int round = 0; round <= rounds; ++round)
    for (Way& way : ways) {
      measure(way);
      if (round == 0) way.gb_a_second.clear(), way.of_sender.clear(), way.of_receiver.clear();
    }
  for (const Way& way : ways)
    std::printf("%-12s %.2f GB/s (best %.2f), CPU s/GB: sender %.2f, receiver %.2f\n",
                way.name.c_str(), median(way.gb_a_second),
                *std::ranges::max_element(way.gb_a_second), median(way.of_sender),
                median(way.of_receiver));
  for (std::size_t i = 0; i < links.size(); ++i)
    std::printf("%-12s round trip of 100 bytes %.0f us\n", ways[i + 1].name.c_str(),
                links[i]->round_trip_us());
  return 0;
}
