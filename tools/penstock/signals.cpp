#include "tools/penstock/signals.h"

#include <csignal>

namespace penstock::tool {

void handle_file_signals() {
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace penstock::tool
