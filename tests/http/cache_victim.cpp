// Reads a file on a server at random through a cache on disk, and tells what it had.
//
//     cache_victim URL FOLDER MOST_BYTES SEED READS LOG
//
// For each read a line of the log: offset, size, and the CRC of what came.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <penstock/file_system.h>
#include <penstock/internal/crc32c.h>
#include <penstock/remote_files.h>

int main(int argc, char** argv) try {
  if (argc != 7) return 2;
  penstock::RemoteOptions options;
  options.cache_dir = argv[2];
  options.cache_bytes = std::strtoull(argv[3], nullptr, 10);
  penstock::choose_remote(options);
  std::mt19937 random(static_cast<unsigned>(std::atoi(argv[4])));
  std::FILE* const log = std::fopen(argv[6], "a");
  if (log == nullptr) return 2;
  std::setvbuf(log, nullptr, _IOLBF, 0);
  const auto file = penstock::default_file_system()->open(argv[1]);
  std::vector<std::byte> out;
  for (int left = std::atoi(argv[5]); left > 0; --left) {
    out.resize(1 + random() % 700'000);
    const std::uint64_t at = random() % (file->info().size - out.size());
    file->read_exactly(at, out);
    std::fprintf(log, "%llu %zu %u .\n", static_cast<unsigned long long>(at), out.size(),
                 penstock::crc32c(out));
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
