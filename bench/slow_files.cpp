#include "bench/slow_files.h"

#include <thread>

namespace penstock::bench {
namespace {

class SlowFile final : public File {
 public:
  SlowFile(std::shared_ptr<File> inner, std::chrono::microseconds latency)
      : inner_(std::move(inner)), latency_(latency) {}

  const FileInfo& info() const noexcept override { return inner_->info(); }
  std::optional<FileInfo> now() const noexcept override { return inner_->now(); }
  const std::string& path() const noexcept override { return inner_->path(); }
  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      std::this_thread::sleep_for(latency_);
      inner_->read({&request, 1});
    }
  }

 private:
  const std::shared_ptr<File> inner_;
  const std::chrono::microseconds latency_;
};

}  // namespace

std::shared_ptr<File> SlowFiles::open(const std::string& path) {
  return std::make_shared<SlowFile>(inner_->open(path), latency_);
}

std::optional<FileInfo> SlowFiles::read_whole(const std::string& path, const FileInfo& expected,
                                              std::byte* out) {
  std::this_thread::sleep_for(latency_);
  return inner_->read_whole(path, expected, out);
}

}  // namespace penstock::bench
