// What order stages move: references to elements that need not exist yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/element.h>
#include <penstock/error.h>
#include <penstock/work.h>

namespace penstock {

class StageCounters;
class Payload;

/// Makes one element of several: a tuple of its inputs, a batch of its rows. Immutable and
/// thread-safe.
class GatherOp {
 public:
  virtual ~GatherOp() = default;
  /// Sets `out.element`, or `out.status` and in `out.index` which child is to blame. The children
  /// hold values; a child that failed has failed `out` before.
  virtual void gather(std::span<WorkItem> children, WorkItem& out, WorkContext& context) const = 0;
};

/// How an item becomes a value: a record of a source, or the children of its payload gathered, or
/// what its payload holds; then the ops of the chain. Immutable. The programs of a plan live as
/// long as its run; those of nested datasets are counted.
class Program {
 public:
  struct Step {
    WorkOpPtr op;
    std::uint32_t rng_op = 0;  // which op it is for the random numbers
    StageCounters* counters = nullptr;
    std::string stage;              // "map[2] decode"
    std::int64_t fixed_bytes = -1;  // of one result, if all are alike
    Spec spec{};                    // of a result
    const Names* names = nullptr;   // its components
  };

  /// A record of a source.
  Program(SourcePtr record_source, StageCounters* counters, std::string stage,
          std::int64_t fixed_bytes)
      : source_(std::move(record_source)),
        leaf_counters_(counters),
        leaf_stage_(std::move(stage)),
        leaf_fixed_bytes_(fixed_bytes),
        columnar_(source_->columnar()),
        textual_(source_->textual()) {
    if (columnar_) leaf_spec_ = source_->spec();
    leaf_names_ = leaf_spec_.names();
  }
  /// The children of the item's payload, gathered.
  Program(std::shared_ptr<const GatherOp> gather, StageCounters* counters, std::string stage)
      : gather_(std::move(gather)), leaf_counters_(counters), leaf_stage_(std::move(stage)) {}
  /// One more op behind `parent`; a null parent starts from the payload.
  Program(const Program* parent, Step step) {
    if (parent != nullptr) {
      source_ = parent->source_;
      gather_ = parent->gather_;
      leaf_counters_ = parent->leaf_counters_;
      leaf_stage_ = parent->leaf_stage_;
      leaf_fixed_bytes_ = parent->leaf_fixed_bytes_;
      steps_ = parent->steps_;
      leaf_spec_ = parent->leaf_spec_;
      leaf_names_ = parent->leaf_names_;
      columnar_ = parent->columnar_;
    }
    steps_.push_back(std::move(step));
    columnar_ = columnar_ && steps_.back().op->columnar() && steps_.back().spec.is_fixed_size() &&
                steps_.back().spec.size() > 0;
    if (columnar_) steps_.back().names = steps_.back().spec.names();
  }

  const Source* source() const noexcept { return source_.get(); }
  const GatherOp* gather() const noexcept { return gather_.get(); }
  StageCounters* leaf_counters() const noexcept { return leaf_counters_; }
  const std::string& leaf_stage() const noexcept { return leaf_stage_; }
  std::int64_t leaf_fixed_bytes() const noexcept { return leaf_fixed_bytes_; }
  const std::vector<Step>& steps() const noexcept { return steps_; }
  bool reads_block() const noexcept { return source_ != nullptr && source_->blocking(); }
  bool ops_block() const noexcept {
    for (const Step& step : steps_) {
      if (step.op->blocking()) return true;
    }
    return false;
  }

  /// True if the source and all ops take many elements at a time.
  bool columnar() const noexcept { return columnar_; }
  /// True if elements are what the source reads, a byte string each.
  bool textual() const noexcept { return textual_; }
  /// What a columnar source gives.
  const Spec& leaf_spec() const noexcept { return leaf_spec_; }
  const Names* leaf_names() const noexcept { return leaf_names_; }

  void add_ref() const noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  /// The owner keeps the program alive for the whole run, so that items need not count. Before the
  /// first reference is made.
  void make_immortal() noexcept { immortal_ = true; }
  bool immortal() const noexcept { return immortal_; }

