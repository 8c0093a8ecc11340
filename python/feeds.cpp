// Feeds: batches on devices, given to other libraries in the order of their streams.
#include <map>
#include <mutex>

#include <penstock/dlpack.h>

#include "python/fields.h"

namespace penstock::python {
namespace {

/// A stream of a device that the caller owns, by its number in DLPack. Wrappers are never
/// destroyed: tensors that hold a slot may outlive everything that is known of their stream here.
StreamView stream_of(const DevicePtr& device, std::intptr_t native) {
  static std::mutex& mutex = *new std::mutex;
  static auto& streams = *new std::map<std::pair<Device*, std::intptr_t>, Stream>;
  const std::lock_guard lock(mutex);
  const auto key = std::pair(device.get(), native);
  auto found = streams.find(key);
  if (found == streams.end()) {
    Stream stream = device->id().kind == DeviceKind::cuda
                        ? Stream::wrap(device, reinterpret_cast<void*>(native))
                        : Stream(device, "python");
    found = streams.emplace(key, std::move(stream)).first;
  }
  return found->second;
}

/// A batch on a device. The first export of a component decides for which stream the batch is.
class Lease {
 public:
  Lease(StagedBatch batch, DevicePtr device, std::shared_ptr<const Spec> spec)
      : batch_(std::move(batch)), device_(std::move(device)), spec_(std::move(spec)) {
    for (std::size_t i = 0; i < batch_.size(); ++i) tensors_.push_back(batch_.at(i));
    valid_rows_ = batch_.valid_rows();
  }

  const DevicePtr& device() const { return device_; }
  const Spec& spec() const { return *spec_; }
  const DeviceTensor& tensor(std::size_t i) const { return tensors_.at(i); }
  std::int64_t valid_rows() const { return valid_rows_; }

  /// Returns the batch for a stream. Waits for a host's copy; the caller does not hold the lock.
  const ExportedBatch& exported(std::optional<std::intptr_t> stream) {
    const bool host = device_->id().kind == DeviceKind::host;
    // 1 is CUDA's default stream. -1 asks for no order, but the slot's next use needs one.
    const std::intptr_t native = host ? 0 : stream.value_or(1) < 0 ? 1 : stream.value_or(1);
    const std::lock_guard lock(mutex_);
    if (!exported_) {
      if (host) batch_.synchronize();
      exported_.emplace(std::move(batch_), stream_of(device_, native));
      native_ = native;
    }
    if (native != native_)
      throw Error(ErrorCode::invalid_argument, "the batch was given to another stream before");
    return *exported_;
  }

 private:
  std::mutex mutex_;
  StagedBatch batch_;
  const DevicePtr device_;
  const std::shared_ptr<const Spec> spec_;
  std::vector<DeviceTensor> tensors_;
  std::int64_t valid_rows_ = 0;
  std::optional<ExportedBatch> exported_;
  std::intptr_t native_ = 0;
};

/// A component of a batch on a device.
struct Component {
  std::shared_ptr<Lease> lease;
  std::size_t index;

  const DeviceTensor& tensor() const { return lease->tensor(index); }
  const std::string& name() const { return lease->spec()[index].name; }
};

Component component_of(const std::shared_ptr<Lease>& lease, const std::string& name) {
  const int found = lease->spec().find(name);
  if (found < 0) throw nb::key_error((name + ": there are " + lease->spec().to_string()).c_str());
  return {lease, static_cast<std::size_t>(found)};
}

/// A feed, and what its batches are made of.
class Towers final : public Ending {
 public:
  Towers(const Dataset& dataset, const std::vector<DevicePtr>& devices, FeedOptions options,
         const std::optional<Bytes>& state)
      : devices_(devices),
        spec_(std::make_shared<Spec>(dataset.spec())),
        before_((refuse_at_end(), lock_times())),
        feed_(new Feed(state ? Feed::restore(state->value, dataset, devices, std::move(options))
                             : Feed(dataset, devices, std::move(options))),
              destroy) {}
  ~Towers() override { forget(); }
  Towers(const Towers&) = delete;
  Towers& operator=(const Towers&) = delete;

  std::shared_ptr<Lease> next(int tower) {
    drop_given_up();
    const std::shared_ptr<Feed> feed = open();
    std::optional<StagedBatch> batch = unlocked([&] {
      return feed->next(tower, [] {
        const nb::gil_scoped_acquire locked;
        check_signals();
      });
    });
    if (!batch) return nullptr;
    return std::make_shared<Lease>(std::move(*batch), devices_[static_cast<std::size_t>(tower)],
                                   spec_);
  }
  /// Returns the next batch of this epoch or of a later one.
  std::shared_ptr<Lease> next_of_all() {
    if (open()->towers() > 1) throw nb::type_error("the feed has several towers: call next(tower)");
    for (;;) {
      if (std::shared_ptr<Lease> lease = next(0)) return lease;
      if (open()->ended(0)) throw nb::stop_iteration();
    }
  }
  PythonReport report() const {
    const std::shared_ptr<Feed> feed = open();
    Report result = unlocked([&] { return penstock::report(*feed); });
    return with_lock(std::move(result), unlocked([&] { return feed->stats(); }).run, before_);
  }
  std::shared_ptr<Feed> open() const {
    if (feed_ == nullptr) throw Error(ErrorCode::invalid_argument, "the feed is closed");
    return feed_;
  }
  void close() override {
    if (feed_ != nullptr) std::exchange(feed_, nullptr)->cancel();
  }

