// Writes objects and states to a store, one after the other, until it is killed.
//
//     upload_victim ENDPOINT NAME SEED LOG
//
// Object s3://b/NAME-N is `noise` of a size and seed that follow from N; the states at
// s3://b/NAME.state count on. What is done has a line of the log: "object N" or "state COUNT".
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>

#include <penstock/file_system.h>
#include <penstock/remote_files.h>
#include <penstock/state_file.h>

#include "tests/http/upload_victim.h"

int main(int argc, char** argv) try {
  using namespace penstock;
  if (argc != 5) return 2;
  RemoteOptions options;
  options.s3_endpoint = argv[1];
  options.part_bytes = 20'000;
  options.upload_bytes = 80'000;
  options.retry_wait = std::chrono::milliseconds(1);
  choose_remote(options);
  const std::string name = argv[2];
  std::mt19937 random(static_cast<unsigned>(std::atoi(argv[3])));
  std::FILE* const log = std::fopen(argv[4], "a");
  if (log == nullptr) return 2;
  std::setvbuf(log, nullptr, _IOLBF, 0);
  const std::string path = "s3://b/" + name + ".state";
  StateFile state(path);
  state.check();
  const std::optional<std::string> before = load_state(path);
  int count = before ? std::atoi(before->c_str()) : 0;
  std::fprintf(log, "state %d\n", count);  // that was found
  for (++count;; ++count) {
    const auto number = static_cast<unsigned>(random() % 60);
    const std::string text = test::upload_of(number);
    const auto file =
        default_file_system()->create("s3://b/" + name + "-" + std::to_string(number));
    file->append(std::as_bytes(std::span(text)));
    file->commit();
    std::fprintf(log, "object %u\n", number);
    state.save(test::state_of(static_cast<unsigned>(count)));
    std::fprintf(log, "state %d\n", count);
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
