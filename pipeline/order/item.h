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
class Parcel;

/// Makes one element of several: a tuple of its inputs, a batch of its rows. Immutable and
/// thread-safe.
class GatherOp {
 public:
  virtual ~GatherOp() = default;
  /// Sets `out.element`, or `out.status` and in `out.index` which child is to blame. The children
  /// hold values; a child that failed has failed `out` before.
  virtual void gather(std::span<WorkItem> children, WorkItem& out, WorkContext& context) const = 0;
};

/// How an item becomes a value: a record of a source, or the children of its parcel gathered, or
/// what its parcel holds; then the ops of the chain. Immutable. The programs of a plan live as long
/// as its run; those of nested datasets are counted.
class Program {
 public:
  struct Step {
    WorkOpPtr op;
    std::uint32_t rng_op = 0;  // which op it is for the random numbers
    StageCounters* counters = nullptr;
    std::string stage;              // "map[2] decode"
    std::int64_t fixed_bytes = -1;  // of one result, if all are alike
  };

  /// A record of a source.
  Program(SourcePtr record_source, StageCounters* counters, std::string stage,
          std::int64_t fixed_bytes)
      : source_(std::move(record_source)),
        leaf_counters_(counters),
        leaf_stage_(std::move(stage)),
        leaf_fixed_bytes_(fixed_bytes) {}
  /// The children of the item's parcel, gathered.
  Program(std::shared_ptr<const GatherOp> gather, StageCounters* counters, std::string stage)
      : gather_(std::move(gather)), leaf_counters_(counters), leaf_stage_(std::move(stage)) {}
  /// One more op behind `parent`; a null parent starts from the parcel.
  Program(const Program* parent, Step step) {
    if (parent != nullptr) {
      source_ = parent->source_;
      gather_ = parent->gather_;
      leaf_counters_ = parent->leaf_counters_;
      leaf_stage_ = parent->leaf_stage_;
      leaf_fixed_bytes_ = parent->leaf_fixed_bytes_;
      steps_ = parent->steps_;
    }
    steps_.push_back(std::move(step));
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

  void add_ref() const noexcept {
    if (!immortal_) refs_.fetch_add(1, std::memory_order_relaxed);
  }
  void release() const noexcept {
    if (!immortal_ && refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  /// The owner keeps the program alive for the whole run, so that items need not count.
  void make_immortal() noexcept { immortal_ = true; }
  bool immortal() const noexcept { return immortal_; }

 private:
  SourcePtr source_;
  std::shared_ptr<const GatherOp> gather_;
  StageCounters* leaf_counters_ = nullptr;
  std::string leaf_stage_;
  std::int64_t leaf_fixed_bytes_ = -1;

  std::vector<Step> steps_;
  bool immortal_ = false;
  mutable std::atomic<std::uint32_t> refs_{0};
};

using ProgramPtr = Ref<const Program>;

/// A reference to one element: what it is made from, and how. 32 bytes; moving it is cheap.
struct Item {
  std::uint64_t index = 0;    ///< the record, for programs with a source
  std::uint64_t ordinal = 0;  ///< the path of indices that made it, mixed to 64 bits
  ProgramPtr program;         ///< null: the value is in the parcel as it is
  Ref<Parcel> parcel;         ///< null for records of a source
};

/// An element that exists, an error in its place, or items whose elements make one tuple or batch.
/// Recycled: `Parcel::make` takes one from a pool and the last reference gives it back.
class Parcel {
 public:
  static Ref<Parcel> make();
  static Ref<Parcel> make(Element element);
  static Ref<Parcel> make(Status status);

  Element element;
  Status status;
  bool keep = true;      ///< false: a predicate said no
  std::int64_t key = 0;  ///< its class, group or length, if a stage asked for it
  // Where it came from, for errors: a record of a source, or of a stream.
  ProgramPtr origin;        ///< whose source has the record
  std::uint64_t index = 0;  ///< its index there
  std::shared_ptr<const std::string> shard;
  std::int64_t offset = -1;    ///< in `shard`
  std::vector<Item> children;  ///< of a tuple (zip) or a batch

  void add_ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

 private:
  friend class ParcelPool;
  Parcel() = default;
  ~Parcel() = default;
  std::atomic<std::uint32_t> refs_{0};
};

/// An item that holds a value or an error.
inline Item item_of(Ref<Parcel> parcel, std::uint64_t ordinal) {
  Item item;
  item.ordinal = ordinal;
  item.parcel = std::move(parcel);
  return item;
}

/// True for an item that stands for an error in its place.
inline bool is_error(const Item& item) noexcept {
  return item.parcel && !item.program && !item.parcel->status.ok();
}

}  // namespace penstock
