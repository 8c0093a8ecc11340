#include "pipeline/io/fault.h"

#include <algorithm>
#include <thread>

#include <penstock/rng.h>

#include "pipeline/io/posix.h"

namespace penstock {
namespace {

Error injected_error(const std::string& path, std::int64_t offset = -1) {
  return Error(ErrorCode::unavailable, "injected fault", {.shard = path, .offset = offset});
}

enum Draw : std::uint32_t { kFail, kFlip, kSplit, kDelay };

}  // namespace

class FaultFileSystem::FaultFile final : public File {
 public:
  FaultFile(std::shared_ptr<FaultFileSystem> files, std::shared_ptr<File> inner)
      : files_(std::move(files)),
        inner_(std::move(inner)),
        info_(files_->truncated(inner_->path(), inner_->info())) {}

  const FileInfo& info() const noexcept override { return info_; }
  const std::string& path() const noexcept override { return inner_->path(); }
  std::optional<FileInfo> now() const noexcept override {
    const std::optional<FileInfo> now = inner_->now();
    return now == inner_->info() ? std::optional(info_) : now;
  }
  bool blocking() const noexcept override { return inner_->blocking(); }
  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) request.status = read_one(request, false);
  }
  void read_uncached(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) request.status = read_one(request, true);
  }

 private:
  Status read_one(const ReadRequest& request, bool uncached) {
    const FaultOptions& options = files_->options_;
    std::uint64_t number = 0;
    const auto offset = static_cast<std::int64_t>(request.offset);
    if (!files_->enter(number)) return injected_error(path(), offset);
    if (request.offset > info_.size || request.size > info_.size - request.offset)
      return past_end_error(path(), info_.size, request);
    const auto draws = [&](Draw draw, double share) {
      return share > 0 && Rng(options.seed, number, draw).coin(share);
    };
    if (draws(kDelay, options.delay_share)) std::this_thread::sleep_for(options.delay);
    if (draws(kFail, options.fail_share)) {
      ++files_->injected_;
      return injected_error(path(), offset);
    }
    Status status =
        options.split ? read_split(request, number, uncached) : read_inner(request, uncached);
    const bool flips = status.ok() && (!uncached || options.flip_uncached);
    if (flips && request.size > 0 && draws(kFlip, options.flip_share))
      flip(request,
           request.offset * 8 + Rng(options.seed, number, kFlip + 100).below(request.size * 8));
    if (flips) {
      const auto bits = options.flip_bits.find(path());
      if (bits != options.flip_bits.end())
        for (const std::uint64_t bit : bits->second) flip(request, bit);
    }
    return status;
  }

  Status read_inner(ReadRequest part, bool uncached) {
    uncached ? inner_->read_uncached({&part, 1}) : inner_->read({&part, 1});
    return part.status;
  }

  Status read_split(const ReadRequest& whole, std::uint64_t number, bool uncached) {
    Rng rng(files_->options_.seed, number, kSplit);
    std::size_t done = 0;
    while (done < whole.size) {
      const std::size_t rest = whole.size - done;
      // Mostly a few bytes, sometimes the whole rest.
      const std::size_t n = rng.coin(0.1) ? rest : 1 + rng.below(std::min<std::size_t>(rest, 64));
      Status status = read_inner({whole.offset + done, n, whole.out + done, {}}, uncached);
      if (!status.ok()) return status;
      done += n;
    }
    return {};
  }

  void flip(const ReadRequest& request, std::uint64_t bit) {
    const std::uint64_t byte = bit / 8;
    if (byte < request.offset || byte - request.offset >= request.size) return;
    request.out[byte - request.offset] ^= static_cast<std::byte>(1 << (bit % 8));
    ++files_->injected_;
  }

  const std::shared_ptr<FaultFileSystem> files_;
  const std::shared_ptr<File> inner_;
  const FileInfo info_;
};

FaultFileSystem::FaultFileSystem(FileSystemPtr inner, FaultOptions options)
    : inner_(std::move(inner)), options_(std::move(options)) {}

bool FaultFileSystem::enter(std::uint64_t& number) {
  number = ++operations_;
  if (number == options_.hang_nth) {
    ++injected_;
    MutexLock lock(mutex_);
    ++hanging_;
    while (!released_) released_changed_.wait(mutex_);
    --hanging_;
  }
  const std::uint64_t nth = options_.fail_nth;
  if (nth == 0 || number < nth || number - nth >= options_.fail_count) return true;
  ++injected_;
  return false;
}

void FaultFileSystem::enter_or_throw(const std::string& path) {
  std::uint64_t number = 0;
  if (!enter(number)) throw injected_error(path);
}

FileInfo FaultFileSystem::truncated(const std::string& path, FileInfo info) const {
  const auto cut = options_.truncate_at.find(path);
  if (cut != options_.truncate_at.end()) info.size = std::min(info.size, cut->second);
  return info;
}

std::shared_ptr<File> FaultFileSystem::open(const std::string& path) {
  enter_or_throw(path);
  return std::make_shared<FaultFile>(shared_from_this(), inner_->open(path));
}

FileInfo FaultFileSystem::info(const std::string& path) {
  enter_or_throw(path);
  return truncated(path, inner_->info(path));
}

std::vector<std::string> FaultFileSystem::list(const std::string& folder) {
  enter_or_throw(folder);
  return inner_->list(folder);
}

std::vector<std::string> FaultFileSystem::glob(const std::string& pattern, bool hidden) {
  enter_or_throw(pattern);
  return inner_->glob(pattern, hidden);
}

void FaultFileSystem::release() {
  MutexLock lock(mutex_);
  released_ = true;
  released_changed_.notify_all();
}

int FaultFileSystem::hanging() const {
  MutexLock lock(mutex_);
  return hanging_;
}

}  // namespace penstock
