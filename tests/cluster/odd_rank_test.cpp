// What ranks compare at joining, one by one: whoever differs is named before anything is trained.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/cluster/free_address.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::Outcome;
using test::Program;
using test::TimeLimit;

/// What rank 1 says otherwise.
struct Odd {
  const char* name;
  std::vector<std::string> flags;
  std::string said;  ///< "rank 1 with " is in front
  std::vector<std::string> variables{};
  friend void PrintTo(const Odd& odd, std::ostream* out) { *out << odd.name; }
};

std::string records(const test::TempFolder& folder, const std::string& name, int count,
                    char pixel) {
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes += std::string(1, static_cast<char>(i % 10)) + std::string(3072, pixel);
  return folder.write(name, bytes);
}

class OddRank : public testing::TestWithParam<Odd> {};

TEST_P(OddRank, IsNamedByAll) {
  const TimeLimit limit(100);
  const test::TempFolder folder;
  const std::string data = records(folder, "data.bin", 16, 'a');
  records(folder, "other.bin", 16, 'b');
  records(folder, "short.bin", 15, 'a');
  std::string late = test::read_file(data);
  late.back() = 'b';  // far behind what is read of the records
  folder.write("late.bin", late);
  const std::string address = test::free_address();
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> flags{"train", "--quiet", "--deterministic"};
    std::vector<std::string> variables{"RANK=" + std::to_string(rank), "WORLD_SIZE=2",
                                       "MASTER_ADDR=127.0.0.1",
                                       "MASTER_PORT=" + address.substr(address.find(':') + 1)};
    std::vector<std::string> own{"--model", "cifar10", "--data", data, "--batch", "2"};
    if (rank == 1) {
      // A flag that is given replaces the one that both have.
      const std::vector<std::string>& odd = GetParam().flags;
      for (std::size_t i = 0; i < odd.size(); ++i) {
        const std::string value = odd[i].ends_with(".bin") ? folder / odd[i] : odd[i];
        const auto same = std::find(own.begin(), own.end(), odd[i]);
        if (odd[i].starts_with("--") && same != own.end()) {
          *(same + 1) = odd[i + 1].ends_with(".bin") ? folder / odd[i + 1] : odd[i + 1];
          ++i;
        } else {
          own.push_back(value);
        }
      }
      for (const std::string& variable : GetParam().variables) variables.push_back(variable);
    }
    flags.insert(flags.end(), own.begin(), own.end());
    std::erase(flags, rank == 1 && GetParam().name == std::string("deterministic")
                          ? "--deterministic"
                          : "");
    ranks.push_back(std::make_unique<Program>(flags, "", variables));
  }
  for (const auto& rank : ranks) {
    const Outcome outcome = rank->wait(80);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("ranks differ: rank 1 with " + GetParam().said), std::string::npos)
        << outcome.err;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, OddRank,
    testing::Values(
        Odd{"data", {"--data", "other.bin"}, "data 16 records, the first "},
        Odd{"contents", {"--data", "late.bin"}, "data 16 records, the first "},
        Odd{"shorter_data", {"--data", "short.bin"}, "data 15 records"},
        Odd{"graph", {"--no-augment"}, "graph "}, Odd{"order", {"--no-shuffle"}, "graph "},
        Odd{"towers", {"--device", "host:0,host:1"}, "towers 2"},
        Odd{"virtual_towers", {"--virtual-towers", "4"}, "virtual towers 4"},
        Odd{"batch", {"--batch", "4"}, "batch 4"}, Odd{"epochs", {"--epochs", "3"}, "epochs 3"},
        Odd{"max_steps", {"--max-steps", "5"}, "max steps 5"},
        Odd{"seed", {"--seed", "7"}, "seed 7"}, Odd{"feed", {"--feed", "split"}, "feed "},
        Odd{"epoch_end", {"--epoch-end", "pad"}, "feed "},
        Odd{"strategy", {"--strategy", "spread"}, "strategy spread"},
        Odd{"combine", {"--combine", "sum"}, "strategy replicated, sum"},
        Odd{"bucket", {"--bucket", "4096"}, "bucket 4096"},
        Odd{"optimizer", {"--optimizer", "sgd"}, "optimizer sgd"},
        Odd{"schedule", {"--schedule", "constant:0.5"}, "schedule "},
        Odd{"clip_norm", {"--clip-norm", "2"}, "clip norm 2"},
        Odd{"exchange", {"--exchange", "ring"}, "exchange ring"},
        Odd{"tower_threads", {"--tower-threads", "2"}, "tower threads 2"},
        Odd{"deterministic", {}, "deterministic no"},
        Odd{"instructions", {}, "instructions oneDNN ", {"ONEDNN_MAX_CPU_ISA=SSE41"}}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace penstock
