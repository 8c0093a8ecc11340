// The flags that describe a pipeline and its run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "pipelines/pipeline_spec.h"

namespace penstock::tool {

/// Collects a PipelineSpec from a subcommand's flags. Stages apply in the order of their flags. The
/// object must outlive the parse.
///
///     PipelineFlags flags(app);      // adds the flags
///     app.parse(argc, argv);         // may throw UsageError, naming the flag
///     PipelineSpec spec = flags.finish();
class PipelineFlags {
 public:
  using FindSource = Settings (*)(const std::vector<std::string>& paths, bool hidden);

  /// `default_seed` describes a run without --seed in the help. `find`, if given, makes the source
  /// for paths without a flag.
  explicit PipelineFlags(CLI::App& app,
                         const std::string& default_seed = "default: drawn, and printed",
                         FindSource find = nullptr);
  PipelineFlags(const PipelineFlags&) = delete;
  PipelineFlags& operator=(const PipelineFlags&) = delete;

  /// Returns the description. Throws UsageError if flags do not fit together or if there is no
  /// source.
  PipelineSpec finish();

 private:
  void add_sources(CLI::App& app);
  void add_source_options(CLI::App& app);
  void add_stages(CLI::App& app);
  void add_run(CLI::App& app, const std::string& default_seed);
  void set_source(const Kind& kind, const std::vector<std::string>& values);
  void apply_source_options();
  /// Sets a boolean of the last stage with that role, or else of the first one after the flag.
  void apply_to_stage(StageRole role, const std::string& parameter, std::size_t position,
                      const std::string& flag);

  /// A flag whose value is set once all sources and stages are known.
  struct Late {
    std::string flag;
    StageRole role;  ///< role of the stages it may apply to; unused for a source
    std::string parameter;
    std::string value;
    std::size_t position;  ///< number of stages before it
  };

  PipelineSpec spec_;
  std::string pipeline_file_;
  FindSource find_ = nullptr;
  std::vector<std::string> bare_paths_;
  std::vector<Late> source_options_;
  std::vector<Late> stage_options_;
};

}  // namespace penstock::tool
