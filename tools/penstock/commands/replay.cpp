#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/commands/commands.h"
#include "tools/penstock/report/digest.h"
#include "tools/penstock/run/build.h"
#include "tools/penstock/run/digest_log.h"
#include "tools/penstock/run/dump.h"
#include "tools/penstock/run/outputs.h"
#include "tools/penstock/run/replay.h"
#include "tools/penstock/shards/describe_element.h"
#include "tools/penstock/shards/find_source.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/flags.h"
#include "tools/penstock/support/messages.h"

namespace penstock::tool {
namespace {

using Json = nlohmann::ordered_json;

class Replay final : public Command {
 public:
  explicit Replay(CLI::App& program)
      : Command(
            program, "replay", "recreate one batch of a run, or reread one bad record",
            "penstock replay --images photos --shuffle --random-resized-crop 224 --batch 64 \\\n"
            "      --seed 7 --at 2,118 --dump 64 seen\n"
            "  penstock replay --images photos --random-resized-crop 224 \\\n"
            "      --record bad.jsonl,3 --raw bad.jpg"),
        flags_(*app(), "the run's seed; required with --at", find_source) {
    const std::string group = "What";
    app()
        ->add_option("--at", at_,
                     "recreate this batch of this epoch, both from 0; needs the run's --seed")
        ->type_name("EPOCH,BATCH")
        ->group(group);
    app()
        ->add_option("--record", record_,
                     "reread the record on this line, from 1, of a quarantine file")
        ->type_name("FILE,LINE")
        ->group(group);
    app()
        ->add_option("--digests", digests_, "with --at: compare with the run's --digests file")
        ->type_name("FILE")
        ->group("Output");
    app()
        ->add_option("--dump", dump_, "with --at: write the first N images")
        ->expected(2)
        ->type_name("N DIR")
        ->group("Output");
    app()
        ->add_option("--raw", raw_, "with --record: write the record's raw bytes")
        ->type_name("FILE")
        ->group("Output");
    app()
        ->add_option("--json", json_, "write the result as JSON (-: to stdout)")
        ->type_name("FILE")
        ->group("Output");
  }

  int run() override {
    if (at_.empty() == record_.empty()) throw UsageError("give either --at or --record");
    std::vector<std::string> made;
    if (!dump_.empty()) made.push_back(dump_.at(1));
    check_distinct({{"--json", json_},
                    {"--raw", raw_},
                    {"--dump", dump_.empty() ? std::string() : dump_.at(1)}});
    for (const std::string& path : {json_, raw_}) check_output(path, made);
    const PipelineSpec spec = flags_.finish();
    Json json;
    const int code = at_.empty() ? record(spec, json) : batch(spec, json);
    if (!json_.empty())
      write_output(json_, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return code;
  }

 private:
  static std::uint64_t number(const std::string& text, const char* flag) {
    try {
      const std::int64_t value = parse_integer(text);
      if (value < 0) throw UsageError("must not be negative");
      return static_cast<std::uint64_t>(value);
    } catch (const UsageError& error) {
      throw error.at(flag);
    }
  }

  void say(const std::string& text) const {
    if (json_ != "-") std::printf("%s\n", printable(text).c_str());
  }

  int batch(const PipelineSpec& spec, Json& json) const {
    const std::size_t comma = at_.find(',');
    if (comma == std::string::npos) throw UsageError("expected EPOCH,BATCH", "--at");
    if (!spec.run.has("seed")) throw UsageError("needs the seed of the run (--seed)", "--at");
    const std::uint64_t epoch = number(at_.substr(0, comma), "--at");
    const std::uint64_t batch = number(at_.substr(comma + 1), "--at");
    const Element element = replay_batch(spec, run_options(spec, 0), epoch, batch);
    const std::string digest = hex16(Digest().add(element));
    say(describe_element(element));
    say("digest " + digest);
    json = {{"epoch", epoch},
            {"batch", batch},
            {"elements", element.valid_rows < 0 ? 1 : element.valid_rows},
            {"digest", digest},
            {"content", describe_element(element)}};
    if (!dump_.empty()) Dump(dump_.at(1), number(dump_.at(0), "--dump")).add(element);
    if (digests_.empty()) return kOk;
    const std::vector<DigestLine> lines = digests_in(digests_);
    const auto line = std::find_if(lines.begin(), lines.end(), [&](const DigestLine& candidate) {
      return candidate.epoch == epoch && candidate.batch == batch;
    });
    if (line == lines.end()) throw UsageError("the file has no such batch", digests_);
    const bool same = hex16(line->digest) == digest;
    json["same"] = same;
    if (!same) {
      print_error("the batch's digest differs: the run had " + hex16(line->digest) + ", this is " +
                  digest);
      return kFailed;
    }
    say("the same as in " + digests_);
    return kOk;
  }

  /// Reads a quarantined record again. Returns the exit code: 1 if the record is still bad.
  int record(const PipelineSpec& spec, Json& json) const {
    const std::size_t comma = record_.rfind(',');
    if (comma == std::string::npos) throw UsageError("expected FILE,LINE", "--record");
    const QuarantinedRecord record =
        read_quarantine(record_.substr(0, comma), number(record_.substr(comma + 1), "--record"));
    say(record.shard + " @" + std::to_string(record.offset) + " record " +
        std::to_string(record.index) + ", stage " + record.stage + ": " + record.cause);
    json = {{"path", record.shard},
            {"offset", record.offset},
            {"index", record.index},
            {"was", record.cause}};
    RunOptions run = run_options(spec, 0);
    run.on_error = OnError::fail;
    run.quarantine.clear();
    run.max_errors = RunOptions().max_errors;
    run.max_error_share = RunOptions().max_error_share;
    Next raw = raw_record(spec, record).iterate(run).next();
    if (raw.has_value()) {
      say("read: " + describe_element(*raw));
      if (!raw_.empty()) write_raw(*raw);
    }
    Next made = raw.has_value() ? worked_record(spec, record).iterate(run).next() : std::move(raw);
    if (made.is_end()) throw UsageError("the source has no such record", record_);
    if (made.has_value()) {
      say("good now: " + describe_element(*made));
      json["now"] = nullptr;
      return kOk;
    }
    json["now"] = made.error().cause();
    print_error(made.error().what());
    return kFailed;
  }

  void write_raw(const Element& element) const {
    for (std::size_t i = 0; i < element.size(); ++i) {
      if (element[i].dtype() == DType::bytes && element[i].volume() == 1)
        return write_output(raw_, element[i].bytes_at());
    }
    throw UsageError("the source's elements are not bytes", "--raw");
  }

  PipelineFlags flags_;
  std::string at_;
  std::string record_;
  std::string digests_;
  std::vector<std::string> dump_;
  std::string raw_;
  std::string json_;
};

}  // namespace

std::unique_ptr<Command> make_replay(CLI::App& program) {
  return std::make_unique<Replay>(program);
}

}  // namespace penstock::tool
