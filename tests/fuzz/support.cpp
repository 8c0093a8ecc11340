#include "tests/fuzz/support.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <semaphore>
#include <vector>

#include <sanitizer/common_interface_defs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/context.h"

namespace penstock::fuzz {
namespace {

constexpr std::uint64_t kMostRecords = 2000;
constexpr std::uint64_t kMostInflated = 1200;  // no less than Limits::max_inflate_ratio
constexpr std::uint64_t kWindows = 4U << 20;   // what a stream reads ahead

/// What became of a record, as text.
std::string text_of(const ReadItem& item) {
  if (!item.status.ok()) {
    require_answer(item.status.error());
    return "!" + std::string(item.status.error().cause());
  }
  std::string text;
  for (std::size_t i = 0; i < item.element.size(); ++i) {
    const Tensor& value = item.element[i];
    if (value.dtype() == DType::bytes) {
      for (std::int64_t k = 0; k < value.volume(); ++k)
        text += std::string(value.bytes_at(k)) + '\n';
    } else {
      text.append(reinterpret_cast<const char*>(value.data()), value.nbytes());
    }
  }
  return text;
}

std::vector<std::string> read_all_of(const Source& source, std::uint64_t count, bool backwards,
                                     std::uint64_t most_bytes) {
  test::HeapContext context;
  std::vector<std::string> out;
  for (std::uint64_t i = 0; i < count; i += backwards ? 1 : count) {
    std::vector<ReadItem> items(backwards ? 1 : count);
    for (std::uint64_t k = 0; k < items.size(); ++k) items[k].index = backwards ? count - 1 - i : k;
    for (const ReadItem& item : items) {
      (void)source.record_bytes(item.index);
      (void)source.locate(item.index);
    }
    source.read(items, context);
    for (const ReadItem& item : items) out.push_back(text_of(item));
  }
  require(context.allocated_bytes <= most_bytes, "more memory than the input explains");
  if (backwards) std::reverse(out.begin(), out.end());
  return out;
}

void read_stream(const Source& source, std::uint64_t most_bytes) {
  test::HeapContext context;
  const auto stream = source.stream();
  ReadItem item;
  std::uint64_t records = 0;
  for (; stream->next(item, context); item = ReadItem()) {
    (void)text_of(item);
    (void)stream->locate();
    if (++records > kMostRecords) return;
  }
  require(context.allocated_bytes <= most_bytes, "more memory than the input explains");
  require(!stream->next(item, context), "a stream that ended continues");
}

std::counting_semaphore<> told(0);

void tell_stack(int /*signal*/) {
  __sanitizer_print_stack_trace();
  told.release();
}

}  // namespace

void stuck(std::string_view what) {
  std::signal(SIGUSR2, tell_stack);
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const int id = std::stoi(thread.path().filename());
    std::fprintf(stderr, "fuzz: thread %d:\n", id);
    ::syscall(SYS_tgkill, ::getpid(), id, SIGUSR2);
    (void)told.try_acquire_for(std::chrono::seconds(1));
  }
  require(false, what);
  std::abort();
}

Limits small_limits() {
  Limits limits;
  limits.max_record_bytes = 1U << 20;
  limits.max_pixels = 1U << 14;
  limits.max_scans = 20;
  limits.max_codec_bytes = 4U << 20;
  limits.max_members = 10'000;
  return limits;
}

void require_answer(const Error& error) {
  const bool answer =
      error.code() == ErrorCode::data_loss || error.code() == ErrorCode::out_of_range ||
      error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::not_found;
  require(answer, error.what());
  require(!error.cause().empty(), "an error without a cause");
}

void read_indexed(const Source& source, std::uint64_t most_records, std::uint64_t most_bytes) {
  const std::uint64_t count = std::min(source.size().value(), most_records);
  if (count == 0) return;
  require(
      read_all_of(source, count, false, most_bytes) == read_all_of(source, count, true, most_bytes),
      "a record depends on what is read with it");
}

void read_all(const std::string& file, const std::function<SourcePtr(FileSystemPtr)>& make) {
  SourcePtr source;
  try {
    source = make(make_memory_file_system({{"file", file}}));
  } catch (const Error& error) {
    require_answer(error);
    return;
  }
  Description description;
  source->describe(description);
  (void)source->spec();
  const auto size = source->size();
  if (!size) return read_stream(*source, kMostInflated * file.size() + kWindows);
  // A value of a byte or two may become a number of eight or a view of sixteen.
  read_indexed(*source, kMostRecords,
               64 * file.size() + 256 * std::min(*size, kMostRecords) + 4096);
}

}  // namespace penstock::fuzz
