// Chooses the file system of a path: of a server, or of this machine.
#include <penstock/remote_files.h>

#include <utility>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/http/block_cache.h"
#include "pipeline/http/http_files.h"
#include "pipeline/http/s3_files.h"
#include "pipeline/http/shared_object.h"
#include "pipeline/io/posix_files.h"
#include "pipeline/io/pread.h"

namespace penstock {
namespace http {
namespace {

/// The process-wide client and file system.
class RemoteHolder {
 public:
  void choose(RemoteOptions options) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (options == options_) return;
    options_ = std::move(options);
    cache_ = nullptr;
    client_ = nullptr;
    http_ = nullptr;
    s3_ = {};
    gs_ = {};
  }
  std::shared_ptr<FileSystem> files(const std::string& path) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (client_ == nullptr) {
      if (!options_.cache_dir.empty())
        cache_ = std::make_shared<BlockCache>(options_.cache_dir, options_.cache_bytes);
      client_ = std::make_shared<HttpClient>(options_, nullptr, nullptr, cache_);
      http_ = std::make_shared<HttpFileSystem>(client_);
    }
    if (is_s3(path) && s3_.files == nullptr) make_s3();
    if (is_gs(path) && gs_.files == nullptr) make_gs();
    if (is_s3(path)) return s3_.files;
    if (is_gs(path)) return gs_.files;
    return http_;
  }
  /// Returns the place of an object that is to be written.
  ObjectPlace place(const std::string& path) EXCLUDES(mutex_) {
    const std::shared_ptr<FileSystem> made = files(path);
    if (!is_s3(path) && !is_gs(path)) made->create(path);  // throws
    const MutexLock lock(mutex_);
    return (is_s3(path) ? s3_ : gs_).files->place_of(path);
  }
  RemoteStats stats() noexcept EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    RemoteStats all = client_ != nullptr ? client_->pace().stats() : RemoteStats{};
    for (const Store* const store : {&s3_, &gs_})
      if (store->client != nullptr) add(all, store->client->pace().stats());
    return all;
  }

 private:
  /// The client and file system for one kind of buckets.
  struct Store {
    std::shared_ptr<HttpClient> client;
    std::shared_ptr<S3FileSystem> files;
  };

  static void add(RemoteStats& all, const RemoteStats& more) noexcept {
    all.requests += more.requests;
    all.again += more.again;
    all.hedged += more.hedged;
    all.throttled += more.throttled;
    all.bytes += more.bytes;
    all.bytes_needed += more.bytes_needed;
    all.bytes_cached += more.bytes_cached;
    all.bytes_written += more.bytes_written;
    all.waiting_s += more.waiting_s;
    if (all.requests_per_second == 0 ||
        (more.requests_per_second > 0 && more.requests_per_second < all.requests_per_second))
      all.requests_per_second = more.requests_per_second;
    if (more.latency_ms > 0) all.latency_ms = more.latency_ms;
    if (more.bytes_per_second > 0) all.bytes_per_second = more.bytes_per_second;
  }

