// Checked builds end at slow work under a mutex: each kind of work is planted under each kind of
// lock.
#include <penstock/internal/slow_work.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/file_system.h>
#include <penstock/internal/posix.h>
#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/iterator.h>
#include <penstock/log.h>

#include "pipeline/core/waits.h"
#include "pipeline/engine/errors/retry.h"
#include "pipeline/engine/make/executor.h"
#include "pipeline/engine/make/group_context.h"
#include "pipeline/engine/memory/memory.h"
#include "pipeline/engine/memory/slots.h"
#include "staging/host/host_device.h"
#include "tests/support/files.h"

namespace penstock {
namespace slow_work_test {

using Work = std::function<void()>;

struct Planted {
  std::string name;
  Work work;
};

struct Lock {
  std::string name;
  std::function<void(const Work&)> under;
};

const std::vector<Lock> kLocks = {
    {"mutex",
     [](const Work& work) {
       Mutex mutex;
       const MutexLock lock(mutex);
       work();
     }},
    {"mutex locked again",
     [](const Work& work) {
       Mutex mutex;
       MutexLock lock(mutex);
       lock.unlock();
       slow_work("nothing");
       lock.lock();
       work();
     }},
    {"mutex after a wait",
     [](const Work& work) {
       Mutex mutex;
       CondVar never;
       const MutexLock lock(mutex);
       never.wait_for(mutex, std::chrono::nanoseconds(1));
       work();
     }},
    {"mutex after a wait that a stop ends",
     [](const Work& work) {
       Mutex mutex;
       StoppableCondVar never;
       std::stop_source stop;
       stop.request_stop();
       const MutexLock lock(mutex);
       never.wait(mutex, stop.get_token());
       work();
     }},
    {"outer of two",
     [](const Work& work) {
       Mutex outer, inner;
       const MutexLock lock(outer);
       { const MutexLock second(inner); }
       work();
     }},
    {"reader",
     [](const Work& work) {
       SharedMutex mutex;
       const ReaderLock lock(mutex);
       work();
     }},
    {"writer",
     [](const Work& work) {
       SharedMutex mutex;
       const WriterLock lock(mutex);
       work();
     }},
};

/// Slow work of each kind. The work may be done several times.
class World {
 public:
  std::vector<Planted> works() {
    return {
        {"a file is opened", [this] { files_->open(path_); }},
        {"a file is examined", [this] { files_->info(path_); }},
        {"a file is read",
         [this] {
           std::byte byte{};
           ReadRequest request{.offset = 0, .size = 1, .out = &byte, .status = {}};
           file_->read({&request, 1});
         }},
        {"a file is written", [] { write_all(-1, "text"); }},
        {"a file is synced", [] { sync_file(-1, "nothing"); }},
        {"the state of a thread is read", [] { waits(1); }},
        {"a thread is started", [] { start_thread("nothing", [] {}).join(); }},
        {"a message is logged", [] { log(LogLevel::info, "text"); }},
        {"a message is logged", [] { log_once(LogLevel::info, "slow work", "text"); }},
        {"a slot is allocated", [this] { const Slot made(layout_, Allocator::heap()); }},
        {"a slot is freed", [this] { slot_.reset(); }},
        {"memory of a batch is allocated",
         [this] {
           std::uint64_t promised = 0;
           memory_->allocate(1024, promised);
         }},
        {"memory of a device is allocated",
         [this] { device_->deallocate(device_->allocate(64), 64); }},
        {"elements are made", [this] { compute_items({}, {}, {}, context_); }},
        {"a thread waits",
         [] {
           Mutex other;
           CondVar never;
           const MutexLock lock(other);
           never.wait_for(other, std::chrono::nanoseconds(1));
         }},
    };
  }

 private:
  const test::TempFolder folder_;
  const std::string path_ = folder_.write("file", "text");
  const FileSystemPtr files_ = make_file_system("pread");
  const std::shared_ptr<File> file_ = files_->open(path_);
  const SlotLayout layout_{Spec({{"x", DType::i64, {}}}), 4};
  std::unique_ptr<Slot> slot_ = std::make_unique<Slot>(layout_, Allocator::heap());
  const std::shared_ptr<Memory> memory_ = std::make_shared<Memory>(1 << 20, Allocator::heap());
  const DevicePtr device_ = HostDevice::make({});
  Retry retry_{RunOptions()};
  const std::atomic<bool> cancelled_{false};
  GroupContext context_{{*memory_, retry_, cancelled_, false}, 0};
};

TEST(SlowWork, AnythingUnderAMutex) {
  if (!kLockChecks) GTEST_SKIP() << "this build has no PENSTOCK_LOCK_CHECKS: preset asan";
  GTEST_FLAG_SET(death_test_style, "fast");
  World world;
  for (const Planted& planted : world.works()) {
    for (const Lock& lock : kLocks) {
      SCOPED_TRACE(planted.name + " under a " + lock.name);
      EXPECT_DEATH(
          lock.under(planted.work),
          planted.name + ".* while the mutex locked at .*slow_work_test.cpp:[0-9]+ is held");
    }
  }
}

TEST(SlowWork, NothingUnderASlowMutex) {
  World world;
  for (const Planted& planted : world.works()) {
    SlowMutex mutex;
    const MutexLock lock(mutex);
    planted.work();
  }
}

TEST(SlowWork, NothingBehindAMutex) {
  for (const Lock& lock : kLocks) lock.under([] {});
  World world;
  for (const Planted& planted : world.works()) planted.work();
}

}  // namespace slow_work_test
}  // namespace penstock
