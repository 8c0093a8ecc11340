#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/record/data.h"
#include "tests/record/observe.h"

namespace penstock::test {
namespace {

FeedOptions options_for(const RecordedFeed& feed, const Setting& setting, const Dataset& dataset) {
  FeedOptions options;
  options.mode = feed.mode;
  options.end = feed.end;
  options.in_turn = feed.in_turn;
  options.max_bytes = 4096;
  options.run = feed.options;
  options.run.threads = setting.threads;
  options.run.memory_bytes = setting.ample ? 256 << 20 : feed.least;
  if (setting.workers) options.run.workers = setting.workers(dataset);
  return options;
}

std::string bytes_at(StreamView stream, const void* from, std::size_t size) {
  std::string bytes(size, '\0');
  stream.copy({bytes.data(), from, size});
  stream.synchronize();
  return bytes;
}

/// The component in host memory.
Tensor host_copy(StreamView stream, const DeviceTensor& tensor) {
  if (tensor.dtype == DType::bytes) {
    const auto count = static_cast<std::size_t>(tensor.shape.volume());
    std::vector<std::uint64_t> offsets(count + 1);
    const std::string raw = bytes_at(stream, tensor.data, offsets.size() * sizeof(offsets[0]));
    std::memcpy(offsets.data(), raw.data(), raw.size());
    const std::string text = bytes_at(stream, tensor.text, offsets.back());
    std::vector<std::string_view> texts;
    for (std::size_t i = 0; i < count; ++i)
      texts.push_back(std::string_view(text).substr(offsets[i], offsets[i + 1] - offsets[i]));
    return Tensor::of_bytes(texts);
  }
  Tensor copy = Tensor::allocate(tensor.dtype, tensor.shape);
  const std::string raw = bytes_at(stream, tensor.data, tensor.nbytes());
  std::memcpy(copy.mutable_data(), raw.data(), raw.size());
  return copy;
}

std::string take(StagedBatch& batch, Device& device) {
  const Stream stream(device.shared_from_this(), "tower");
  batch.wait(stream);
  Element element;
  for (std::size_t i = 0; i < batch.size(); ++i)
    element.set("component " + std::to_string(i), host_copy(stream, batch.at(i)));
  element.valid_rows = batch.valid_rows();
  batch.release(stream);
  return digest_of(element);
}

/// What the towers get that ask in turn, beginning with this one. `before` is told how many lines
/// there are before each call of `next`.
template <typename F>
std::vector<std::string> collect(Feed& feed, int tower, F before) {
  std::vector<std::string> run;
  const auto ended = [&] {
    for (int t = 0; t < feed.towers(); ++t) {
      if (!feed.ended(t)) return false;
    }
    return true;
  };
  for (; !ended(); tower = (tower + 1) % feed.towers()) {
    if (feed.ended(tower)) continue;
    before(run.size());
    const std::string name = "tower " + std::to_string(tower) + ": ";
    try {
      std::optional<StagedBatch> batch = feed.next(tower);
      run.push_back(name + (batch ? take(*batch, feed.device(tower)) : "end"));
    } catch (const Error& error) {
      run.push_back(name + line_of(error));
    }
  }
  return run;
}

std::vector<std::string> counted(const FeedStats& stats) {
  std::vector<std::string> lines{"counted: " + std::to_string(stats.batches) + " batches, " +
                                 std::to_string(stats.elements) + " elements, " +
                                 std::to_string(stats.lost) + " lost, " +
                                 std::to_string(stats.wrapped) + " wrapped"};
  return lines;
}

/// Which tower got a batch is not recorded.
void forget_towers(std::vector<std::string>& run) {
  for (std::string& line : run) line = line.substr(line.find(": ") + 2);
  std::sort(run.begin(), run.end());
}

}  // namespace

std::vector<std::string> resume(const RecordedFeed& feed, const Setting& setting,
                                std::size_t position, const std::string& state) {
  enter_folder();
  const std::vector<DevicePtr> towers = devices(feed.devices);
  const Dataset dataset = feed.build();
  Feed resumed = Feed::restore(state, dataset, towers, options_for(feed, setting, dataset));
  std::vector<std::string> rest =
      collect(resumed, static_cast<int>(position % towers.size()), [](std::size_t) {});
  if (setting.ended) setting.ended(resumed.stats().run);
  return rest;
}

Observed observe(const RecordedFeed& recorded, const Setting& setting) {
  enter_folder();
  Observed seen;
  std::vector<std::string> states;
  const std::string refused = thrown_in_one_line([&] {
    const Dataset dataset = recorded.build();
    Feed feed(dataset, devices(recorded.devices), options_for(recorded, setting, dataset));
    seen.run = collect(feed, 0, [&](std::size_t) { states.push_back(feed.save()); });
    seen.about = counted(feed.stats());
    if (setting.ended) setting.ended(feed.stats().run);
  });
  if (refused != "nothing") {
    seen.about.push_back("refused: " + refused);
    return seen;
  }
  if (!recorded.in_turn) {
    forget_towers(seen.run);
    return seen;
  }
  Setting other = setting;
  other.threads = setting.threads == 1 ? 2 : 1;
  const std::size_t count = states.size();
  for (const std::size_t place : {std::size_t{0}, count / 4, count / 2, count - 1}) {
    const std::vector<std::string> rest = resume(recorded, other, place, states[place]);
    if (is_rest(rest, seen.run, place, false)) continue;
    seen.resumed.push_back("resumed at " + std::to_string(place) + " it differs:");
    for (const std::string& line : rest) seen.resumed.push_back("  " + line);
  }
  seen.states[count / 2] = states[count / 2];
  return seen;
}

}  // namespace penstock::test
