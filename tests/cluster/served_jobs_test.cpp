// `penstock train` as a chief, workers and parameter servers by TF_CONFIG: how jobs end, well and
// when somebody is lost.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/free_address.h"
#include "tests/cluster/train_ranks.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::Outcome;
using test::Program;
using test::TempFolder;
using test::TimeLimit;
using test::wait_for_steps;
using test::write_cifar;

/// One thread for each tower, so that bits do not depend on the machine.
std::vector<std::string> flags_of(const std::string& data, const std::string& strategy,
                                  const std::string& epochs = "2",
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags{"train",
                                 "--model",
                                 "cifar10",
                                 "--data",
                                 data,
                                 "--batch",
                                 "2",
                                 "--epochs",
                                 epochs,
                                 "--quiet",
                                 "--schedule",
                                 "constant:0.01",
                                 "--tower-threads",
                                 "1",
                                 "--strategy",
                                 strategy,
                                 "--json",
                                 "-"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

/// A chief, three workers and two parameter servers, in this order.
struct Job {
  std::vector<std::unique_ptr<Program>> all;
  std::vector<std::string> addresses;

  Program& chief() { return *all[0]; }
  Program& worker(std::size_t index) { return *all[1 + index]; }
  Program& server(std::size_t index) { return *all[4 + index]; }
};

/// `of_worker_2`: what its flags end with.
Job start_job(std::vector<std::string> flags, const std::vector<std::string>& of_worker_2 = {}) {
  flags.insert(flags.end(), {"--device", "host:0", "--peer-timeout", "3", "--join-timeout", "30"});
  Job job;
  job.addresses = test::free_addresses(6);
  const auto quoted = [&](std::size_t i) { return "\"" + job.addresses[i] + "\""; };
  const std::string cluster = "{\"cluster\": {\"chief\": [" + quoted(0) + "], \"worker\": [" +
                              quoted(1) + ", " + quoted(2) + ", " + quoted(3) + "], \"ps\": [" +
                              quoted(4) + ", " + quoted(5) + "]}, \"task\": ";
  const auto start = [&](const std::string& role, int index,
                         const std::vector<std::string>& own = {}) {
    std::vector<std::string> mine = flags;
    mine.insert(mine.end(), own.begin(), own.end());
    job.all.push_back(std::make_unique<Program>(
        mine, "",
        std::vector<std::string>{"TF_CONFIG=" + cluster + "{\"type\": \"" + role +
                                 "\", \"index\": " + std::to_string(index) + "}}"}));
  };
  start("chief", 0);
  for (int worker = 0; worker < 3; ++worker)
    start("worker", worker, worker == 2 ? of_worker_2 : std::vector<std::string>{});
  for (int server = 0; server < 2; ++server) start("ps", server);
  return job;
}

/// What the chief wrote, once all but those that were killed have ended well.
nlohmann::json result_of(Job job, const Program* killed = nullptr) {
  nlohmann::json result;
  for (std::size_t i = 0; i < job.all.size(); ++i) {
    if (job.all[i].get() == killed) continue;
    const Outcome outcome = job.all[i]->wait(100);
    EXPECT_EQ(outcome.code, 0) << "process " << i << ": " << outcome.err;
    if (outcome.code == 0 && i == 0) result = outcome.json();
    if (i != 0) {
      EXPECT_EQ(outcome.out, "") << "the chief speaks for all";
    }
  }
  return result;
}

class ServedJobs : public testing::TestWithParam<const char*> {};

TEST_P(ServedJobs, NormalEnd) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string data = write_cifar(folder, 37);
  const nlohmann::json many = result_of(start_job(flags_of(data, GetParam())));
  ASSERT_FALSE(many.is_null());
  if (GetParam() == std::string("async")) return;
  // Four towers, whoever holds their variables.
  const nlohmann::json one = test::run(1, flags_of(data, "replicated"));
  EXPECT_EQ(many["variables_digest"], one["variables_digest"]);
  EXPECT_EQ(many["steps"], one["steps"]);
  EXPECT_EQ(many["images"], one["images"]) << "of all processes";
}

TEST_P(ServedJobs, DeterministicCheckpoints) {
  if (GetParam() == std::string("async")) return;  // refused
  const TimeLimit limit(220);
  const TempFolder folder;
  const std::string data = write_cifar(folder, 200);
  std::map<std::string, std::string> first;
  for (const char* run : {"first", "second"}) {
    const std::string kept = folder / run;
    const nlohmann::json result =
        result_of(start_job(flags_of(data, GetParam(), "2",
                                     {"--deterministic", "--checkpoint", kept, "--checkpoint-every",
                                      "7", "--keep", "100", "--shuffle-buffer", "30"})));
    ASSERT_FALSE(result.is_null());
    std::map<std::string, std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(kept))
      if (file.path().extension() == ".safetensors")
        files[file.path().filename()] = test::read_file(file.path());
    EXPECT_EQ(files.size(), 200 * 2 / 8 / 7 + 1) << "each 7 steps, and at the end";
    if (first.empty()) first = files;
    EXPECT_TRUE(files == first);
  }
}

