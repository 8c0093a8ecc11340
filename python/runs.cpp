// Runs of datasets, and their reports.
#include "python/fields.h"

namespace penstock::python {
namespace {

constexpr std::chrono::milliseconds kSignals(50);  // between two looks for Ctrl-C

/// Where a run begins: at the start, at a state, or at those of all ranks.
using Begin = std::variant<std::monostate, Bytes, std::vector<Bytes>>;

/// A run and what it was begun with. The lock of the interpreter guards its members. Calls that
/// wait hold a reference to the iterator, so that another thread may close the run meanwhile.
class Run final : public Ending {
 public:
  /// Begins the run. The caller does not hold the lock.
  Run(Dataset dataset, RunOptions options, const Begin& at)
      : dataset_(std::move(dataset)),
        options_(std::move(options)),
        before_(lock_times()),
        iterator_(begin(at)) {}
  ~Run() override {
    forget();
    close();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Returns the next element, or nothing at the end of the epoch. Raises KeyboardInterrupt soon.
  std::optional<Element> next() {
    drop_given_up();
    const std::shared_ptr<Iterator> iterator = open();
    for (;;) {
      std::optional<Next> next = unlocked([&] { return iterator->next_within(kSignals); });
      if (!next) {
        check_signals();
        continue;
      }
      if (next->is_end()) return std::nullopt;
      if (next->is_error()) throw Error(next->error());
      return std::move(**next);
    }
  }

  /// Returns the next element of this epoch or of a later one.
  Element next_of_all() {
    for (;;) {
      if (std::optional<Element> element = next()) return std::move(*element);
      if (!next_epoch()) throw nb::stop_iteration();
    }
  }

  bool next_epoch() {
    const std::shared_ptr<Iterator> iterator = open();
    return without_lock([&] { return iterator->next_epoch(); });
  }

  std::string save() const {
    const std::shared_ptr<Iterator> iterator = open();
    return without_lock([&] { return iterator->save(); });
  }

  /// Continues from another state. A wrong one leaves the run where it is.
  void restore(Bytes state) {
    const Bytes here{save()};
    close();
    before_ = lock_times();
    try {
      iterator_ = without_lock([&] { return begin(std::move(state)); });
    } catch (const Error&) {
      iterator_ = without_lock([&] { return begin(here); });
      throw;
    }
  }

  void cancel() {
    if (iterator_) iterator_->cancel();
  }

  void close() override {
    if (!iterator_) return;
    std::exchange(iterator_, nullptr)->cancel();
    drop_given_up();
  }

  std::shared_ptr<Iterator> open() const {
    if (!iterator_) throw Error(ErrorCode::invalid_argument, "the iterator is closed");
    return iterator_;
  }
  const LockTimes& before() const { return before_; }

 private:
  std::shared_ptr<Iterator> begin(const Begin& at) const {
    refuse_at_end();
    std::unique_ptr<Iterator> iterator;
    if (const auto* const one = std::get_if<Bytes>(&at)) {
      iterator =
          std::make_unique<Iterator>(dataset_.restore(std::string_view(one->value), options_));
    } else if (const auto* const many = std::get_if<std::vector<Bytes>>(&at)) {
      std::vector<std::string> states;
      for (const Bytes& state : *many) states.push_back(state.value);
      iterator = std::make_unique<Iterator>(dataset_.restore(states, options_));
    } else {
      iterator = std::make_unique<Iterator>(dataset_.iterate(options_));
    }
    return {iterator.release(), destroy};
  }

  // The end of a run waits for functions of Python, which need the lock.
  static void destroy(Iterator* iterator) {
    if (PyGILState_Check() == 0) return delete iterator;
    unlocked([&] { delete iterator; });
  }

  const Dataset dataset_;
  const RunOptions options_;
  LockTimes before_;
  std::shared_ptr<Iterator> iterator_;
};

/// Defines a method of Dataset with the options of a run as keyword arguments.
template <typename... Before, typename F, typename... Names>
void def_run(nb::class_<Dataset>& type, const char* name, const char* text, const F& f,
             const Names&... names) {
  with_options<RunArguments>(
      Types<const Dataset&>(), Types<Before...>(),
      [f](const Dataset& in, auto&&... values) {
        auto& arguments = std::get<sizeof...(values) - 1>(std::tie(values...));
        arguments.workers.addresses = std::move(arguments.addresses);
        return f(in, std::move(values)...);
      },
      [&](const auto& function, const auto&... options) {
        type.def(name, function, names..., options..., text);
      });
}

PythonReport report_of(const Run& run) {
  const std::shared_ptr<Iterator> iterator = run.open();
  Report result = unlocked([&] { return report(*iterator); });
  return with_lock(std::move(result), iterator->stats(), run.before());
}

nb::bytes state_of(const Run& run) {
  const std::string state = run.save();
  return nb::bytes(state.data(), state.size());
}

}  // namespace

PythonReport with_lock(Report report, const Stats& stats, const LockTimes& before) {
  PythonReport result{std::move(report), lock_times(), {}};
  result.lock.calls -= before.calls;
  result.lock.waited_ns -= before.waited_ns;
  result.lock.held_ns -= before.held_ns;
  const double threads = std::max(1, stats.threads);
  const double waited_s = static_cast<double>(result.lock.waited_ns) * 1e-9,
               held_s = static_cast<double>(result.lock.held_ns) * 1e-9;
  // Without the lock, the threads that waited would have called their functions at the same time.
  const double wall_s = std::max(stats.wall_s - waited_s / threads, held_s / threads);
  if (wall_s > 0 && stats.wall_s > 1.1 * wall_s) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "Python's lock limits the run: functions held it for %.1f s of %.1f s, and "
                  "threads waited %.1f s for it. Without it, the run "
                  "would be %.1f times as fast.\n",
                  held_s, stats.wall_s, waited_s, stats.wall_s / wall_s);
    result.warning = text;
  }
  return result;
}

