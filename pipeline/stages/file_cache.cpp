#include "pipeline/stages/file_cache.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include <sys/stat.h>

#include <penstock/log.h>

#include "pipeline/stage/fingerprint.h"
#include "pipeline/stage/support.h"
#include "pipeline/stages/cache.h"
#include "pipeline/stages/cache_file.h"
#include "pipeline/stages/values.h"

namespace penstock {
namespace {

/// The properties of one cache in one run.
struct FileCachePlan {
  std::string path;
  CacheKey key;
  const Spec& spec;
  std::shared_ptr<CacheStore> store;
  std::function<OrderIteratorPtr(bool counted)> open_input;
  std::function<ProgramPtr(const std::shared_ptr<const CacheFileSource>&)> read_file;
  std::string stage;
  std::function<void(const std::string& marks)> rebuilt;  // says that a file is of other data
  std::optional<std::uint64_t> repetition;  // path of this repetition, unless it is the first

  std::shared_ptr<const CacheFileSource> open() const {
    return CacheFileSource::open(path, key, spec, rebuilt);
  }
};

class FileCacheIterator final : public OrderIterator {
 public:
  explicit FileCacheIterator(FileCachePlan plan) : plan_(std::move(plan)) {
    CacheStore& store = *plan_.store;
    const MutexLock lock(store.mutex);
    std::shared_ptr<const CacheFileSource> complete = store.file;
    located([&] {
      if (!complete) complete = plan_.open();
      if (complete) replay_from(complete, 0);
    });
    store.file = std::move(complete);
    if (!file_ && !store.filling) start_writing();
    if (!file_) input_ = plan_.open_input(true);
    // Last, because nothing would reset it if the constructor threw after that.
    store.filling = store.filling || writer_;
  }

  ~FileCacheIterator() override {
    if (!writer_) return;
    const bool partial = writer_->count() > 0;
    stop_filling();
    if (partial) {
      log_once(LogLevel::warning, "cache.partial",
               "cache: the input was not read to its end, so nothing was kept; if only a part is "
               "wanted, use take(k).cache().repeat()");
    }
  }

  std::size_t pull(std::span<ElementRef> out) override {
    if (file_) return replay(out);
    const std::size_t count = input_->pull(out);
    for (ElementRef& item : out.first(count)) {
      // An element that lacked memory would be missing in every later pass.
      if (writer_ && run_error(item) != nullptr) stop_filling();
      if (is_error(item)) continue;
      if (writer_) {
        keep([&] { writer_->add(item.payload->element, item.ordinal, origin_of(item)); });
      }
      item.ordinal = ordinal_of(item.ordinal);
    }
    position_ += count;
    if (count == 0 && writer_) keep([&] { finish(); });
    return count;
  }

  // Elements are never saved: those that are not in a file yet are made again.
  void save(StateWriter& state) const override {
    state.put(file_ ? 1 : 0);
    state.put(position_);
  }
  void restore(StateReader& state) override {
    const bool replaying = state.get() != 0;
    const std::uint64_t position = state.get();
    if (!replaying) {
      // The file has appeared since then. It holds no errors, but these still have to come here.
      if (file_) {
        file_ = {};
        position_ = 0;
        input_ = plan_.open_input(true);
      }
      return discard(position);
    }
    if (!file_) {  // what this counted is counted elsewhere, as for a cache in memory
      input_.reset();
      input_ = plan_.open_input(false);
      discard_at_most(UINT64_MAX);
    }
    const MutexLock lock(plan_.store->mutex);
    if (!plan_.store->file) {
      throw Error(ErrorCode::data_loss, "the cache file of the state is gone",
                  Provenance{plan_.path, -1, -1, plan_.stage});
    }
    replay_from(plan_.store->file, position);
  }

