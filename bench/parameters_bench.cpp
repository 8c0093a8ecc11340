// Values to and from a parameter server over loopback.
//   penstock_parameters_bench [ROUNDS [CERTIFICATE KEY AUTHORITY]]
// A server process and one that pushes 96 MB of variables and gets 96 MB back, in the clear and
// with TLS in turn: GB of both directions a second, and CPU seconds of both processes a GB, medians
// of rounds. The server makes no update: it looks whether the values came, and gives its own. Then
// a step of 4,096 of 10 million rows of 64: the bytes of all messages.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/parameter_servers.h"

namespace {

using namespace penstock;
using cluster::RendezvousOptions;
using towers::Piece;

constexpr std::size_t kVariables = 24;
constexpr std::size_t kEach = 1'000'000;
constexpr std::int64_t kRows = 10'000'000;
constexpr std::int64_t kRow = 64;
constexpr std::size_t kIds = 4096;
constexpr std::uint32_t kTable = 1000;

/// Takes rows in place of what it had, and gives what it has.
class Holder final : public towers::ParameterServer {
 public:
  void begin(const towers::Beginning& beginning, const towers::Trainee& /*chief*/) override {
    for (const towers::ServedVariable& variable : beginning.variables)
      values_[variable.number] = std::make_shared<std::vector<float>>(
          static_cast<std::size_t>(variable.shape.volume()), 1.0F);
  }
  void give(const std::string& /*run*/, int /*slot*/, const Piece& /*values*/) override {}
  void ready(const std::string& /*run*/) override {}
  towers::SnapshotHead keep(const std::string& /*run*/) override { return {}; }
  void snapshot(const std::string& /*run*/, int /*slot*/, towers::Takers& /*taker*/) override {}
  towers::ServerFigures figures(const std::string& /*run*/) override { return {}; }
  void end(const std::string& /*run*/, const Status& /*why*/) override {}
  towers::Entered enter(const towers::Trainee& /*who*/,
                        const std::map<std::string, std::string>& /*facts*/,
                        std::chrono::milliseconds /*limit*/) override {
    return {};
  }
  Status beat(const towers::Trainee& /*who*/, const Status& /*failed*/) override { return {}; }
  void keep_feed(const towers::Trainee& /*who*/, const towers::KeptFeed& /*feed*/) override {}
  towers::Pushed push(const towers::Trainee& /*who*/, const towers::Push& push,
                      towers::Takers& taker) override {
    for (const Piece& piece : push.pieces) {
      const auto& held = values_.at(piece.variable);
      std::vector<float>& now = *held;
      if (piece.rows != nullptr) {
        const std::size_t in_row = piece.count / piece.row_count;
        for (std::size_t i = 0; i < piece.row_count; ++i)
          std::memcpy(&now[static_cast<std::size_t>(piece.rows[i]) * in_row],
                      piece.values + i * in_row, in_row * sizeof(float));
        continue;
      }
      if (piece.values[0] != 1 || piece.values[piece.count - 1] != 1)
        throw Error(ErrorCode::data_loss, "other values came than were sent");
      taker.share(piece.variable, {held, now.data()}, now.size());
    }
    return {};
  }
  towers::Pushed commit(const towers::Trainee& /*who*/, int /*replica*/, std::uint64_t /*number*/,
                        std::uint64_t /*seen*/, std::int64_t /*rows*/) override {
    return {};
  }
  bool take(const towers::Trainee& /*who*/, int /*replica*/, std::chrono::milliseconds /*limit*/,
            std::uint64_t& /*step*/, bool& /*finished*/) override {
    return true;
  }
  std::uint64_t pull(const towers::Trainee& /*who*/, std::uint64_t /*have*/,
                     towers::Takers& /*taker*/) override {
    return 0;
  }
  void pull_rows(const towers::Trainee& /*who*/, std::uint32_t variable,
                 const std::vector<std::int64_t>& rows, float* values, std::size_t count) override {
    const std::vector<float>& now = *values_.at(variable);
    const std::size_t in_row = count / rows.size();
    for (const std::int64_t row : rows) {
      std::memcpy(values, &now[static_cast<std::size_t>(row) * in_row], in_row * sizeof(float));
      values += in_row;
    }
  }
  void leave(const towers::Trainee& /*who*/, int /*replica*/) override {}
  std::vector<towers::SquareSum> norms(const std::string& /*run*/,
                                       const towers::Update& /*update*/) override {
    return {};
  }
  void apply(const std::string& /*run*/, const towers::Update& /*update*/) override {}
  towers::SnapshotHead keep_here(const std::string& /*run*/) override { return {}; }

 private:
  std::map<std::uint32_t, std::shared_ptr<std::vector<float>>> values_;
};

class Taken final : public towers::Takers {
 public:
  float* place(std::uint32_t variable, std::size_t count) override {
    std::vector<float>& to = values_[variable];
    to.resize(count);
    return to.data();
  }