INSTANTIATE_TEST_SUITE_P(With, ServedJobs, testing::Values("async", "sync_replicas", "replicated"),
                         [](const auto& row) { return std::string(row.param); });

/// Of its table rows are pushed and pulled; by sgd that changes no bit.
TEST(ServedJobs, BitsOfTextMatching) {
  const TimeLimit limit(110);
  const TempFolder folder;
  std::string csv = "query,positive,negative\n";
  for (int i = 0; i < 64; ++i) {
    const std::string word = "word" + std::to_string(i % 7);
    csv += word + " a,the " + word + ",other" + std::to_string(i % 5) + "\n";
  }
  const std::string data = folder.write("texts.csv", csv);
  const auto flags = [&](const std::string& strategy) {
    std::vector<std::string> all = flags_of(data, strategy, "3", {"--optimizer", "sgd"});
    all[2] = "text_match";
    return all;
  };
  const nlohmann::json many = result_of(start_job(flags("sync_replicas")));
  ASSERT_FALSE(many.is_null());
  const nlohmann::json one = test::run(1, flags("replicated"));
  EXPECT_EQ(many["variables_digest"], one["variables_digest"]);
  EXPECT_EQ(many["steps"], 24U);
}

TEST(ServedJobs, LostWorker) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string kept = folder / "kept";
  Job job = start_job(flags_of(write_cifar(folder, 200), "async", "2",
                               {"--checkpoint", kept, "--checkpoint-every", "5"}));
  wait_for_steps(job.all, kept);
  Program& killed = job.worker(1);
  killed.signal(SIGKILL);
  const nlohmann::json result = result_of(std::move(job), &killed);
  EXPECT_FALSE(result.is_null());
}

TEST(ServedJobs, LostServer) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string kept = folder / "kept";
  Job job = start_job(flags_of(write_cifar(folder, 8000), "async", "50",
                               {"--checkpoint", kept, "--checkpoint-every", "5"}));
  wait_for_steps(job.all, kept);
  job.server(1).signal(SIGKILL);
  for (std::size_t i = 0; i < 5; ++i) {
    const Outcome outcome = job.all[i]->wait(60);
    EXPECT_EQ(outcome.code, 75) << "process " << i << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("ps 1 at " + job.addresses[5]), std::string::npos)
        << "process " << i << ": " << outcome.err;
  }
}

TEST(ServedJobs, LostChief) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string kept = folder / "kept";
  Job job = start_job(flags_of(write_cifar(folder, 8000), "async", "50",
                               {"--checkpoint", kept, "--checkpoint-every", "5"}));
  wait_for_steps(job.all, kept);
  job.chief().signal(SIGKILL);
  for (std::size_t i = 1; i < job.all.size(); ++i) {
    const Outcome outcome = job.all[i]->wait(60);
    EXPECT_EQ(outcome.code, 75) << "process " << i << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("the chief was lost"), std::string::npos)
        << "process " << i << ": " << outcome.err;
  }
}

TEST(ServedJobs, OtherFacts) {
  const TimeLimit limit(110);
  const TempFolder folder;
  Job job = start_job(flags_of(write_cifar(folder, 37), "async"), {"--seed", "7"});
  const Outcome odd = job.worker(2).wait(100);
  EXPECT_EQ(odd.code, 2) << odd.err;
  EXPECT_NE(odd.err.find("seed"), std::string::npos) << odd.err;
}

TEST(ServedJobs, SeveralProcessesWithoutServers) {
  const TimeLimit limit(60);
  const TempFolder folder;
  for (const char* strategy : {"async", "sync_replicas"}) {
    const Outcome outcome =
        Program(flags_of(write_cifar(folder, 29), strategy, "2",
                         {"--cluster", "chief=127.0.0.1:1;worker=127.0.0.1:2", "--role", "chief"}))
            .wait(30);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("list some under the role ps (--strategy)"), std::string::npos)
        << outcome.err;
  }
}

}  // namespace
}  // namespace penstock
