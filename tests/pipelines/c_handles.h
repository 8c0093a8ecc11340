// Handles of the C interface that close themselves, and its calls as verbs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/c.h>

namespace penstock::test {

struct Close {
  void operator()(penstock_pipeline* handle) const { penstock_pipeline_close(handle); }
  void operator()(penstock_run* handle) const { penstock_run_close(handle); }
  void operator()(penstock_element* handle) const { penstock_element_close(handle); }
};
using PipelinePtr = std::unique_ptr<penstock_pipeline, Close>;
using RunPtr = std::unique_ptr<penstock_run, Close>;
using ElementPtr = std::unique_ptr<penstock_element, Close>;

inline std::string numbers(int stop, const std::string& more = "") {
  return "[source]\nkind = \"range\"\nstop = " + std::to_string(stop) +
         "\n[[stages]]\nkind = \"shuffle\"\n[[stages]]\nkind = \"batch\"\nsize = 4\n" + more;
}

inline PipelinePtr parse(const std::string& toml) {
  penstock_pipeline* pipeline = nullptr;
  EXPECT_EQ(penstock_pipeline_parse(toml.data(), toml.size(), nullptr, &pipeline), PENSTOCK_OK)
      << penstock_error();
  return PipelinePtr(pipeline);
}

inline RunPtr start(const PipelinePtr& pipeline, const std::string& state = "") {
  penstock_run* run = nullptr;
  EXPECT_EQ(penstock_run_start(pipeline.get(), state.empty() ? nullptr : state.data(), state.size(),
                               &run),
            PENSTOCK_OK)
      << penstock_error();
  return RunPtr(run);
}

/// Null unless the status is as expected.
inline ElementPtr next(const RunPtr& run, penstock_status expected = PENSTOCK_OK) {
  penstock_element* element = nullptr;
  EXPECT_EQ(penstock_run_next(run.get(), &element), expected) << penstock_error();
  EXPECT_EQ(element != nullptr, expected == PENSTOCK_OK);
  return ElementPtr(element);
}

inline penstock_column column_of(const ElementPtr& element, std::size_t index = 0) {
  penstock_column column{};
  EXPECT_EQ(penstock_element_column(element.get(), index, &column), PENSTOCK_OK);
  return column;
}

inline std::vector<std::int64_t> values_of(const ElementPtr& element) {
  const penstock_column column = column_of(element);
  const auto* const values = static_cast<const std::int64_t*>(column.data);
  return {values, values + column.shape[0]};
}

/// Of what is left of the epoch.
inline std::vector<std::int64_t> rest_of(const RunPtr& run) {
  std::vector<std::int64_t> all;
  penstock_element* element = nullptr;
  while (penstock_run_next(run.get(), &element) == PENSTOCK_OK) {
    const ElementPtr held(element);
    for (const std::int64_t value : values_of(held)) all.push_back(value);
  }
  return all;
}

inline std::string save(const RunPtr& run) {
  void* state = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(penstock_run_save(run.get(), &state, &size), PENSTOCK_OK) << penstock_error();
  std::string copy(static_cast<const char*>(state), size);
  penstock_free(state);
  return copy;
}

}  // namespace penstock::test