  /// `options` have all that the environment and the profile say.
  Store make_store(const std::string& scheme, const RemoteOptions& options,
                   std::shared_ptr<CredentialChain> credentials) REQUIRES(mutex_) {
    const auto where =
        std::make_shared<S3Endpoint>(options.s3_endpoint, options.s3_region, options.s3_addressing);
    Store store;
    store.client = std::make_shared<HttpClient>(
        options, nullptr,
        std::make_shared<S3Signer>(where, std::move(credentials), options.requester_pays), cache_);
    store.files = std::make_shared<S3FileSystem>(scheme, store.client, where);
    return store;
  }
  void make_s3() REQUIRES(mutex_) {
    constexpr std::size_t kMostAnswer = 64 << 10;
    const auto ask = [client = client_](const HttpRequest& request) {
      return client->ask(request, kMostAnswer);
    };
    RemoteOptions options = options_;
    if (options.s3_endpoint.empty()) options.s3_endpoint = usual_endpoint("s3");
    if (options.s3_region.empty()) options.s3_region = usual_region();
    if (options.s3_addressing.empty() || options.s3_addressing == "auto")
      options.s3_addressing = of_profile("s3.addressing_style");
    if (options.ca_file.empty()) options.ca_file = usual_ca_file();
    s3_ = make_store("s3", options, std::make_shared<CredentialChain>(options.s3_anonymous, ask));
  }
  void make_gs() REQUIRES(mutex_) {
    RemoteOptions options = options_;
    options.s3_endpoint = variable("GS_ENDPOINT_URL");
    if (options.s3_endpoint.empty()) options.s3_endpoint = "https://storage.googleapis.com";
    options.s3_region = "auto";
    options.s3_addressing = "path";
    options.requester_pays = false;
    gs_ = make_store("gs", options,
                     std::make_shared<CredentialChain>(
                         options.s3_anonymous, find_gs_credentials,
                         "there are no HMAC keys for gs://: set GS_ACCESS_KEY_ID and "
                         "GS_SECRET_ACCESS_KEY (--s3-anonymous reads public data)"));
  }

  Mutex mutex_;
  RemoteOptions options_ GUARDED_BY(mutex_);
  std::shared_ptr<BlockCache> cache_ GUARDED_BY(mutex_);
  std::shared_ptr<HttpClient> client_ GUARDED_BY(mutex_);
  std::shared_ptr<FileSystem> http_ GUARDED_BY(mutex_);
  Store s3_ GUARDED_BY(mutex_);
  Store gs_ GUARDED_BY(mutex_);
};

RemoteHolder& holder() {
  // never destroyed, so that no exit waits for its thread
  static auto* const holder = new RemoteHolder;
  return *holder;
}

class RoutedFileSystem final : public FileSystem {
 public:
  explicit RoutedFileSystem(FileSystemPtr files) : files_(std::move(files)) {}

  std::string name() const override { return files_->name(); }
  std::shared_ptr<File> open(const std::string& path) override { return of(path)->open(path); }
  std::optional<FileInfo> read_whole(const std::string& path, const FileInfo& expected,
                                     std::byte* out) override {
    if (!is_remote(path)) return files_->read_whole(path, expected, out);
    return of(path)->read_whole(path, expected, out);
  }
  FileInfo info(const std::string& path) override { return of(path)->info(path); }
  bool is_directory(const std::string& path) override { return of(path)->is_directory(path); }
  std::vector<std::string> list(const std::string& folder) override {
    return of(folder)->list(folder);
  }
  std::vector<std::string> glob(const std::string& pattern, bool hidden) override {
    return of(pattern)->glob(pattern, hidden);
  }
  void list_each(const std::string& folder, const Found& found) override {
    of(folder)->list_each(folder, found);
  }
  void glob_each(const std::string& pattern, bool hidden, const Found& found) override {
    of(pattern)->glob_each(pattern, hidden, found);
  }
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return of(path)->create(path);
  }
  void remove(const std::string& path) override { of(path)->remove(path); }

 private:
  FileSystemPtr of(const std::string& path) const {
    return is_remote(path) ? remote_file_system(path) : files_;
  }

  const FileSystemPtr files_;
};

}  // namespace

std::shared_ptr<FileSystem> remote_file_system(const std::string& path) {
  return holder().files(path);
}

std::unique_ptr<SharedObject> open_shared_object(const std::string& path) {
  return std::make_unique<SharedObject>(holder().place(path));
}

}  // namespace http

FileSystemPtr make_file_system(const std::string& name) {
  if (name == "pread") return default_file_system();
  return std::make_shared<http::RoutedFileSystem>(make_local_file_system(name, system_root()));
}

FileSystemPtr default_file_system() {
  static const FileSystemPtr files =
      std::make_shared<http::RoutedFileSystem>(std::make_shared<PreadFileSystem>());
  return files;
}

void choose_remote(RemoteOptions options) {
  http::holder().choose(std::move(options));
}

RemoteStats remote_stats() noexcept {
  return http::holder().stats();
}

}  // namespace penstock
