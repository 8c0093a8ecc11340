// Bursts of failed allocations at every place of a run.
//
// Every 31st place by bursts of 3 and 100 calls. PENSTOCK_STORM=full: every 7th, by bursts of 2, 3,
// 5, 20, 100 and 300; tools/reliability.sh asks for that and writes down what was counted.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/storm/victim.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"

namespace penstock::storm {
namespace {

bool full() {
  const char* const text = std::getenv("PENSTOCK_STORM");
  return text != nullptr && std::strcmp(text, "full") == 0;
}

/// The files that rows read. They are written by a process of their own: who starts the victims
/// must not have run anything itself. No victim removes them, not even one that exits.
class Files final : public testing::Environment {
 public:
  void SetUp() override {
    folder_.emplace();
    const pid_t writer = ::fork();
    if (writer == 0) {
      write_files(folder_->path());
      ::_exit(0);
    }
    int status = 0;
    ASSERT_TRUE(::waitpid(writer, &status, 0) == writer && status == 0);
  }
  void TearDown() override { folder_.reset(); }
  const std::string& path() const { return folder_->path(); }

 private:
  std::optional<test::TempFolder> folder_;
};
// The framework destroys it.
Files& files = *static_cast<Files*>(testing::AddGlobalTestEnvironment(new Files));

class Storm : public testing::TestWithParam<Row> {
 protected:
  /// At each place a process that has never run anything; or one that goes through all of them.
  void run_all(bool warm) {
    victims_.emplace(GetParam(), files.path());
    victims_->learn(true);
    const long calls = victims_->report().calls * (warm ? 1 : 2);
    const std::vector<long> bursts =
        full() ? std::vector<long>{2, 3, 5, 20, 100, 300} : std::vector<long>{3, 100};
    for (const long burst : bursts) {
      std::vector<long> places;
      for (long place = 0; place < calls; place += full() ? 7 : 31) places.push_back(place);
      run_places(burst, places, warm);
      if (HasFailure()) return;
    }
    report(warm);
  }

 private:
  static constexpr int kMostFindings = 5;

  void run_places(long burst, std::span<const long> places, bool warm) {
    int findings = 0;
    while (!places.empty() && findings < kMostFindings) {
      const Victims::Ended ended =
          victims_->run(warm ? places : places.first(1), burst, !warm || places.size() % 8 == 0);
      const bool finding = judge(ended, burst, places);
      findings += finding ? 1 : 0;
      const std::size_t cut = ended.hung || ended.signal != 0 || ended.code != 0 ? 1 : 0;
      const std::size_t done = std::min(ended.places + cut, places.size());
      places_ += static_cast<long>(done);
      places = places.subspan(done);
    }
  }

  /// True if something is wrong.
  bool judge(const Victims::Ended& ended, long burst, std::span<const long> places) {
    const bool died = ended.signal != 0 || ended.code != 0;
    if (!died && !ended.hung && ended.complaint.empty()) return false;
    const Report& report = victims_->report();
    std::string text;
    const auto stacks =
        std::min(static_cast<std::size_t>(report.stack_count.load()), report.stacks.size());
    for (std::size_t i = 0; i < stacks; ++i)
      text += "  thread " + std::to_string(i) + "\n" + report.stacks[i].text();
    const std::size_t at = std::min(ended.places, places.size() - 1);
    const long place = places[ended.complaint.empty() ? at : ended.places - 1];
    if (died && report.stack_count > 0) {
      const std::string library = report.stacks[0].library_at_fault();
      if (!library.empty()) {
        if (++aborts_[library] == 1)
          std::printf("listed: %s, place %ld, %ld calls\n%s", library.c_str(), place, burst,
                      text.c_str());
        return false;
      }
    }
    ADD_FAILURE() << GetParam().name << ", place " << place << ", " << burst << " calls: "
                  << (ended.hung ? "it hangs"
                      : died     ? "it died by signal " + std::to_string(ended.signal) + ", code " +
                                   std::to_string(ended.code)
                             : ended.complaint)
                  << "\n"
                  << text;
    return true;
  }

  void report(bool warm) {
    const Report& report = victims_->report();
    long failed = 0;
    std::string kinds;
    for (std::size_t i = 0; i < report.failed.size(); ++i) {
      failed += report.failed[i];
      if (report.failed[i] == 0) continue;
      kinds += (kinds.empty() ? "" : ", ") + std::string(kCallNames[i]) + " " +
               std::to_string(report.failed[i]);
    }
    EXPECT_GT(failed, 0) << "no allocation failed";
    long aborts = 0;
    for (const auto& [library, times] : aborts_) {
      aborts += times;
      kinds += "; " + std::to_string(times) + " x " + library;
    }
    test::figure("F45",
                 "%s, %s: %ld places, %ld failed calls (%s), %ld errors, %ld right batches, "
                 "%ld aborts in libraries",
                 GetParam().name, warm ? "one process" : "a process each", places_, failed,
                 kinds.c_str(), report.errors, report.batches, aborts);
  }

  std::optional<Victims> victims_;
  long places_ = 0;
  std::map<std::string, long> aborts_;
};

TEST_P(Storm, InAFreshProcess) {
  run_all(false);
}

TEST_P(Storm, AgainAndAgain) {
  run_all(true);
}

INSTANTIATE_TEST_SUITE_P(Rows, Storm, testing::ValuesIn(rows()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace penstock::storm