 private:
  std::map<std::uint32_t, std::vector<float>> values_;
};

struct Seen {
  std::uint64_t received, sent;
  double cpu_s;
};

/// A process that serves at a port until its parent ends; a line on one pipe asks for its counts,
/// which come on the other.
class Served {
 public:
  Served(const std::string& address, const RendezvousOptions& options) {
    int ask[2];
    int answer[2];
    if (pipe(ask) != 0 || pipe(answer) != 0 || (process_ = fork()) < 0) std::abort();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      Holder holder;
      const auto service = cluster::serve_parameters(holder, address, options);
      for (char one = 0; read(ask[0], &one, 1) == 1;) {
        const Seen seen{service->received(), service->sent(),
                        static_cast<double>(std::clock()) / CLOCKS_PER_SEC};
        if (write(answer[1], &seen, sizeof seen) != sizeof seen) break;
      }
      _exit(0);
    }
    ask_ = ask[1];
    answer_ = answer[0];
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  ~Served() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Seen seen() const {
    Seen seen{};
    if (write(ask_, "?", 1) != 1 || read(answer_, &seen, sizeof seen) != sizeof seen) std::abort();
    return seen;
  }

 private:
  pid_t process_ = -1;
  int ask_ = -1, answer_ = -1;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// One connection, and what was measured of it.
struct Stream {
  std::string name, address;
  RendezvousOptions options;
  std::unique_ptr<Served> served;
  std::unique_ptr<towers::ParameterServer> server;
  Taken taken;
  std::uint64_t pushes = 0;
  std::vector<double> gb_a_second, cpu_s_a_gb;
};

const towers::Trainee kMe{.process = 0, .incarnation = "me"};

void push(Stream& stream, const std::vector<std::vector<float>>& values) {
  towers::Push push{.number = ++stream.pushes};
  for (std::size_t i = 0; i < values.size(); ++i)
    push.pieces.push_back({static_cast<std::uint32_t>(i), values[i].data(), values[i].size()});
  const Seen before = stream.served->seen();
  const std::clock_t cpu = std::clock();
  const auto start = std::chrono::steady_clock::now();
  stream.server->push(kMe, push, stream.taken);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const double own_cpu = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  const Seen after = stream.served->seen();
  const double gb = 2e-9 * kVariables * kEach * sizeof(float);
  stream.gb_a_second.push_back(gb / took.count());
  stream.cpu_s_a_gb.push_back((own_cpu + after.cpu_s - before.cpu_s) / gb);
}

void step_of_rows(Stream& stream) {
  std::vector<std::int64_t> ids(kIds);
  for (std::size_t i = 0; i < kIds; ++i) ids[i] = static_cast<std::int64_t>(i) * 2441 + 17;
  std::vector<float> rows(kIds * kRow);
  const Seen before = stream.served->seen();
  const auto start = std::chrono::steady_clock::now();
  stream.server->pull_rows(kMe, kTable, ids, rows.data(), rows.size());
  stream.server->push(kMe,
                      {.number = ++stream.pushes,
                       .pieces = {{kTable, rows.data(), rows.size(), ids.data(), ids.size()}}},
                      stream.taken);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  const Seen after = stream.served->seen();
  std::printf("a step of %zu of %lld rows x %lld: %.2f ms, %llu bytes there and %llu back\n", kIds,
              static_cast<long long>(kRows), static_cast<long long>(kRow), took.count(),
              static_cast<unsigned long long>(after.received - before.received),
              static_cast<unsigned long long>(after.sent - before.sent));
}

/// Forked before this process has threads of gRPC's.
Stream start(const std::string& name, int port, const RendezvousOptions& options) {
  const std::string address = "127.0.0.1:" + std::to_string(port);
  return {name, address, options, std::make_unique<Served>(address, options), nullptr, {},
          0,    {},      {}};
}

void begin(Stream& stream, bool with_table) {
  stream.server = cluster::open_parameter_server("ps 0", stream.address, stream.options);
  towers::Beginning beginning{.run = "run"};
  for (std::size_t i = 0; i < kVariables; ++i)
    beginning.variables.push_back(
        {.number = static_cast<std::uint32_t>(i), .shape = {static_cast<std::int64_t>(kEach)}});
  if (with_table)
    beginning.variables.push_back({.number = kTable, .shape = {kRows, kRow}, .by_rows = true});
  stream.server->begin(beginning, kMe);
}

void measure(int rounds, const std::optional<cluster::TlsFiles>& tls) {
  const int port = 20'000 + static_cast<int>(getpid() % 10'000) * 2;
  RendezvousOptions options;
  options.peer_timeout = std::chrono::seconds(60);
  std::vector<Stream> streams;
  streams.push_back(start("in the clear", port, options));
  if (tls) {
    options.tls = *tls;
    options.token = "t";
    streams.push_back(start("with TLS", port + 1, options));
  }
  for (Stream& stream : streams) begin(stream, &stream == &streams.front());
  std::vector<std::vector<float>> values(kVariables, std::vector<float>(kEach, 1));
  for (int round = 0; round <= rounds; ++round)
    for (Stream& stream : streams) {
      push(stream, values);
      if (round == 0) stream.gb_a_second.clear(), stream.cpu_s_a_gb.clear();
    }
  for (Stream& stream : streams)
    std::printf("%-12s %.2f GB/s (best %.2f), %.2f CPU s/GB\n", stream.name.c_str(),
                median(stream.gb_a_second), *std::ranges::max_element(stream.gb_a_second),
                median(stream.cpu_s_a_gb));
  for (int i = 0; i < 3; ++i) step_of_rows(streams.front());
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<cluster::TlsFiles> tls;
  if (argc == 5) tls = cluster::TlsFiles{argv[2], argv[3], argv[4]};
  try {
    measure(argc > 1 ? std::max(1, std::atoi(argv[1])) : 15, tls);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
