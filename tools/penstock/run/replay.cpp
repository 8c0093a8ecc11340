#include "tools/penstock/run/replay.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <numeric>
#include <optional>

#include <nlohmann/json.hpp>

#include <penstock/internal/posix.h>
#include <penstock/plan.h>

#include "pipelines/usage_error.h"
#include "tools/penstock/run/build.h"

namespace penstock::tool {
namespace {

/// Returns a run that begins with this batch, if only the batch's own elements need to be computed.
std::optional<Dataset> batch_alone(const PipelineSpec& spec, std::uint64_t batch) {
  const Plan plan = compile(build(spec));
  if (!plan.batches()) return std::nullopt;
  const Dataset elements = plan.elements();
  const std::optional<std::uint64_t> count = compile(elements).stages().back().indexed_size;
  if (!count) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(plan.batches()->rows);
  if (batch > *count / size || batch * size >= *count) return std::nullopt;
  const std::uint64_t rows = std::min(size, *count - batch * size);
  if (rows < size && plan.batches()->drop_remainder) return std::nullopt;
  std::vector<std::uint64_t> positions(rows);
  std::iota(positions.begin(), positions.end(), batch * size);
  return plan.batches_of(elements.select(std::move(positions)));
}

void advance(Iterator& iterator, std::uint64_t epochs) {
  for (std::uint64_t i = 0; i < epochs; ++i) iterator.next_epoch();
}

std::uint64_t index_of(const QuarantinedRecord& record) {
  if (record.index < 0) throw UsageError("the line does not name the record", "index");
  return static_cast<std::uint64_t>(record.index);
}

Dataset one_of(const Dataset& source, const QuarantinedRecord& record) {
  const std::uint64_t index = index_of(record);
  const Plan plan = compile(source);
  const SourcePtr contents = plan.stages().front().source;
  if (const auto size = plan.stages().back().indexed_size) {
    if (index >= *size)
      throw UsageError("the source has " + std::to_string(*size) + " records, but no number " +
                       std::to_string(index));
    if (contents && contents->locate(index).shard != record.shard)
      throw UsageError("record " + std::to_string(index) + " of the source is in " +
                       contents->locate(index).shard + ", not in " + record.shard);
    return source.select({index});
  }
  return source.skip(record.index).take(1);
}

/// Returns the bytes for pairs of hexadecimal digits; nothing if the text has another form.
std::optional<std::string> bytes_of_hex(std::string_view hex) {
  std::string bytes;
  for (; hex.size() >= 2; hex.remove_prefix(2)) {
    unsigned value = 0;
    const auto [stop, error] = std::from_chars(hex.data(), hex.data() + 2, value, 16);
    if (stop != hex.data() + 2 || error != std::errc()) return std::nullopt;
    bytes.push_back(static_cast<char>(value));
  }
  if (!hex.empty()) return std::nullopt;
  return bytes;
}

}  // namespace

Element replay_batch(const PipelineSpec& spec, const RunOptions& run, std::uint64_t epoch,
                     std::uint64_t batch) {
  RunOptions options = run;
  options.epochs = epoch + 1;
  options.quarantine.clear();
  // Elements that were skipped earlier move the borders of batches, so then there is no short cut.
  if (run.on_error != OnError::skip) {
    if (const std::optional<Dataset> alone = batch_alone(spec, batch)) {
      Iterator iterator = alone->iterate(options);
      advance(iterator, epoch);
      return iterator.next().value();
    }
  }
  Iterator iterator = build(spec).iterate(options);
  advance(iterator, epoch);
  for (std::uint64_t i = 0;; ++i) {
    Next next = iterator.next();
    if (next.is_end())
      throw Error(ErrorCode::out_of_range, "epoch " + std::to_string(epoch) + " has " +
                                               std::to_string(i) + " batches, but no number " +
                                               std::to_string(batch));
    if (i == batch) return next.value();
    if (next.is_error()) throw next.error();
  }
}

QuarantinedRecord read_quarantine(const std::string& path, std::uint64_t line) {
  std::ifstream file(path);
  if (!file) throw error_from_errno(errno, "read the file", path);
  std::string text;
  for (std::uint64_t i = 0; i < line; ++i)
    if (!std::getline(file, text)) {
      if (file.bad()) throw error_from_errno(errno, "read the file", path);
      throw UsageError("the file has no line " + std::to_string(line), path);
    }
  const std::string where = path + ":" + std::to_string(line);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) throw UsageError("not a line of a quarantine file", where);
  QuarantinedRecord record;
  const auto take_text = [&](const char* name, std::string& to) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_string())
      throw UsageError(std::string("the line lacks the string ") + name, where);
    to = *found;
  };
  const auto take_number = [&](const char* name, std::int64_t& to) {
    const auto found = json.find(name);
    if (found == json.end() || !(found->is_null() || found->is_number_integer()))
      throw UsageError(std::string("the line lacks the number ") + name, where);
    to = found->is_null() ? -1 : found->get<std::int64_t>();
  };
  take_text("shard", record.shard);
  if (json.contains("shard_hex")) {
    std::string hex;
    take_text("shard_hex", hex);
    const std::optional<std::string> name = bytes_of_hex(hex);
    if (!name) throw UsageError("shard_hex is not hexadecimal", where);
    record.shard = *name;
  }
  take_number("offset", record.offset);
  take_number("length", record.length);
  take_number("index", record.index);
  take_text("stage", record.stage);
  take_text("cause", record.cause);
  return record;
}

Dataset raw_record(const PipelineSpec& spec, const QuarantinedRecord& record) {
  PipelineSpec source = spec;
  source.stages.clear();
  return one_of(build(source), record);
}

Dataset worked_record(const PipelineSpec& spec, const QuarantinedRecord& record) {
  PipelineSpec work = spec;
  std::erase_if(work.stages, [](const Settings& stage) {
    return !stage.kind().is_image() && stage.kind().role != StageRole::element;
  });
  const Dataset one = raw_record(spec, record);
  return add_stages(one, work.stages);
}

}  // namespace penstock::tool