 private:
  SourcePtr source_;
  std::shared_ptr<const GatherOp> gather_;
  StageCounters* leaf_counters_ = nullptr;
  std::string leaf_stage_;
  std::int64_t leaf_fixed_bytes_ = -1;
  Spec leaf_spec_;
  const Names* leaf_names_ = nullptr;

  std::vector<Step> steps_;
  bool columnar_ = false;
  bool textual_ = false;
  bool immortal_ = false;
  mutable std::atomic<std::uint32_t> refs_{0};
};

/// A reference to a program, counted unless it is immortal: which of the two is known without a
/// look at the program, because references are made and dropped by the million.
class ProgramPtr {
 public:
  ProgramPtr() = default;
  explicit ProgramPtr(const Program* program) noexcept
      : bits_(reinterpret_cast<std::uintptr_t>(program)) {
    if (program == nullptr || program->immortal()) return;
    program->add_ref();
    bits_ |= kCounted;
  }
  ProgramPtr(const ProgramPtr& other) noexcept : bits_(other.bits_) {
    if (counted()) get()->add_ref();
  }
  ProgramPtr(ProgramPtr&& other) noexcept : bits_(std::exchange(other.bits_, 0)) {}
  ProgramPtr& operator=(ProgramPtr other) noexcept {
    std::swap(bits_, other.bits_);
    return *this;
  }
  ~ProgramPtr() {
    if (counted()) get()->release();
  }

  const Program* get() const noexcept {
    const std::uintptr_t pointer = bits_ & ~kCounted;
    return reinterpret_cast<const Program*>(pointer);  // NOLINT(performance-no-int-to-ptr): tagged
  }
  const Program* operator->() const noexcept { return get(); }
  const Program& operator*() const noexcept { return *get(); }
  explicit operator bool() const noexcept { return bits_ != 0; }
  friend bool operator==(const ProgramPtr& a, const ProgramPtr& b) noexcept {
    return a.bits_ == b.bits_;
  }

 private:
  static constexpr std::uintptr_t kCounted = 1;
  bool counted() const noexcept { return (bits_ & kCounted) != 0; }

  std::uintptr_t bits_ = 0;  // the pointer, and whether this reference counts
};

/// A reference to one element: what it is made from, and how. 32 bytes; moving it is cheap.
struct ElementRef {
  std::uint64_t index = 0;    ///< the record, for programs with a source
  std::uint64_t ordinal = 0;  ///< the path of indices that made it, mixed to 64 bits
  ProgramPtr program;         ///< null: the value is in the payload as it is
  Ref<Payload> payload;       ///< null for records of a source
};

/// An element that exists, an error in its place, or items whose elements make one tuple or batch.
/// Recycled: `Payload::make` takes one from a pool and the last reference gives it back.
class Payload {
 public:
  static Ref<Payload> make();
  static Ref<Payload> make(Element element);
  static Ref<Payload> make(Status status);

  Element element;
  Status status;
  bool keep = true;      ///< false: a predicate said no
  std::int64_t key = 0;  ///< its class, group or length, if a stage asked for it
  // Where it came from, for errors: a record of a source, or of a stream.
  ProgramPtr origin;        ///< whose source has the record
  std::uint64_t index = 0;  ///< its index there
  std::shared_ptr<const std::string> shard;
  std::int64_t offset = -1;          ///< in `shard`
  std::vector<ElementRef> children;  ///< of a tuple (zip) or a batch

  void add_ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

 private:
  friend class PayloadPool;
  Payload() = default;
  ~Payload() = default;
  std::atomic<std::uint32_t> refs_{0};
};

/// An item that holds a value or an error.
inline ElementRef ref_to(Ref<Payload> payload, std::uint64_t ordinal) {
  ElementRef item;
  item.ordinal = ordinal;
  item.payload = std::move(payload);
  return item;
}

/// True for an item that stands for an error in its place.
inline bool is_error(const ElementRef& item) noexcept {
  return item.payload && !item.program && !item.payload->status.ok();
}

}  // namespace penstock
