#include "pipeline/io/uring.h"

#include <penstock/internal/thread_annotations.h>
#include <penstock/log.h>

#if __has_include(<liburing.h>)

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

// A program that embeds Penstock may use Asio itself, without io_uring. Its classes would have the
// same names and another layout. So this copy has a namespace of its own.
#define asio penstock_asio
#define BOOST_ASIO_HAS_IO_URING 1
#define BOOST_ASIO_DISABLE_EPOLL 1
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/random_access_file.hpp>
#undef asio

#include "pipeline/core/waits.h"
#include "pipeline/io/posix.h"
#include "pipeline/io/posix_files.h"

namespace penstock {
namespace {

namespace net = boost::penstock_asio;

constexpr std::size_t kDepth = 32;
constexpr std::size_t kDirectLeast = 64 << 10;

/// A request under way. Asio runs one operation of a file object at a time, so each request has its
/// own object.
struct Lane {
  explicit Lane(net::io_context& context) : file(context) {}

  net::random_access_file file;
  ReadRequest* request = nullptr;
  std::size_t done = 0;
  bool direct = false;
  DirectBlock block;  // the buffer for O_DIRECT
};

/// The function that finishes a request which the ring could not complete.
using Finish = std::function<Status(const ReadRequest&, std::size_t done)>;

/// One io_uring with its lanes. Used by one thread at a time.
class Ring {
 public:
  /// Throws Asio's exception if the kernel refuses io_uring. The first file object finds that out.
  Ring() { lanes_.push_back(std::make_unique<Lane>(context_)); }

  void read(std::span<ReadRequest*> requests, int fd, int direct_fd, const Finish& finish) {
    waiting_ = requests;
    fd_ = fd;
    direct_fd_ = direct_fd;
    finish_ = &finish;
    while (lanes_.size() < std::min(kDepth, requests.size()))
      lanes_.push_back(std::make_unique<Lane>(context_));
    context_.restart();
    for (auto& lane : lanes_) next(*lane);
    context_.run();
  }

 private:
  void next(Lane& lane) {
    if (waiting_.empty()) return;
    lane.request = waiting_.front();
    lane.done = 0;
    waiting_ = waiting_.subspan(1);
    lane.direct = direct_fd_ >= 0 && lane.request->size >= kDirectLeast;
    lane.file.assign(lane.direct ? direct_fd_ : fd_);
    start(lane);
  }

  void start(Lane& lane) {
    std::uint64_t at = lane.request->offset + lane.done;
    net::mutable_buffer to(lane.request->out + lane.done, lane.request->size - lane.done);
    if (lane.direct) {
      if (lane.block == nullptr) lane.block = make_direct_block();
      if (lane.block == nullptr) return finish(lane);
      const std::uint64_t end = at + to.size();
      at = at / kDirectAlignment * kDirectAlignment;
      const std::uint64_t size =
          (end - at + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
      to = net::mutable_buffer(lane.block.get(), std::min<std::uint64_t>(size, kDirectBlock));
    }
    try {
      lane.file.async_read_some_at(
          at, to, [this, &lane](auto error, std::size_t got) { arrived(lane, !error, got); });
    } catch (const std::exception&) {  // no memory for the operation
      finish(lane);
    }
  }

  void arrived(Lane& lane, bool ok, std::size_t got) {
    ReadRequest& request = *lane.request;
    if (ok && lane.direct) {
      const std::size_t before = (request.offset + lane.done) % kDirectAlignment;
      if (got <= before) return finish(lane);
      got = std::min(got - before, request.size - lane.done);
      std::memcpy(request.out + lane.done, lane.block.get() + before, got);
    }
    if (!ok || got == 0) return finish(lane);
    lane.done += got;
    lane.done < request.size ? start(lane) : finish(lane);
  }

  void finish(Lane& lane) {
    lane.file.release();
    lane.request->status = (*finish_)(*lane.request, lane.done);
    next(lane);
  }

  net::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::span<ReadRequest*> waiting_;
  int fd_ = -1;
  int direct_fd_ = -1;
  const Finish* finish_ = nullptr;
};

/// A pool of rings: as many as there are threads that read at the same time.
class Rings {
 public:
  /// Returns null if the kernel provides no more rings.
  std::unique_ptr<Ring> take() EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Ring> ring = std::move(free_.back());
        free_.pop_back();
        return ring;
      }
    }
    try {
      const StandardStreamsHeld held;  // Asio opens the ring
      return std::make_unique<Ring>();
    } catch (const std::exception&) {
      return nullptr;
    }
  }
  void give(std::unique_ptr<Ring> ring) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    free_.push_back(std::move(ring));
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<Ring>> free_ GUARDED_BY(mutex_);
};

