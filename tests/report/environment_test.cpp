// What the environment asks for, of a trainer that knows nothing of it: examples/report.cpp.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <csignal>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <penstock/internal/posix.h>

#include "tests/support/files.h"
#include "tests/support/free_port.h"
#include "tests/support/places.h"
#include "tests/support/process.h"
#include "tests/support/sanitizer.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;
using test::free_port;
using namespace std::chrono_literals;

/// The trainer, its outputs in files of a folder.
class Trainer {
 public:
  Trainer(int steps, std::vector<std::string> variables)
      : process_(
            {"/bin/sh", "-c", "echo $$ > \"$0/pid\"; exec \"$1\" \"$2\" > \"$0/out\" 2> \"$0/err\"",
             folder_.path(), test::built("examples/report"), std::to_string(steps)},
            std::move(variables)) {}

  int wait() { return process_.wait(); }
  void signal(int number) const { process_.signal(number); }
  std::string out() const { return test::read_file(folder_ / "out"); }
  std::string err() const { return test::read_file(folder_ / "err"); }
  /// Of what /proc says: "SigCgt", as a mask; 0 before the trainer itself is there.
  std::uint64_t signals(const std::string& which) const {
    std::ifstream pid(folder_ / "pid");
    std::string number;
    pid >> number;
    if (std::filesystem::path(link("/proc/" + number + "/exe")).filename() != "report") return 0;
    std::ifstream status("/proc/" + number + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(which + ":")) return std::stoull(line.substr(which.size() + 1), {}, 16);
    return 0;
  }
  /// Seconds of CPU that the thread which reports has used.
  double reporting_s() const {
    std::ifstream pid(folder_ / "pid");
    std::string number;
    pid >> number;
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + number + "/task")) {
      if (test::read_file(task.path() / "comm") != "ps-report\n") continue;
      std::ifstream file(task.path() / "schedstat");
      double ran_ns = 0;
      file >> ran_ns;
      return 1e-9 * ran_ns;
    }
    ADD_FAILURE() << "there is no thread of that name";
    return 0;
  }

 private:
  static std::string link(const std::string& path) {
    std::error_code none;
    return std::filesystem::read_symlink(path, none);
  }

  test::TempFolder folder_;
  test::Process process_;
};

