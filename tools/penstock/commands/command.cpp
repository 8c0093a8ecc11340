#include "tools/penstock/commands/commands.h"

namespace penstock::tool {

Command::Command(CLI::App& program, const std::string& name, const std::string& help,
                 const std::string& example)
    : app_(program.add_subcommand(name, help)) {
  app_->footer("Example:\n  " + example);
  app_->option_defaults()->always_capture_default(false);
}

}  // namespace penstock::tool
