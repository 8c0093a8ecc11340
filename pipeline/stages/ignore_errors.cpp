#include "pipeline/stages/ignore_errors.h"

#include <penstock/log.h>

#include "pipeline/stage/closed_counts.h"
#include "pipeline/stage/support.h"
#include "pipeline/stages/values.h"

namespace penstock {
namespace {

bool is_of_data(const Error& error) {
  return error.code() != ErrorCode::cancelled && error.code() != ErrorCode::resource_exhausted &&
         error.code() != ErrorCode::internal;
}

class IgnoreErrorsIterator final : public OrderIterator {
 public:
  IgnoreErrorsIterator(OrderIteratorPtr input, StageCounters& stage, const OpenContext& context,
                       bool log_warning)
      : input_(std::move(input)), stage_(stage), context_(context), log_warning_(log_warning) {}

  std::size_t pull(std::span<ElementRef> out) override {
    for (;;) {
      const std::size_t pulled = input_->pull(out);
      if (pulled == 0) return 0;
      const std::size_t kept = keep_items(out.first(pulled), [this](const ElementRef& item) {
        if (!is_error(item) || !is_of_data(item.payload->status.error())) return true;
        leave_out(item.payload->status.error());
        return false;
      });
      if (kept > 0) return kept;
    }
  }
  void save(StateWriter& state) const override {
    left_out_.save(state);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    left_out_.restore(state);
    input_->restore(state);
  }

 private:
  void leave_out(const Error& error) {
    context_.run.left_out(stage_, error, context_);
    left_out_.add(stage_, {.left_out = 1});
    if (log_warning_) log(LogLevel::warning, std::string("ignore_errors: ") + error.what());
  }

  OrderIteratorPtr input_;
  StageCounters& stage_;
  const OpenContext context_;
  ClosedCounts left_out_{context_};
  bool log_warning_;
};

class IgnoreErrorsNode final : public Node {
 public:
  IgnoreErrorsNode(const NodePtr& source, bool log_warning)
      : Node({source}, source->spec(), source->cardinality() == 0 ? 0 : kUnknown),
        log_warning_(log_warning) {}
  std::string name() const override { return "ignore_errors"; }
  void describe(Description&) const override {}  // a warning does not affect the output
  Pending find_pending() const override { return Pending::none; }
  std::optional<BatchRows> find_batch_rows() const override { return input().batch_rows(); }
  NodePtr over(NodePtr input) const override {
    return make_ignore_errors(std::move(input), log_warning_);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<IgnoreErrorsIterator>(
        open_values(*this, context), *context.run.counters(*this), context, log_warning_);
  }

 private:
  bool log_warning_;
};

}  // namespace

NodePtr make_ignore_errors(NodePtr input, bool log_warning) {
  return std::make_shared<IgnoreErrorsNode>(input, log_warning);
}

}  // namespace penstock