template <typename Condition>
bool within_a_while(const Condition& holds) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (holds()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

bool has(std::uint64_t mask, int signal) {
  return (mask >> (signal - 1) & 1) != 0;
}

std::string only_file(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator files(folder);
  return files == end(files) ? "" : files->path().string();
}

/// A socket on the loopback; bound to a free port, or connected to one.
class Socket {
 public:
  Socket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}

  int bind() {
    sockaddr_in address = at(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_.get(), as_address(&address), size), 0);
    EXPECT_EQ(::getsockname(fd_.get(), as_address(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  void listen() { EXPECT_EQ(::listen(fd_.get(), 1), 0); }
  bool connect(int port) {
    sockaddr_in address = at(port);
    return ::connect(fd_.get(), as_address(&address), sizeof address) == 0;
  }
  void send(const std::string& text) {
    [[maybe_unused]] const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// All until the other side closes.
  std::string receive() {
    std::string all;
    char some[4096];
    for (ssize_t got = 0; (got = ::recv(fd_.get(), some, sizeof some, 0)) > 0;)
      all.append(some, static_cast<std::size_t>(got));
    return all;
  }

 private:
  static sockaddr_in at(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static sockaddr* as_address(sockaddr_in* address) { return reinterpret_cast<sockaddr*>(address); }

  UniqueFd fd_;
};

/// What is answered to `request`; waits until somebody listens.
std::string ask(int port, const std::string& request) {
  for (int tries = 0; tries < 1000; ++tries) {
    Socket socket;
    if (socket.connect(port)) {
      socket.send(request);
      return socket.receive();
    }
    std::this_thread::sleep_for(10ms);
  }
  ADD_FAILURE() << "nobody listens";
  return "";
}

std::string scrape(int port) {
  const std::string answer = ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  return answer.substr(std::min(answer.size(), answer.find("\r\n\r\n") + 4));
}

/// Waits for the first step.
std::string scrape_of_a_run(int port) {
  std::string text;
  EXPECT_TRUE(within_a_while([&] {
    text = scrape(port);
    return std::regex_search(text, std::regex("penstock_tower_steps_total\\{[^}]*\\} [1-9]"));
  }));
  return text;
}

TEST(Environment, HasNothingDoneIfItAsksForNothing) {
  const test::TimeLimit limit(100);
  Trainer trainer(20, {});
  EXPECT_EQ(trainer.wait(), 0);
  EXPECT_THAT(trainer.err(), IsEmpty());
  EXPECT_THAT(trainer.out(),
              AllOf(HasSubstr("limit"), HasSubstr("elements/s"), HasSubstr("host:0")));
}

TEST(Environment, HasTheReportWrittenAtTheEnd) {
  const test::TimeLimit limit(100);
  const test::TempFolder folder;
  Trainer trainer(20, {"PENSTOCK_REPORT=" + (folder / "%r-of-%p.json"), "RANK=3"});
  EXPECT_EQ(trainer.wait(), 0);
  EXPECT_THAT(trainer.err(), IsEmpty());
  const std::string file = only_file(folder.path());
  const Json json = Json::parse(test::read_file(file));
  EXPECT_EQ(std::filesystem::path(file).filename().string(),
            "3-of-" + std::to_string(json["process"].get<int>()) + ".json");
  EXPECT_EQ(json["rank"], 3);
  ASSERT_EQ(json["runs"].size(), 1) << "the feed's input is part of it";
  const Json& run = json["runs"][0];
  EXPECT_EQ(run["kind"], "feed");
  EXPECT_EQ(run["outcome"], "finished");
  EXPECT_EQ(run["elements"], run["towers"][0]["elements"]);
  // The end of the last steps is told a little later, by a thread that has to get its turn.
  EXPECT_GE(run["towers"][0]["steps"], 1);
  EXPECT_LE(run["towers"][0]["steps"], 20);
  // What the trainer printed of itself a moment earlier may have another verdict.
  EXPECT_THAT(run["verdict"]["text"].get<std::string>(), Not(IsEmpty()));
}

/// A trainer whose run has begun, and that is asked for a report.
class ReportAtSignal : public testing::Test {
 protected:
  void SetUp() override { scrape_of_a_run(port_); }

  const test::TimeLimit limit_{100};
  const test::TempFolder folder_;
  const std::string path_ = folder_ / "report.txt";
  const int port_ = free_port();
  Trainer trainer_{1'000'000,
                   {"PENSTOCK_REPORT=" + path_, "PENSTOCK_METRICS=" + std::to_string(port_)}};
};

TEST_F(ReportAtSignal, Sigusr1) {
  for (int times = 0; times < 2; ++times) {
    trainer_.signal(SIGUSR1);
    EXPECT_TRUE(within_a_while([&] { return std::filesystem::exists(path_); }));
    EXPECT_THAT(test::read_file(path_), HasSubstr("stage"));
    std::filesystem::remove(path_);
  }
  trainer_.signal(SIGTERM);
  EXPECT_EQ(trainer_.wait(), 128 + SIGTERM);
}

TEST_F(ReportAtSignal, Sigterm) {
  ASSERT_TRUE(has(trainer_.signals("SigCgt"), SIGTERM));
  ASSERT_FALSE(std::filesystem::exists(path_));
  trainer_.signal(SIGTERM);
  EXPECT_EQ(trainer_.wait(), 128 + SIGTERM);
  EXPECT_THAT(test::read_file(path_), HasSubstr("stage"));
}

TEST(Environment, LeavesSigtermAloneThatIsIgnored) {
  const test::TimeLimit limit(100);
  const test::TempFolder folder;
  std::signal(SIGTERM, SIG_IGN);  // which a child inherits
  Trainer trainer(1'000'000, {"PENSTOCK_REPORT=" + (folder / "report.txt")});
  std::signal(SIGTERM, SIG_DFL);
  ASSERT_TRUE(within_a_while([&] { return has(trainer.signals("SigCgt"), SIGUSR1); }));
  EXPECT_TRUE(has(trainer.signals("SigIgn"), SIGTERM));
  EXPECT_FALSE(has(trainer.signals("SigCgt"), SIGTERM));
}

TEST(Environment, HasATraceWritten) {
  const test::TimeLimit limit(100);
  const test::TempFolder folder;
  Trainer trainer(20, {"PENSTOCK_TRACE=" + (folder / "trace.json")});
  EXPECT_EQ(trainer.wait(), 0);
  EXPECT_THAT(trainer.err(), IsEmpty());
  const Json trace = Json::parse(test::read_file(folder / "trace.json"));
  std::set<std::string> kinds;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "X") kinds.insert(event["cat"]);
  EXPECT_THAT(kinds, testing::IsSupersetOf({"group", "op", "read", "step"}));
}

TEST(Environment, LeavesASignalAloneThatIsNotTheDefault) {
  const test::TimeLimit limit(100);
  const test::TempFolder folder;
  const int port = free_port();
  std::signal(SIGUSR1, SIG_IGN);  // which a child inherits
  Trainer trainer(1'000'000, {"PENSTOCK_REPORT=" + (folder / "report.txt"),
                              "PENSTOCK_METRICS=" + std::to_string(port)});
  std::signal(SIGUSR1, SIG_DFL);
  scrape_of_a_run(port);
  EXPECT_TRUE(has(trainer.signals("SigIgn"), SIGUSR1));
  EXPECT_FALSE(has(trainer.signals("SigCgt"), SIGUSR1));
}

TEST(Environment, HasMetricsServed) {
  const test::TimeLimit limit(100);
  const int port = free_port();
  Trainer trainer(1'000'000, {"PENSTOCK_METRICS=localhost:" + std::to_string(port), "RANK=2"});
  const std::string text = scrape_of_a_run(port);
  EXPECT_THAT(text, AllOf(HasSubstr("# TYPE penstock_tower_stall_seconds_total counter\n"),
                          HasSubstr("penstock_elements_total{rank=\"2\",run=\"0\",kind=\"feed\"} "),
                          HasSubstr("tower=\"0\",device=\"host:0\",cause=")));
  // What is there is documented, and the other way round.
  const auto names = [](const std::string& all, const char* before) {
    std::set<std::string> found;
    const std::regex name(std::string(before) + "(penstock_[a-z_]+)");
    for (std::sregex_iterator at(all.begin(), all.end(), name), end; at != end; ++at)
      found.insert((*at)[1]);
    return found;
  };
  const std::string docs = test::source_dir() + "/docs/";
  EXPECT_EQ(names(text, "# TYPE "), names(test::read_file(docs + "metrics.md"), "`"));
  EXPECT_FALSE(Json::parse(test::read_file(docs + "grafana-dashboard.json"))["panels"].empty());
  const auto shown = names(test::read_file(docs + "grafana-dashboard.json"), "");
  EXPECT_GT(shown.size(), 8);
  for (const std::string& name : shown) EXPECT_TRUE(names(text, "# TYPE ").contains(name)) << name;
}

TEST(Environment, HasMetricsThatPrometheusTakes) {
  const test::TimeLimit limit(100);
  if (std::system("promtool --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "NOT CHECKED: promtool is not installed (tools/setup.sh --checks)";
  const int port = free_port();
  Trainer trainer(1'000'000, {"PENSTOCK_METRICS=" + std::to_string(port)});
  const test::TempFolder folder;
  const std::string page = folder / "page";
  std::ofstream(page) << scrape_of_a_run(port);
  const std::string command = "promtool check metrics < " + page + " > " + page + ".said 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << test::read_file(page + ".said");
  EXPECT_THAT(test::read_file(page + ".said"), IsEmpty());
}

TEST(Environment, HasBadRequestsAnswered) {
  const test::TimeLimit limit(100);
  const int port = free_port();
  Trainer trainer(1'000'000, {"PENSTOCK_METRICS=" + std::to_string(port)});
  const auto answer = [port](const std::string& request) { return ask(port, request); };
  EXPECT_THAT(answer("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(answer("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD")));
  EXPECT_THAT(answer("\x16\x03\x01 TLS\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer("GET /metrics HTTP/9.9\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer("GET /metrics HTTP/1.1\r\nX: " + std::string(7000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer("GET /metrics HTTP/1.1\r\nX: " + std::string(9000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431"));
  const std::string head = answer("HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Length: ")));
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
  // Who says nothing is sent away, and keeps nobody else from being answered.
  Socket idle;
  ASSERT_TRUE(idle.connect(port));
  idle.send("GET /met");
  EXPECT_THAT(scrape(port), HasSubstr("penstock_build_info"));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(idle.receive(), IsEmpty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST(Environment, HasMetricsServedForNextToNothing) {
  const test::TimeLimit limit(100);
  if (test::kAddressSanitizer || test::kThreadSanitizer)
    GTEST_SKIP() << "figures of a sanitizer mean nothing";
  const int port = free_port();
  const test::TempFolder folder;
  Trainer trainer(1'000'000, {"PENSTOCK_METRICS=" + std::to_string(port),
                              "PENSTOCK_REPORT=" + (folder / "report.json")});
  scrape_of_a_run(port);
  const double before = trainer.reporting_s();
  constexpr int kScrapes = 20;
  for (int i = 0; i < kScrapes; ++i) scrape(port);
  // Once a second that is less than 1 % of a core.
  EXPECT_LT((trainer.reporting_s() - before) / kScrapes, 0.01);
  const double idle = trainer.reporting_s();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(trainer.reporting_s() - idle, 0.001) << "it does nothing of itself";
}

struct Warned {
  const char* name;
  const char* variable;
  const char* says;
  const char* allowed = "PENSTOCK_INSECURE_METRICS=";
};

class Warnings : public testing::TestWithParam<Warned> {};

TEST_P(Warnings, AreOneLineAndNoError) {
  const test::TimeLimit limit(100);
  Trainer trainer(3, {GetParam().variable, GetParam().allowed});
  EXPECT_EQ(trainer.wait(), 0);
  const std::string err = trainer.err();
  EXPECT_THAT(err, AllOf(StartsWith("penstock: warning: "), HasSubstr(GetParam().says)));
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
}

INSTANTIATE_TEST_SUITE_P(
    Variables, Warnings,
    testing::Values(Warned{"no_folder", "PENSTOCK_REPORT=no/such/folder/report.txt",
                           "no/such/folder/report.txt"},
                    Warned{"a_folder", "PENSTOCK_REPORT=.", "PENSTOCK_REPORT"},
                    Warned{"no_port", "PENSTOCK_METRICS=localhost", "is not an address"},
                    Warned{"a_name", "PENSTOCK_METRICS=example.org:9400", "is not an address"},
                    Warned{"a_large_port", "PENSTOCK_METRICS=94000", "is not an address"},
                    Warned{"of_all", "PENSTOCK_METRICS=0.0.0.0:9400",
                           "no metrics are served at 0.0.0.0, which is not loopback"},
                    Warned{"of_all_v6", "PENSTOCK_METRICS=[::]:9400",
                           "PENSTOCK_INSECURE_METRICS=1"},
                    Warned{"not_allowed", "PENSTOCK_METRICS=0.0.0.0:9400", "is not loopback",
                           "PENSTOCK_INSECURE_METRICS=0"},
                    Warned{"of_elsewhere", "PENSTOCK_METRICS=192.0.2.1:9400",
                           "can't serve metrics at 192.0.2.1:9400", "PENSTOCK_INSECURE_METRICS=1"}),
    [](const auto& made) { return made.param.name; });

TEST(Environment, HasMetricsServedBeyondTheLoopbackIfThatIsAllowed) {
  const test::TimeLimit limit(100);
  const int port = free_port();
  Trainer trainer(1'000'000, {"PENSTOCK_METRICS=0.0.0.0:" + std::to_string(port),
                              "PENSTOCK_INSECURE_METRICS=1"});
  EXPECT_THAT(scrape_of_a_run(port), HasSubstr("penstock_build_info"));
  EXPECT_THAT(trainer.err(), IsEmpty());
}

TEST(Environment, WarnsOfATakenPort) {
  const test::TimeLimit limit(100);
  Socket taken;
  const int port = taken.bind();
  taken.listen();
  Trainer trainer(3, {"PENSTOCK_METRICS=" + std::to_string(port)});
  EXPECT_EQ(trainer.wait(), 0);
  EXPECT_THAT(trainer.err(), AllOf(HasSubstr("127.0.0.1:" + std::to_string(port)),
                                   HasSubstr("Address already in use")));
}

}  // namespace
}  // namespace penstock
