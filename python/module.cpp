// The Python module penstock._core.
#include <algorithm>

#include <penstock/version.h>

#include "python/bindings.h"

namespace penstock::python {
namespace {

constexpr std::pair<std::string_view, const char*> kComments[] = {
#include "python/docstrings.inc"
};

}  // namespace

const char* doc(std::string_view name) {
  const auto* const found =
      std::ranges::lower_bound(kComments, name, {}, [](const auto& pair) { return pair.first; });
  if (found == std::end(kComments) || found->first != name)
    throw std::logic_error("no comment for " + std::string(name));
  return found->second;
}

}  // namespace penstock::python

NB_MODULE(_core, m) {
  using namespace penstock::python;
  nb::register_exception_translator([](const std::exception_ptr& exception, void*) {
    try {
      std::rethrow_exception(exception);
    } catch (const penstock::Error& error) {
      raise(error);
    }
  });
  nb::set_leak_warnings(false);  // objects of users may live until the interpreter ends
  m.attr("__version__") = penstock::version();
  bind_values(m);
  bind_datasets(m);
  bind_sources(m);
  bind_runs(m);
  bind_arrow(m);
  bind_feeds(m);
  nb::module_::import_("atexit").attr("register")(m.attr("_end_all"));
  nb::module_::import_("os").attr("register_at_fork")("after_in_child"_a = m.attr("_after_fork"));
}