 private:
  /// Runs `write`. If the cache cannot be written, because the disk is full, the run continues
  /// without it. Elements that would be replayed are then made again.
  template <typename F>
  void keep(F write) {
    try {
      located(write);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::resource_exhausted && error.code() != ErrorCode::unavailable) {
        throw;
      }
      stop_filling();
      say_unwritten(error);
    }
  }

  /// Works like `keep`. But if the file must not be written because another run is writing it, that
  /// is an error.
  void start_writing() {
    try {
      located([&] { writer_ = std::make_unique<CacheFileWriter>(plan_.path, plan_.key); });
    } catch (const Error& error) {
      if (error.code() != ErrorCode::resource_exhausted) throw;
      say_unwritten(error);
    }
  }

  static void say_unwritten(const Error& error) {
    log_once(LogLevel::warning, "cache.unwritten",
             "cache: " + std::string(error.what()) + "; continuing without the file");
  }

  template <typename F>
  void located(F act) const {
    try {
      act();
    } catch (...) {
      throw locate(status_from_current_exception(), {}, plan_.stage).error();
    }
  }

  void replay_from(std::shared_ptr<const CacheFileSource> file, std::uint64_t position) {
    input_.reset();
    program_ = plan_.read_file(file);
    file_ = std::move(file);
    position_ = std::min(position, *file_->size());
  }

  std::size_t replay(std::span<ElementRef> out) {
    const std::size_t count = std::min<std::uint64_t>(out.size(), *file_->size() - position_);
    for (std::size_t i = 0; i < count; ++i, ++position_) {
      out[i] = ElementRef{position_, ordinal_of(file_->ordinal(position_)), program_, {}};
    }
    return count;
  }

  /// Each repetition has its own random numbers.
  std::uint64_t ordinal_of(std::uint64_t kept) const noexcept {
    return plan_.repetition ? mix_path(*plan_.repetition, kept) : kept;
  }

  void finish() {
    writer_->commit();
    stop_filling();
    std::shared_ptr<const CacheFileSource> complete = plan_.open();
    const MutexLock lock(plan_.store->mutex);
    plan_.store->file = std::move(complete);
  }

  void stop_filling() noexcept {
    writer_.reset();
    const MutexLock lock(plan_.store->mutex);
    plan_.store->filling = false;
  }

  FileCachePlan plan_;
  OrderIteratorPtr input_;                       // null: replaying
  std::unique_ptr<CacheFileWriter> writer_;      // also null if another pass is writing
  std::shared_ptr<const CacheFileSource> file_;  // null: filling
  ProgramPtr program_;                           // reads the file
  std::uint64_t position_ = 0;
};

bool draws(const Node& node) {
  return node.seeded() ||
         std::ranges::any_of(node.inputs(), [](const NodePtr& input) { return draws(*input); });
}

class FileCacheNode final : public Node {
 public:
  FileCacheNode(const NodePtr& source, std::string file, bool snapshot)
      : Node({source}, source->spec(), source->cardinality()),
        file_(std::move(file)),
        snapshot_(snapshot) {}

  std::string name() const override { return snapshot_ ? "snapshot" : "cache"; }
  Resume find_resume() const override { return Resume::work; }
  // The file's path does not affect the output.
  void describe(Description& description) const override {
    if (!snapshot_) description.add("file", true);
  }
  Pending find_pending() const override { return Pending::fallible; }
  std::optional<BatchRows> find_batch_rows() const override { return input().batch_rows(); }
  // In a folder each graph has a file of its own. Without a folder there is only the named file.
  NodePtr over(NodePtr input) const override {
    return snapshot_ ? make_file_cache(std::move(input), file_, true) : nullptr;
  }
  bool wants_values(std::size_t) const override { return input().pending() != Pending::none; }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return inputs[0];
  }

