#include "pipeline/sources/parallel.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>
#include <penstock/log.h>
#include <penstock/remote_files.h>

namespace penstock {

void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t threads) {
  if (threads == 0) {
    threads = std::clamp<std::size_t>(2 * std::thread::hardware_concurrency(), 2, 16);
  }
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> errors(count);
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        patiently([&] { work(i); });
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<Thread> helpers;
    try {
      while (helpers.size() + 1 < std::min(threads, count))
        helpers.push_back(start_thread("examining files", run));
    } catch (const Error&) {
      log_once(LogLevel::warning, "source threads", "can't start more threads to examine files");
    }
    run();
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

std::atomic<std::chrono::milliseconds> first_retry_wait{std::chrono::milliseconds(10)};

bool try_again(std::string_view path, int tries) {
  constexpr int kMost = 4;
  if (tries > kMost || is_remote(path)) return false;
  std::this_thread::sleep_for(first_retry_wait.load() * (1 << (tries - 1)));
  return true;
}

void patiently(const std::function<void()>& work) {
  for (int tries = 1;; ++tries) {
    try {
      return work();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable || !try_again(error.where().shard, tries)) throw;
    }
  }
}

}  // namespace penstock
