#include "bench/limits.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <penstock/penstock.h>

#include "bench/region_loop.h"
#include "pipeline/order/support.h"

namespace penstock::bench {
namespace {

constexpr std::uint32_t kCropOp = 2;  // the shuffle draws first
constexpr int kCrop = 224;

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

double seconds_of(const std::function<void()>& work, int threads) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  others.clear();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Files load_images(const std::string& folder) {
  Files files;
  Iterator iterator = images(folder).iterate();
  for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
    files.push_back(read_file(folder + "/" + std::string(next.value()["key"].bytes_at())));
  }
  return files;
}

double region_loop(const Files& files, std::uint64_t epochs, int threads) {
  std::atomic<std::uint64_t> next{0};
  return seconds_of(
      [&] {
        RegionLoop loop(kCrop);
        const std::uint64_t count = files.size() * epochs;
        for (std::uint64_t i = next++; i < count; i = next++) {
          const std::uint64_t file = i % files.size();
          const std::uint64_t key = epoch_key(kSeed, i / files.size());
          loop.decode(files[file], Rng(key, file, kCropOp), file);
        }
      },
      threads);
}

double whole_loop(const Files& files, std::uint64_t epochs, int threads, int side) {
  std::atomic<std::uint64_t> next{0};
  return seconds_of(
      [&] {
        RegionLoop loop(kCrop);
        const std::uint64_t count = files.size() * epochs;
        for (std::uint64_t i = next++; i < count; i = next++) {
          loop.decode_whole(files[i % files.size()], side);
        }
      },
      threads);
}

double pread_loop(const std::vector<std::string>& paths, std::uint64_t epochs, std::size_t piece,
                  std::uint64_t& bytes) {
  std::vector<std::byte> buffer(piece);
  bytes = 0;
  return seconds_of(
      [&] {
        for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
          for (const std::string& path : paths) {
            const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
            if (file < 0) throw std::runtime_error(path + " can't be opened");
            for (std::uint64_t at = 0;;) {
              const ssize_t got = pread(file, buffer.data(), piece, static_cast<off_t>(at));
              if (got <= 0) break;
              at += static_cast<std::uint64_t>(got);
              bytes += static_cast<std::uint64_t>(got);
            }
            close(file);
          }
        }
      },
      1);
}

}  // namespace penstock::bench
