// The program: picks a subcommand, and turns exceptions into a message and an exit code.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <penstock/error.h>
#include <penstock/version.h>

#include "pipelines/remote.h"
#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/commands/limits_text.h"
#include "tools/penstock/signals.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/large_stack.h"
#include "tools/penstock/support/messages.h"

namespace penstock::tool {
namespace {

/// Returns the error for an unexpected word: the first unknown flag, or else the first word.
UsageError unexpected(const CLI::App& program) {
  const CLI::App* chosen = &program;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  const CLI::App& app = *chosen;
  const std::vector<std::string> left = program.remaining(true);
#if !PENSTOCK_HAVE_TRAINER
  for (const char* other : {"train", "evaluate", "predict", "cluster"})
    if (!left.empty() && left.front() == other)
      return UsageError("there is no subcommand " + left.front() +
                        ": this penstock was built without its trainer");
#endif
  const auto is_flag = [](const std::string& word) { return word.starts_with('-'); };
  const auto flag = std::ranges::find_if(left, is_flag);
  std::vector<std::string> known;
  if (flag != left.end()) {
    const std::string name = flag->substr(0, flag->find('='));
    for (const CLI::Option* option : app.get_options())
      for (const std::string& other : option->get_lnames()) known.push_back("--" + other);
    return UsageError("there is no flag " + name + suggestion(name, known));
  }
  const std::string word = left.empty() ? "" : left.front();
  for (const CLI::App* other : app.get_subcommands({})) known.push_back(other->get_name());
  if (known.empty()) return UsageError("unexpected argument " + in_quotes(word));
  return UsageError("there is no subcommand " + word + suggestion(word, known));
}

/// Returns the words after the program's name, last first, as CLI11 takes them. "help profile"
/// becomes "profile --help".
std::vector<std::string> words_of(const CLI::App& program, int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  // From here on, no output can contain secret words.
  std::ranges::transform(words, words.begin(), hidden_word);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    const std::vector<const CLI::App*> all = program.get_subcommands({});
    const auto asked = [&](const CLI::App* app) { return app->get_name() == words.front(); };
    if (words.empty() || std::ranges::any_of(all, asked)) words.emplace_back("--help");
  }
  std::ranges::reverse(words);
  return words;
}

int run(int argc, char** argv) {
  CLI::App program("An asynchronous input pipeline for GPU towers.", "penstock");
  program.set_version_flag("--version", version() + "\n" + features());
  bool limits = false;
  program.add_flag("--limits", limits, "print the limits on untrusted input");
  program.require_subcommand(0, 1);
  program.footer("Run 'penstock help SUBCOMMAND' for details.");
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make : {
         make_profile, make_explain, make_inspect, make_verify, make_check_determinism, make_replay,
             make_synth, make_pack, make_unpack,
#if PENSTOCK_HAVE_TRAINER
             make_train, make_evaluate, make_predict, make_cluster,
#endif
             make_serve, make_report
       })
    commands.push_back(make(program));
  try {
    program.parse(words_of(program, argc, argv));
  } catch (const CLI::ExtrasError&) {
    throw unexpected(program);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);
    throw UsageError(error.what());
  }
  if (limits) {
    std::fputs(limits_text().c_str(), stdout);
    return kOk;
  }
  for (const auto& command : commands)
    if (command->app()->parsed()) return command->run();
  std::fputs(program.help().c_str(), stderr);
  return kUsage;
}

/// Makes glibc return freed memory to the system. Otherwise --memory would say little of the
/// process's memory: glibc keeps up to 64 MiB for each of its arenas, and raises its thresholds
/// over time. Scratch memory for usual images is below these thresholds, and is kept.
void give_memory_back() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 512 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 20);
#endif
}

/// Each device takes about four streams for each tower. With more streams than its eight queues,
/// CUDA makes streams wait for each other. Only an environment variable that is set before CUDA
/// starts changes this.
void ask_for_gpu_queues() {
  static_cast<void>(::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0));
}

/// Opens /dev/null for each standard stream that is closed. Otherwise the next file to be opened
/// would get its number, and messages would be written into that file.
void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      static_cast<void>(::open("/dev/null", O_RDWR));  // the lowest number that is free
}

int guarded_run(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    print_error(error.what());
    return kUsage;
  } catch (const Error& error) {
    print_error(error.what());
    return error.code() == ErrorCode::invalid_argument ? kUsage : kFailed;
  } catch (const std::bad_alloc&) {
    print_error(Status::out_of_memory().error().what());
    return kFailed;
  } catch (const std::exception& error) {
    print_error(error.what());
    return kFailed;
  }
}

}  // namespace
}  // namespace penstock::tool

int main(int argc, char** argv) {
  using namespace penstock;
  tool::open_standard_streams();
  tool::give_memory_back();
  tool::ask_for_gpu_queues();
  tool::handle_file_signals();
  // The C library loads its code for ending threads at the first use, and aborts if there is no
  // memory.
  void* frame = nullptr;
  static_cast<void>(::backtrace(&frame, 1));
  tool::log_to_stderr();
  const int code = tool::run_on_large_stack([&] { return tool::guarded_run(argc, argv); });
  // Until now, output may still be in a buffer, so a full disk shows here at the latest.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs("penstock: can't write to standard output\n", stderr);
  return code == tool::kOk ? int{tool::kFailed} : code;
}