void bind_runs(nb::module_& m) {
  nb::class_<PythonReport>(m, "Report", doc("Report"))
      .def_prop_ro(
          "text", [](const PythonReport& r) { return r.warning + r.report.text; },
          doc("Report::text"))
      .def_prop_ro(
          "json", [](const PythonReport& r) { return r.report.json; }, doc("Report::json"))
      .def_prop_ro(
          "verdict", [](const PythonReport& r) { return r.report.verdict.text; },
          doc("Verdict::text"))
      .def_prop_ro(
          "lock",
          [](const PythonReport& r) {
            nb::dict lock;
            lock["calls"] = r.lock.calls;
            lock["held_s"] = static_cast<double>(r.lock.held_ns) * 1e-9;
            lock["waited_s"] = static_cast<double>(r.lock.waited_ns) * 1e-9;
            lock["warning"] = r.warning;
            return lock;
          },
          "Calls of Python functions during the run, and seconds that they held and waited for the "
          "interpreter's lock.")
      .def("__str__", [](const PythonReport& r) { return r.warning + r.report.text; });

  const auto restore = [](Run& run, const nb::bytes& state) {
    run.restore(Given<Bytes>::take(state));
  };
  nb::class_<Run>(m, "Iterator", doc("Iterator"))
      .def(
          "__iter__", [](nb::object self) { return self; },
          nb::sig("def __iter__(self) -> Iterator"))
      .def("__next__", &Run::next_of_all,
           "Returns the next element of this epoch or of a later one, and waits for it.")
      .def("next", &Run::next, doc("Iterator::next"))
      .def("next_epoch", &Run::next_epoch, doc("Iterator::next_epoch"))
      .def_prop_ro(
          "epoch", [](const Run& run) { return run.open()->epoch(); }, doc("Iterator::epoch"))
      .def("state", state_of, doc("Iterator::save"))
      .def("restore", restore, "state"_a,
           "Continues where `state` was saved, with the options of this run.")
      .def("get_state", state_of, "Returns `state()`, as iterators of Grain do.")
      .def("set_state", restore, "state"_a, "Calls `restore`, as for iterators of Grain.")
      .def(
          "state_dict",
          [](const Run& run) {
            nb::dict dict;
            dict["penstock"] = state_of(run);
            return dict;
          },
          "Returns `state()` in a dict, as torchdata's StatefulDataLoader does.")
      .def(
          "load_state_dict",
          [restore](Run& run, const nb::dict& dict) {
            if (!dict.contains("penstock"))
              throw Error(ErrorCode::invalid_argument, "this is no result of state_dict");
            restore(run, nb::cast<nb::bytes>(dict["penstock"]));
          },
          "state_dict"_a, "Calls `restore` with what `state_dict` returned.")
      .def("report", report_of, doc("report"))
      .def("cancel", &Run::cancel, doc("Iterator::cancel"))
      .def("close", &Run::close,
           "Ends the run and its threads. Elements that were delivered stay valid.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Iterator"))
      .def("__exit__", [](Run& run, nb::args) { run.close(); });
  m.def("_end_all", end_all);
  m.def("_after_fork", after_fork);

  auto type = nb::borrow<nb::class_<Dataset>>(m.attr("Dataset"));
  def_run<>(type, "iterate", doc("Dataset::iterate"), [](const Dataset& in, RunOptions options) {
    return std::make_unique<Run>(in, std::move(options), Begin());
  });
  def_run<Bytes>(
      type, "restore", doc("Dataset::restore"),
      [](const Dataset& in, Bytes state, RunOptions options) {
        return std::make_unique<Run>(in, std::move(options), std::move(state));
      },
      "state"_a);
  def_run<std::vector<Bytes>>(
      type, "restore", doc("Dataset::restore#2"),
      [](const Dataset& in, std::vector<Bytes> states, RunOptions options) {
        return std::make_unique<Run>(in, std::move(options), states);
      },
      "states"_a);
  def_run<>(type, "explain", doc("Dataset::explain"),
            [](const Dataset& in, RunOptions options) { return in.explain(options); });
  type.def(
      "__iter__",
      [](const Dataset& in) {
        return unlocked([&] { return std::make_unique<Run>(in, RunOptions(), Begin()); });
      },
      "Starts a run with the defaults: one epoch.");
  nb::class_<Pipeline>(m, "Pipeline", doc("Pipeline"))
      .def_prop_ro(
          "dataset", [](const Pipeline& p) { return p.dataset; }, doc("Pipeline::dataset"))
      .def(
          "iterate",
          [](const Pipeline& p) {
            return unlocked([&] { return std::make_unique<Run>(p.dataset, p.options, Begin()); });
          },
          "Starts a run with the settings of [run].");
  m.def(
      "read_pipeline",
      [](const std::filesystem::path& path) {
        return unlocked([&] { return read_pipeline(path.string()); });
      },
      "path"_a, doc("read_pipeline"));
  m.def(
      "save_state",
      [](const std::filesystem::path& path, const nb::bytes& state) {
        const Bytes bytes = Given<Bytes>::take(state);
        unlocked([&] { save_state(path.string(), bytes.value); });
      },
      "path"_a, "state"_a, doc("save_state"));
  m.def(
      "load_state",
      [](const std::filesystem::path& path) -> std::optional<nb::bytes> {
        std::optional<std::string> state = unlocked([&] { return load_state(path.string()); });
        if (!state) return std::nullopt;
        // The program writes figures of its own in front of the run's state.
        if (const std::size_t begin = state->find("penstock state "); begin != state->npos)
          state->erase(0, begin);
        return nb::bytes(state->data(), state->size());
      },
      "path"_a, doc("load_state"));
  m.def(
      "parse_pipeline",
      [](const std::string& toml) { return unlocked([&] { return parse_pipeline(toml); }); },
      "toml"_a, doc("parse_pipeline"));
}

}  // namespace penstock::python