  OrderIteratorPtr open(const OpenContext& context) const override {
    const Fingerprint graph(input(), !context.run.trust_data());
    StateWriter marks;
    graph.save(marks);
    const std::uint64_t digest = graph.digest();
    const CacheKey key{.graph = draws(input()) ? mix_path(digest, context.run.seed()) : digest,
                       .contents = graph.contents_digest(),
                       .marks = marks.take()};
    const std::string stage = context.run.stage_name(*this);
    const std::string path = path_of(key);
    FileCachePlan plan{path, key, spec(), context.run.cache(*this, context), {}, {}, stage, {}, {}};
    plan.rebuilt = [this, graph, path](const std::string& old) { say_rebuilt(path, graph, old); };
    if (snapshot_ && key.contents != 0 && !exists(path)) say_other_snapshots(key, plan);
    const StagePlace& place = plan.store->place;
    if (context.path != place.path) plan.repetition = context.path;
    plan.open_input = [this, first = context.first(place)](bool counted) {
      return open_values(*this, counted ? first : first.redone());
    };
    plan.read_file = [this, context, stage](const std::shared_ptr<const CacheFileSource>& file) {
      auto program = std::make_unique<Program>(file, context.run.counters(*this), stage,
                                               fixed_payload_bytes(spec()));
      return own_program(context, *this, nullptr, std::move(program));
    };
    return std::make_unique<FileCacheIterator>(std::move(plan));
  }

 private:
  static bool exists(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0;
  }

  std::string path_of(const CacheKey& key) const {
    if (!snapshot_) return file_;
    if (::mkdir(file_.c_str(), 0755) != 0 && errno != EEXIST) {
      throw error_from_errno(errno, "make the folder", file_);
    }
    std::array<char, 48> name{};
    const auto graph = static_cast<unsigned long long>(key.graph);
    if (key.contents != 0) {
      std::snprintf(name.data(), name.size(), "/%016llx-%016llx.cache", graph,
                    static_cast<unsigned long long>(key.contents));
      return file_ + name.data();
    }
    // Data that is trusted may have been read with its contents before.
    std::snprintf(name.data(), name.size(), "/%016llx.cache", graph);
    const std::string trusted = file_ + name.data();
    const std::vector<std::string> others = snapshots_of(key);
    return !exists(trusted) && others.size() == 1 ? others[0] : trusted;
  }

  /// Returns the snapshots of this graph over data with known contents.
  std::vector<std::string> snapshots_of(const CacheKey& key) const {
    std::array<char, 32> name{};
    std::snprintf(name.data(), name.size(), "%016llx-", static_cast<unsigned long long>(key.graph));
    std::vector<std::string> paths = default_file_system()->list(file_);
    std::erase_if(paths, [&](const std::string& path) {
      const std::string_view base = std::string_view(path).substr(path.rfind('/') + 1);
      return !base.starts_with(name.data()) || !base.ends_with(".cache");
    });
    return paths;
  }

  /// The folder keeps snapshots of other data under other names, so that runs over several data
  /// sets in turn replace nothing.
  void say_other_snapshots(const CacheKey& key, const FileCachePlan& plan) const {
    const std::vector<std::string> others = snapshots_of(key);
    if (others.empty()) return;
    try {
      (void)CacheFileSource::open(others.back(), key, spec(), plan.rebuilt);
    } catch (const Error&) {  // damaged, and not needed
    }
  }

  void say_rebuilt(const std::string& path, const Fingerprint& graph,
                   const std::string& old) const {
    StateReader marks(old);
    std::string other = graph.other_contents(marks);
    if (other.empty()) other = "the contents it was made from were not recorded";
    log(LogLevel::warning, name() + ": " + path + " was made from other data (" + other +
                               "), so it is made again; trust_data would use it");
  }

  std::string file_;
  bool snapshot_;
};

}  // namespace

NodePtr make_file_cache(NodePtr input, std::string file, bool snapshot) {
  if (file.empty()) bad_stage(snapshot ? "snapshot" : "cache", "no file was named");
  return std::make_shared<FileCacheNode>(input, std::move(file), snapshot);
}

}  // namespace penstock
