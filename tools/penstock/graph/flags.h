// The flags that describe a pipeline and its run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/penstock/graph/pipeline_spec.h"

namespace penstock::tool {

/// Gathers a PipelineSpec from a subcommand's flags. Stages apply in the order they are given. Must
/// outlive the parse.
///
///     PipelineFlags flags(app);      // adds the flags
///     app.parse(argc, argv);         // may throw UsageError, naming the flag
///     PipelineSpec spec = flags.finish();
class PipelineFlags {
 public:
  /// `default_seed`: what help says of a run without --seed.
  explicit PipelineFlags(CLI::App& app,
                         const std::string& default_seed = "default: drawn, and printed");
  PipelineFlags(const PipelineFlags&) = delete;
  PipelineFlags& operator=(const PipelineFlags&) = delete;

  /// Throws UsageError where flags do not go together, or if there is no source.
  PipelineSpec finish();

 private:
  void add_sources(CLI::App& app);
  void add_source_options(CLI::App& app);
  void add_stages(CLI::App& app);
  void add_run(CLI::App& app, const std::string& default_seed);
  void set_source(const Kind& kind, const std::vector<std::string>& values);
  void apply_source_options();
  /// Sets a boolean of the last stage of that kind, or else of the first one that follows.
  void apply_to_stage(StageRole role, const std::string& parameter, std::size_t position,
                      const std::string& flag);

  struct Late {
    std::string flag;
    StageRole role;  ///< of the stages that it may be of; not of a source's
    std::string parameter;
    std::string value;
    std::size_t position;  ///< stages given before it
  };

  PipelineSpec spec_;
  std::string pipeline_file_;
  std::vector<Late> source_options_;
  std::vector<Late> stage_options_;
};

}  // namespace penstock::tool