class UringFile final : public PosixFile {
 public:
  UringFile(const std::string& path, const FileRoot& root, std::shared_ptr<Rings> rings,
            bool direct)
      : PosixFile(path, {}, root), rings_(std::move(rings)) {
    if (!direct) return;
    const std::string self = "/proc/self/fd/" + std::to_string(fd());
    direct_ = UniqueFd(::open(self.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  }

  std::size_t depth() const noexcept override { return kDepth; }

  void read(std::span<ReadRequest> requests) override {
    slow_work("a file is read");
    std::vector<ReadRequest*> cold;
    for (ReadRequest& request : requests) {
      // Check this first: preadv2 takes the offset -1 for the file's current position.
      if (request.offset > info().size || request.size > info().size - request.offset) {
        request.status = past_end_error(path(), info().size, request);
      } else if (!read_cached(request)) {
        cold.push_back(&request);
      }
    }
    if (cold.empty()) return;
    std::unique_ptr<Ring> ring = rings_->take();
    if (ring == nullptr) {
      log_once(LogLevel::warning, "io_uring ring", "no more io_uring rings: reading by pread");
      for (ReadRequest* request : cold) request->status = read_rest(*request, 0);
      return;
    }
    ring->read(cold, fd(), direct_.get(), [this](const ReadRequest& request, std::size_t done) {
      return read_rest(request, done);
    });
    rings_->give(std::move(ring));
  }

 private:
  bool read_cached(ReadRequest& request) const {
    iovec to{request.out, request.size};
    const auto got = ::preadv2(fd(), &to, 1, static_cast<std::int64_t>(request.offset), RWF_NOWAIT);
    if (got < 0 || static_cast<std::size_t>(got) != request.size) {
      ++file_reads().others;
      return false;
    }
    ++file_reads().cached;
    request.status = {};
    return true;
  }

  std::shared_ptr<Rings> rings_;
  UniqueFd direct_;
};

class UringFileSystem final : public PosixFileSystem {
 public:
  UringFileSystem(FileRootPtr root, std::shared_ptr<Rings> rings)
      : PosixFileSystem(std::move(root)), rings_(std::move(rings)) {}

  std::string name() const override { return "io_uring"; }

  std::shared_ptr<File> open(const std::string& path) override EXCLUDES(mutex_) {
    const FileInfo file = info(path);
    bool direct;
    {
      MutexLock lock(mutex_);
      if (opened_.insert(std::hash<std::string>()(path)).second) opened_bytes_ += file.size;
      direct = opened_bytes_ > memory_bytes() / 2;
    }
    return std::make_shared<UringFile>(path, root(), rings_, direct);
  }

 private:
  static std::uint64_t memory_bytes() {
    return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
           static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }

  const std::shared_ptr<Rings> rings_;
  Mutex mutex_;
  std::set<std::size_t> opened_ GUARDED_BY(mutex_);  // hashes of paths
  std::uint64_t opened_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace

FileSystemPtr make_uring_file_system(FileRootPtr root) {
  auto rings = std::make_shared<Rings>();
  std::unique_ptr<Ring> first = rings->take();
  if (first == nullptr) {
    log_once(LogLevel::warning, "io_uring refused",
             "io_uring is refused here (kernel, container or limits): reading by pread");
    return nullptr;
  }
  rings->give(std::move(first));
  return std::make_shared<UringFileSystem>(std::move(root), std::move(rings));
}

}  // namespace penstock

#else

namespace penstock {

FileSystemPtr make_uring_file_system(FileRootPtr /*root*/) {
  log_once(LogLevel::warning, "io_uring refused", "built without io_uring: reading by pread");
  return nullptr;
}

}  // namespace penstock

#endif
