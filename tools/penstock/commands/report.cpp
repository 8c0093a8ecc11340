#include <cstdio>
#include <string>
#include <vector>

#include <penstock/file_system.h>

#include "report/merge.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/messages.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

std::string read_report(const std::string& path) {
  constexpr std::uint64_t kMost = 256 << 20;
  const std::vector<std::byte> bytes = default_file_system()->open(path)->read_all(kMost);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class MergeCommand final : public Command {
 public:
  explicit MergeCommand(CLI::App& program)
      : Command(program, "merge", "find which rank of a job holds up the others, and why",
                "PENSTOCK_REPORT=report-%r.json mpirun -n 4 train\n"
                "  penstock report merge report-*.json") {
    app()
        ->add_option("REPORT", paths_, "files written by PENSTOCK_REPORT, one for each rank")
        ->required();
    app()
        ->add_option("--json", json_, "write the result as JSON (-: to stdout)")
        ->type_name("FILE");
  }

  int run() override {
    check_output(json_);
    std::vector<RankReport> ranks;
    for (const std::string& path : paths_)
      ranks.push_back(parse_rank_report(path, read_report(path)));
    const MergedReport merged = merge(std::move(ranks));
    if (const std::string missing = missing_text(merged); !missing.empty())
      std::fprintf(stderr, "%s\n", message_line(LogLevel::warning, missing).c_str());
    if (json_ != "-") {
      const TerminalTraits traits = traits_of(stdout);
      write_output("-", merged_text(merged, traits.colour, traits.width));
    }
    if (!json_.empty()) write_output(json_, merged_json(merged));
    return kOk;
  }

 private:
  std::vector<std::string> paths_;
  std::string json_;
};

/// The command that holds those about reports.
class ReportCommand final : public Command {
 public:
  explicit ReportCommand(CLI::App& program)
      : Command(program, "report", "work with the reports of several processes",
                "penstock report merge report-*.json"),
        merge_(*app()) {}

  int run() override {
    if (merge_.app()->parsed()) return merge_.run();
    std::fputs(app()->help("penstock").c_str(), stderr);
    return kUsage;
  }

 private:
  MergeCommand merge_;
};

}  // namespace

std::unique_ptr<Command> make_report(CLI::App& program) {
  return std::make_unique<ReportCommand>(program);
}

}  // namespace penstock::tool
