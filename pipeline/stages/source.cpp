#include "pipeline/stages/source.h"

#include <chrono>

#include "pipeline/stage/support.h"

namespace penstock {
namespace {

class IndexedSourceIterator final : public IndexedIterator {
 public:
  IndexedSourceIterator(std::uint64_t size, ProgramPtr program, std::uint64_t path)
      : size_(size), program_(std::move(program)), path_(path) {}

  std::optional<std::uint64_t> size() const override { return size_; }
  ProgramPtr* common_program() noexcept override { return &program_; }
  void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out) override {
    const ProgramPtr program = program_;
    const std::uint64_t path = path_;
    const std::uint64_t* position = positions.data();
    for (ElementRef& item : out.first(positions.size())) {
      item.index = *position++;
      item.ordinal = path == 0 ? item.index : mix_path(path, item.index);
      if (!(item.program == program)) item.program = program;  // rarely needed, as items are reused
      if (item.payload) item.payload = {};
    }
  }

 private:
  std::uint64_t size_;
  ProgramPtr program_;
  std::uint64_t path_;
};

class StreamIterator final : public OrderIterator {
 public:
  StreamIterator(SourcePtr source, const OpenContext& context, std::string stage,
                 StageCounters* counters)
      : source_(std::move(source)),
        stream_(source_->stream()),
        context_(context),
        stage_(std::move(stage)),
        counters_(counters) {}

  std::size_t pull(std::span<ElementRef> out) override {
    // A slow stream delivers the available records: none is held back to fill a block.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    std::size_t count = 0;
    while (count < out.size() && !ended_) {
      context_.run.check_stop();
      WorkItem item;
      try {
        ended_ = !stream_->next(item, context_.run.stream_memory());
      } catch (...) {
        item.status = status_from_current_exception();
      }
      if (ended_) break;
      const std::uint64_t ordinal =
          context_.path == 0 ? position_ : mix_path(context_.path, position_);
      ++position_;
      if (item.status.ok()) {
        add_counters(counters_, 1, payload_bytes(item.element));
        Ref<Payload> payload = Payload::make(std::move(item.element));
        remember(stream_->locate(), *payload);
        out[count++] = ref_to(std::move(payload), ordinal);
      } else {
        out[count++] = ref_to(
            Payload::make(locate(std::move(item.status), stream_->locate(), stage_)), ordinal);
      }
      if (std::chrono::steady_clock::now() > deadline) break;
    }
    return count;
  }

  void save(StateWriter& state) const override { state.put(position_); }
  void restore(StateReader& state) override {
    position_ = state.get();
    stream_->skip(position_, context_.run.stream_memory());
  }

 private:
  /// Notes the record's place. Records of one shard share the shard's name.
  void remember(const Provenance& where, Payload& payload) {
    if (!shard_ || *shard_ != where.shard)
      shard_ = std::make_shared<const std::string>(where.shard);
    payload.shard = shard_;
    payload.offset = where.offset;
    payload.index = where.index < 0 ? position_ - 1 : static_cast<std::uint64_t>(where.index);
  }

  SourcePtr source_;
  std::unique_ptr<RecordStream> stream_;
  std::shared_ptr<const std::string> shard_;
  OpenContext context_;
  std::string stage_;
  StageCounters* counters_;
  std::uint64_t position_ = 0;
  bool ended_ = false;
};

class SourceNode final : public Node {
 public:
  explicit SourceNode(SourcePtr source)
      : Node({}, source->spec(),
             source->size() ? static_cast<std::int64_t>(*source->size())
                            : source->stream_cardinality()),
        source_(std::move(source)) {}

  std::string name() const override { return source_->name(); }
  void describe(Description& description) const override { source_->describe(description); }
  bool deterministic() const override { return source_->deterministic(); }
  /// A stream is read again from its start.
  Resume find_resume() const override { return source_->size() ? Resume::position : Resume::work; }
  Pending find_pending() const override {
    return source_->size() ? Pending::infallible : Pending::none;
  }
  std::optional<std::uint64_t> find_indexed_size() const override { return source_->size(); }

  std::unique_ptr<Program> first_program(RunServices& run) const override {
    if (!source_->size()) return nullptr;
    return std::make_unique<Program>(source_, run.counters(*this), run.stage_name(*this),
                                     fixed_payload_bytes(spec()));
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    if (!source_->size()) {
      return std::make_unique<StreamIterator>(source_, context, context.run.stage_name(*this),
                                              context.run.counters(*this));
    }
    return std::make_unique<IndexedSourceIterator>(*source_->size(),
                                                   own_first_program(context, *this), context.path);
  }

  SourcePtr source() const override { return source_; }

 private:
  SourcePtr source_;
};

}  // namespace

NodePtr make_source(SourcePtr source) {
  if (!source) bad_stage("source", "no source was given");
  return std::make_shared<SourceNode>(std::move(source));
}

}  // namespace penstock
