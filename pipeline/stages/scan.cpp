#include "pipeline/stages/scan.h"

#include <chrono>

#include "pipeline/stage/batch_rows.h"
#include "pipeline/stage/support.h"
#include "pipeline/stages/values.h"

namespace penstock {
namespace {

/// Returns the names and dtypes of an element's components. The shapes may change.
Spec kind_of(const Element& element) {
  std::vector<ComponentSpec> components;
  for (std::size_t i = 0; i < element.size(); ++i) {
    components.push_back({element.name(i), element[i].dtype(), Shape::unknown_rank()});
  }
  return Spec(std::move(components));
}

struct ScanStage {
  Element initial;
  ScanFn fn;
  std::string name;
  Spec state;
};

class ScanIterator final : public OrderIterator {
 public:
  ScanIterator(OrderIteratorPtr input, const ScanStage& scan, const Spec& output,
               StageCounters* counters, std::string stage)
      : input_(std::move(input)),
        scan_(scan),
        output_(output),
        counters_(counters),
        stage_(std::move(stage)),
        state_(scan.initial) {}

  std::size_t pull(std::span<ElementRef> out) override {
    const std::size_t count = input_->pull(out);
    for (ElementRef& item : out.first(count)) {
      if (!is_error(item)) step(item);
    }
    given_ += count;
    return count;
  }

  // The running state may hold anything, so it is not saved but computed again.
  void save(StateWriter& state) const override { state.put(given_); }
  void restore(StateReader& state) override { discard(state.get()); }

 private:
  void step(ElementRef& item) {
    const auto start = std::chrono::steady_clock::now();
    Status status;
    try {
      auto [next, result] = scan_.fn(state_, item.payload->element);
      std::string problem = output_.mismatch(result);
      if (problem.empty()) problem = scan_.state.mismatch(next);
      if (problem.empty()) {
        if (result.valid_rows < 0) result.valid_rows = item.payload->element.valid_rows;
        state_ = std::move(next);
        replace(item, std::move(result));
      } else {
        status = Status(ErrorCode::user,
                        "the result of '" + scan_.name + "' does not fit its spec: " + problem);
      }
    } catch (...) {
      status = status_from_current_exception();
    }
    if (!status.ok()) {
      item = error_at(item, std::move(status), stage_);
      return;
    }
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::steady_clock::now() - start);
    add_counters(counters_, 1, payload_bytes(item.payload->element),
                 static_cast<std::uint64_t>(took.count()));
  }

  static void replace(ElementRef& item, Element result) {
    Ref<Payload> payload = Payload::make(std::move(result));
    payload->origin = item.payload->origin;
    payload->index = item.payload->index;
    payload->shard = item.payload->shard;
    payload->offset = item.payload->offset;
    item.payload = std::move(payload);
  }

  OrderIteratorPtr input_;
  const ScanStage& scan_;
  const Spec& output_;
  StageCounters* counters_;
  std::string stage_;
  Element state_;
  std::uint64_t given_ = 0;
};

class ScanNode final : public Node {
 public:
  ScanNode(const NodePtr& source, ScanStage scan, Spec output)
      : Node({source}, std::move(output), source->cardinality()), scan_(std::move(scan)) {}

  std::string name() const override { return "scan"; }
  bool holds_values() const override { return true; }
  std::optional<BatchRows> find_batch_rows() const override {
    return rows_through(input(), spec());
  }
  Resume find_resume() const override { return Resume::work; }
  bool deterministic() const override { return false; }
  void describe(Description& description) const override {
    description.add("op", scan_.name);
    description.add("state", scan_.state.to_string());
  }
  Pending find_pending() const override { return Pending::none; }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return inputs[0];
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<ScanIterator>(open_values(*this, context), scan_, spec(),
                                          context.run.counters(*this),
                                          context.run.stage_name(*this));
  }

 private:
  ScanStage scan_;
};

}  // namespace

NodePtr make_scan(NodePtr input, Element initial, ScanFn fn, ScanOptions options) {
  if (!fn) bad_stage("scan", "no function was given");
  Spec output = options.output ? *options.output : input->spec();
  Spec state = kind_of(initial);
  ScanStage scan{std::move(initial), std::move(fn), options.name, std::move(state)};
  return std::make_shared<ScanNode>(input, std::move(scan), std::move(output));
}

}  // namespace penstock
