#include <memory>
#include <utility>

#include "pipelines/c/handles.h"

namespace {

using penstock::Next;
using penstock::Pipeline;
using penstock::c::failed;
using penstock::c::guarded;
using penstock::c::require;

}  // namespace

penstock_status penstock_pipeline_parse(const char* toml, size_t size, const char* name,
                                        penstock_pipeline** pipeline) {
  return guarded([&] {
    require(pipeline, "pipeline") = nullptr;
    const std::string text(&require(toml, "toml"), size);
    Pipeline parsed = penstock::parse_pipeline(text, name == nullptr ? "pipeline" : name);
    *pipeline = new penstock_pipeline{std::move(parsed)};
    return PENSTOCK_OK;
  });
}

penstock_status penstock_pipeline_read(const char* path, penstock_pipeline** pipeline) {
  return guarded([&] {
    require(pipeline, "pipeline") = nullptr;
    *pipeline = new penstock_pipeline{penstock::read_pipeline(&require(path, "path"))};
    return PENSTOCK_OK;
  });
}

void penstock_pipeline_close(penstock_pipeline* pipeline) {
  delete pipeline;
}

penstock_status penstock_run_start(const penstock_pipeline* pipeline, const void* state,
                                   size_t state_size, penstock_run** run) {
  return guarded([&] {
    require(run, "run") = nullptr;
    const Pipeline& from = require(pipeline, "pipeline").value;
    const std::string_view saved(static_cast<const char*>(state),
                                 state == nullptr ? 0 : state_size);
    *run = new penstock_run{state == nullptr ? from.dataset.iterate(from.options)
                                             : from.dataset.restore(saved, from.options)};
    return PENSTOCK_OK;
  });
}

penstock_status penstock_run_next(penstock_run* run, penstock_element** element) {
  return guarded([&] {
    require(element, "element") = nullptr;
    require(run, "run");
    // Allocates before it takes the element. Otherwise a lack of memory would lose the element.
    auto place = std::make_unique<penstock_element>();
    Next next = run->value.next();
    if (next.is_end()) return PENSTOCK_END;
    if (next.is_error()) return failed(next.error());
    place->value = std::move(*next);
    *element = place.release();
    return PENSTOCK_OK;
  });
}

penstock_status penstock_run_next_epoch(penstock_run* run) {
  return guarded(
      [&] { return require(run, "run").value.next_epoch() ? PENSTOCK_OK : PENSTOCK_END; });
}

uint64_t penstock_run_epoch(const penstock_run* run) {
  return run == nullptr ? 0 : run->value.epoch();
}

penstock_status penstock_run_save(const penstock_run* run, void** state, size_t* state_size) {
  return penstock::c::save_for_caller(run, state, state_size);
}

penstock_status penstock_run_report(const penstock_run* run, char** json) {
  return penstock::c::report_for_caller(run, json);
}

void penstock_run_cancel(penstock_run* run) {
  if (run != nullptr) run->value.cancel();
}

void penstock_run_close(penstock_run* run) {
  delete run;
}
