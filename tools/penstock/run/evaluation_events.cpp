#include "tools/penstock/run/evaluation_events.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/error.h>
#include <penstock/internal/posix.h>

#include "tools/penstock/run/event_file.h"

namespace penstock::tool {
namespace {

std::string all_events(const std::vector<towers::RecordedEvaluation>& all) {
  std::string text = first_event(all.front().began);
  for (const towers::RecordedEvaluation& one : all)
    text += scalar_event(one.evaluation.step, one.began + one.seconds,
                         towers::figures_of(one.evaluation));
  return text;
}

}  // namespace

void EvaluationEvents::write(const std::vector<towers::RecordedEvaluation>& all) const {
  if (all.empty()) return;
  const std::string folder = folder_ + "/eval";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw error_from_errno(error.value(), "make the folder", folder);
  const std::string path = folder + "/events.out.tfevents." +
                           std::to_string(static_cast<std::int64_t>(all.front().began)) +
                           ".penstock.eval";
  const std::string text = all_events(all);
  std::ifstream in(path, std::ios::binary);
  const std::string there{std::istreambuf_iterator<char>(in), {}};
  // TensorBoard continues to read where it stopped, so the correct part of the file stays.
  const auto wrong = std::ranges::mismatch(there, text).in1;
  const auto right = static_cast<std::size_t>(wrong - there.begin());
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(right)) != 0 ||
      ::lseek(fd.get(), 0, SEEK_END) < 0)
    throw error_from_errno(errno, "write", path);
  const int reason = write_all(fd.get(), std::string_view(text).substr(right));
  if (reason != 0) throw error_from_errno(reason, "write", path);
}

}  // namespace penstock::tool
