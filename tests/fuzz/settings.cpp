// Pipelines as TOML.
#include "pipelines/pipeline_spec.h"
#include "pipelines/usage_error.h"
#include "tests/fuzz/support.h"

namespace penstock::fuzz {

void run_toml(Bytes bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    const std::string once = tool::to_toml(tool::pipeline_from_toml(text, "p.toml"));
    require(tool::to_toml(tool::pipeline_from_toml(once, "p.toml")) == once,
            "what was written is read as something else");
  } catch (const tool::UsageError& error) {
    require(std::string_view(error.what()).find("p.toml") != std::string_view::npos,
            "an error without an address");
  }
}

std::vector<std::string> toml_seeds() {
  const std::string source = "[source]\nkind = \"tar\"\npaths = [\"a-*.tar\", 'b.tar']\n";
  return {"",
          source,
          source +
              "[[stages]]\nkind = \"shuffle\"\nbuffer = 1000\nseed = 3\n[[stages]]\nkind = "
              "\"random_resized_crop\"\nsize = 224\nmin_scale = 0.25\n",
          source +
              "[[stages]]\nkind = \"resize\"\nsize = \"100x200\"\n[run]\nepochs = 3\nmemory = "
              "\"96MiB\"\non_error = \"skip\"\nmax_errors = \"1%\"\n",
          "source.kind = 'range'\nsource.stop = 0x10\nstages = [{kind = 'batch', size = 8}]\n",
          "[source]\nkind = 'range'\nstop = 1e999\n# nan inf 1979-05-27T07:32:00Z\n",
          "x = [[[[[[{a.b.c = \"\\u00e9\\\"\"}]]]]]]\n"};
}

}  // namespace penstock::fuzz
