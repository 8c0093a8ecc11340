#include "bench/limits.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include <penstock/penstock.h>

#include "bench/region_loop.h"
#include "pipeline/io/posix.h"
#include "pipeline/stage/node.h"

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

ReadLoop read_file_by(const std::string& path, std::size_t piece, ReadWay way) {
  const bool direct = way == ReadWay::direct;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0)));
  if (file.get() < 0) throw std::runtime_error(path + " can't be opened");
  std::vector<std::uint64_t> pieces((std::filesystem::file_size(path) + piece - 1) / piece);
  std::iota(pieces.begin(), pieces.end(), 0);
  if (way == ReadWay::at_random) std::shuffle(pieces.begin(), pieces.end(), std::mt19937_64(kSeed));
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> bytes{0};
  const double seconds = seconds_of(
      [&] {
        const std::unique_ptr<std::byte, decltype(&std::free)> buffer(
            static_cast<std::byte*>(std::aligned_alloc(4096, (piece + 4095) / 4096 * 4096)),
            &std::free);
        for (std::size_t i = next++; i < pieces.size(); i = next++) {
          const auto at = static_cast<off_t>(pieces[i] * piece);
          const ssize_t got = pread(file.get(), buffer.get(), piece, at);
          if (got > 0) bytes += static_cast<std::uint64_t>(got);
        }
      },
      direct ? 8 : 1);
  if (bytes != std::filesystem::file_size(path)) throw std::runtime_error(path + " can't be read");
  return {seconds, bytes};
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

ReadLoop read_loop(const std::vector<std::string>& paths, std::uint64_t epochs, std::size_t piece,
                   ReadWay way) {
  ReadLoop result;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    for (const std::string& path : paths) {
      const ReadLoop one = read_file_by(path, piece, way);
      result.seconds += one.seconds;
      result.bytes += one.bytes;
    }
  }
  return result;
}

}  // namespace penstock::bench