 private:
  // The end of a feed waits for functions of Python, which need the lock.
  static void destroy(Feed* feed) {
    if (PyGILState_Check() == 0) return delete feed;
    unlocked([&] { delete feed; });
  }

  const std::vector<DevicePtr> devices_;
  const std::shared_ptr<const Spec> spec_;
  const LockTimes before_;
  std::shared_ptr<Feed> feed_;
};

}  // namespace

void bind_feeds(nb::module_& m) {
  nb::class_<Component>(m, "DeviceTensor", doc("DeviceTensor"))
      .def_prop_ro(
          "dtype", [](const Component& c) { return name_of(c.tensor().dtype); },
          doc("DeviceTensor::dtype"))
      .def_prop_ro(
          "shape", [](const Component& c) { return shape_tuple(c.tensor().shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"), doc("DeviceTensor::shape"))
      .def("__dlpack_device__",
           [](const Component& c) {
             const DeviceId id = c.lease->device()->id();
             return std::pair(id.kind == DeviceKind::host ? int{dlpack::kCpu} : int{dlpack::kCuda},
                              id.kind == DeviceKind::host ? 0 : id.index);
           })
      .def(
          "__dlpack__",
          [](const Component& c, std::optional<std::intptr_t> stream,
             std::optional<std::pair<int, int>> max_version, nb::handle, nb::handle) {
            const ExportedBatch& batch =
                unlocked([&]() -> const ExportedBatch& { return c.lease->exported(stream); });
            return max_version && max_version->first >= 1
                       ? dlpack_capsule(batch.versioned(c.name()))
                       : dlpack_capsule(batch.tensor(c.name()));
          },
          nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(),
          "dl_device"_a = nb::none(), "copy"_a = nb::none(),
          "Gives the values to another library without a copy. Work that `stream` gets later waits "
          "for the batch; other streams may not take it.");
  nb::class_<Lease>(m, "StagedBatch", doc("StagedBatch"))
      .def_prop_ro("valid_rows", &Lease::valid_rows, doc("StagedBatch::valid_rows"))
      .def_prop_ro(
          "device", [](const Lease& lease) { return lease.device()->id().to_string(); },
          "The device that has the batch: \"cuda:0\".")
      .def("__getitem__", component_of, "name"_a)
      .def("__len__", [](const Lease& lease) { return lease.spec().size(); })
      .def("__contains__",
           [](const Lease& lease, const std::string& name) { return lease.spec().find(name) >= 0; })
      .def("keys",
           [](const Lease& lease) {
             std::vector<std::string> names;
             for (const ComponentSpec& component : lease.spec()) names.push_back(component.name);
             return names;
           })
      .def(
          "__iter__", [](nb::handle self) { return nb::iter(self.attr("keys")()); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"));
  nb::class_<Towers> type(m, "Feed", doc("Feed"));
  with_options<FeedArguments>(
      Types<>(), Types<Dataset, std::string, std::optional<Bytes>>(),
      [](const Dataset& dataset, const std::string& list, const std::optional<Bytes>& state,
         FeedArguments arguments) {
        FeedOptions options = arguments;
        options.run = arguments;
        options.run.workers.addresses = std::move(arguments.addresses);
        return std::make_shared<Towers>(dataset, devices(list), std::move(options), state);
      },
      [&](const auto& function, const auto&... options) {
        type.def(nb::new_(function), "dataset"_a, "devices"_a, "state"_a = nb::none(), options...);
      });
  type.def("next", &Towers::next, "tower"_a = 0, doc("Feed::next"))
      .def(
          "ended", [](Towers& t, int tower) { return t.open()->ended(tower); }, "tower"_a = 0,
          doc("Feed::ended"))
      .def(
          "towers", [](Towers& t) { return t.open()->towers(); }, doc("Feed::towers"))
      .def(
          "state",
          [](Towers& t) {
            const std::string state = unlocked([&] { return t.open()->save(); });
            return nb::bytes(state.data(), state.size());
          },
          doc("Feed::save"))
      .def(
          "cancel", [](Towers& t) { t.open()->cancel(); }, doc("Feed::cancel"))
      .def("close", &Towers::close,
           "Ends the feed and its threads. Batches that were taken stay valid.")
      .def("report", &Towers::report, doc("report#2"))
      .def(
          "__iter__", [](nb::object self) { return self; }, nb::sig("def __iter__(self) -> Feed"))
      .def("__next__", &Towers::next_of_all,
           "Returns the next batch of this epoch or of a later one, and waits for it. Raises "
           "TypeError for a feed of several towers.")
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Feed"))
      .def("__exit__", [](Towers& towers, nb::args) { towers.close(); });
}

}  // namespace penstock::python
