// The subcommands of the program.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace penstock::tool {

/// A subcommand. It adds its flags to the program, and runs if it is the chosen one.
class Command {
 public:
  virtual ~Command() = default;
  /// Runs the command and returns the exit code. Throws UsageError, Error or std::exception.
  virtual int run() = 0;
  CLI::App* app() const noexcept { return app_; }

 protected:
  Command(CLI::App& program, const std::string& name, const std::string& help,
          const std::string& example);

 private:
  CLI::App* app_;
};

std::unique_ptr<Command> make_profile(CLI::App& program);
std::unique_ptr<Command> make_explain(CLI::App& program);
std::unique_ptr<Command> make_inspect(CLI::App& program);
std::unique_ptr<Command> make_verify(CLI::App& program);
std::unique_ptr<Command> make_check_determinism(CLI::App& program);
std::unique_ptr<Command> make_replay(CLI::App& program);
std::unique_ptr<Command> make_synth(CLI::App& program);
std::unique_ptr<Command> make_pack(CLI::App& program);
std::unique_ptr<Command> make_unpack(CLI::App& program);
std::unique_ptr<Command> make_train(CLI::App& program);
std::unique_ptr<Command> make_evaluate(CLI::App& program);
std::unique_ptr<Command> make_predict(CLI::App& program);
std::unique_ptr<Command> make_cluster(CLI::App& program);
std::unique_ptr<Command> make_serve(CLI::App& program);
std::unique_ptr<Command> make_report(CLI::App& program);

}  // namespace penstock::tool
