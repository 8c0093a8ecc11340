// The way an item becomes a value.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/element.h>
#include <penstock/source.h>
#include <penstock/spec.h>
#include <penstock/work.h>

namespace penstock {

class StageCounters;

/// An op that makes one element from several: a tuple from its inputs, a batch from its rows.
/// Immutable and thread-safe.
class GatherOp {
 public:
  virtual ~GatherOp() = default;
  /// Sets `out.element`; or, on failure, sets `out.status`, and `out.index` to the part that caused
  /// it. All parts hold values, as a failed part makes `out` fail before this call.
  virtual void gather(std::span<const Element* const> parts, WorkItem& out,
                      WorkContext& context) const = 0;
  /// True if it adds padding to what the parts hold, in their components.
  virtual bool pads() const noexcept { return false; }
};

/// The way an item becomes a value. It starts with a record of a source, with the gathered children
/// of the item's payload, or with the value in the payload. Then the ops of the chain follow.
/// Immutable. The programs of a plan live as long as its run. Those of nested datasets are counted.
class Program {
 public:
  struct Step {
    WorkOpPtr op;
    std::uint32_t rng_op = 0;  // keys the op's random numbers
    StageCounters* counters = nullptr;
    std::string stage;              // "map[2] decode"
    std::int64_t fixed_bytes = -1;  // of one result, if all have the same size
    Spec spec{};                    // of a result
    const Names* names = nullptr;   // of its components
    // If not empty, the op makes no values, and this says where it puts each component of its
    // input; -1: it drops the component.
    std::vector<int> places{};
    // False if the results stay in the stage, which makes others of them: they are not counted.
    bool leaves = true;
  };

  /// A program that starts with a record of a source.
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
  /// A program that starts with the gathered children of the item's payload.
  Program(std::shared_ptr<const GatherOp> gather, StageCounters* counters, std::string stage)
      : gather_(std::move(gather)), leaf_counters_(counters), leaf_stage_(std::move(stage)) {}
  /// A program with one more op after `parent`. If `parent` is null, it starts from the payload.
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
      making_steps_ = parent->making_steps_;
      final_places_ = parent->final_places_;
    }
    steps_.push_back(std::move(step));
    follow(steps_.back().places);
    columnar_ = columnar_ && steps_.back().op->columnar() && steps_.back().spec.is_fixed_size() &&
                steps_.back().spec.size() > 0;
    if (columnar_) steps_.back().names = steps_.back().spec.names();
  }
  /// A program with other steps than `like`, which do the same to the names of components.
  Program(const Program& like, std::vector<Step> steps)
      : source_(like.source_),
        gather_(like.gather_),
        leaf_counters_(like.leaf_counters_),
        leaf_stage_(like.leaf_stage_),
        leaf_fixed_bytes_(like.leaf_fixed_bytes_),
        leaf_spec_(like.leaf_spec_),
        leaf_names_(like.leaf_names_),
        steps_(std::move(steps)),
        making_steps_(like.making_steps_),
        final_places_(like.final_places_) {}

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

  /// Returns how many steps make values. The steps after them only keep some of the components. The
  /// row in a batch receives the result of the last of these steps, or of the source if there is
  /// none.
  std::size_t making_steps() const noexcept { return making_steps_; }
  /// Returns, for each component that these steps make, its place among the components that the
  /// program gives; -1: it is not kept. Empty if all components stay in place.
  const std::vector<int>& final_places() const noexcept { return final_places_; }

  /// True if the source and all ops process many elements at a time.
  bool columnar() const noexcept { return columnar_; }
  /// True if the elements are one byte string each, just as the source reads them.
  bool textual() const noexcept { return textual_; }
  /// Returns the spec of a columnar source.
  const Spec& leaf_spec() const noexcept { return leaf_spec_; }
  const Names* leaf_names() const noexcept { return leaf_names_; }

  void add_ref() const noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  /// Marks the program as kept alive by its owner for the whole run, so that items need not count
  /// references. Call this before the first reference is made.
  void make_immortal() noexcept { immortal_ = true; }
  bool immortal() const noexcept { return immortal_; }

 private:
  void follow(const std::vector<int>& places) {
    if (places.empty()) {
      making_steps_ = steps_.size();
      final_places_.clear();
    } else if (final_places_.empty()) {
      final_places_ = places;
    } else {
      for (int& place : final_places_)
        if (place >= 0) place = places[static_cast<std::size_t>(place)];
    }
  }

  SourcePtr source_;
  std::shared_ptr<const GatherOp> gather_;
  StageCounters* leaf_counters_ = nullptr;
  std::string leaf_stage_;
  std::int64_t leaf_fixed_bytes_ = -1;
  Spec leaf_spec_;
  const Names* leaf_names_ = nullptr;

  std::vector<Step> steps_;
  std::size_t making_steps_ = 0;
  std::vector<int> final_places_;
  bool columnar_ = false;
  bool textual_ = false;
  bool immortal_ = false;
  mutable std::atomic<std::uint32_t> refs_{0};
};

/// A reference to a program, counted unless the program is immortal. The reference itself stores
/// which of the two applies, because references are made and dropped by the million and must not
/// access the program.
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

}  // namespace penstock
