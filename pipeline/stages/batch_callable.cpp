// Maps whose callables take many elements at once.
#include <algorithm>
#include <optional>
#include <vector>

#include <penstock/map.h>

#include "pipeline/core/rows.h"
#include "pipeline/core/sizes.h"
#include "pipeline/stages/adds.h"

namespace penstock {
namespace {

/// Returns the spec of an element.
Spec spec_of(const Element& element) {
  std::vector<ComponentSpec> components;
  for (std::size_t i = 0; i < element.size(); ++i) {
    components.push_back({element.name(i), element[i].dtype(), element[i].shape()});
  }
  return components;
}

class BatchFnOp final : public WorkOp {
 public:
  BatchFnOp(BatchFn fn, MapOptions options)
      : fn_(std::move(fn)),
        name_(std::move(options.name)),
        output_(std::move(options.output)),
        blocking_(options.blocking) {}

  std::string name() const override { return name_; }
  bool deterministic() const override { return false; }
  void describe(Description& description) const override {
    description.add("output", output_ ? output_->to_string() : "input");
    description.add("batchwise", true);
  }
  Spec infer(const Spec& input) const override {
    if (!input.is_fixed_size() || (output_ && !output_->is_fixed_size())) {
      throw Error(ErrorCode::invalid_argument,
                  "'" + name_ + "' takes many elements at once, which must be of fixed size" +
                      (input.is_fixed_size()
                           ? ", and so must its output be, which is " + output_->to_string()
                           : ""));
    }
    if (input.size() == 0 || (output_ && output_->size() == 0)) {
      throw Error(ErrorCode::invalid_argument,
                  "'" + name_ + "' takes and makes columns, so elements need a component");
    }
    return output_.value_or(input);
  }
  bool blocking() const override { return blocking_; }
  bool columnar() const override { return !blocking_; }
  std::size_t preferred_group() const override { return 64; }

  std::size_t run_columns(const Element& in, Element& out, WorkItem& odd,
                          const WorkContext& context) const override {
    if (context.cancelled()) {
      odd.status = WorkContext::cancelled_status();
      return 0;
    }
    apply(in, out);
    return static_cast<std::size_t>(in[0].dim(0));
  }

  void run(std::span<WorkItem> items, WorkContext& context) const override {
    std::vector<WorkItem*> good;
    for (WorkItem& item : items) {
      if (item.status.ok() && item.keep) good.push_back(&item);
    }
    if (good.empty()) return;
    const Spec input = spec_of(good.front()->element);
    const Spec output = output_.value_or(input);
    std::size_t bytes = 1;
    for (const Spec* spec : {&input, &output}) {
      for (const ComponentSpec& component : *spec) {
        bytes = saturating_sum(bytes, bytes_of(component.dtype, component.shape));
      }
    }
    const std::size_t together = std::max<std::size_t>(kBytesAtOnce / bytes, 1);
    for (std::size_t first = 0; first < good.size(); first += together) {
      const std::span<WorkItem*> some =
          std::span(good).subspan(first, std::min(together, good.size() - first));
      try {
        apply(some, input, output, context);
      } catch (...) {
        for (WorkItem*& item : some) {
          try {
            apply({&item, 1}, input, output, context);
          } catch (...) {
            item->status = status_from_current_exception();
          }
        }
      }
    }
  }

 private:
  static constexpr std::size_t kBytesAtOnce = 64U << 10;

  void apply(const Element& in, Element& out) const {
    Element result = out;  // the same memory
    fn_(in, result);
    const Spec expected = spec_of(out);
    if (const std::string what = expected.mismatch(result); !what.empty()) {
      throw Error(ErrorCode::user, "the result of '" + name_ + "' does not fit its spec: " + what);
    }
    detach(result, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (result[i].data() != out[i].data()) result[i].copy_to(out[i].mutable_data());
    }
  }

  // Components may have been exchanged, so none may be overwritten before it is copied.
  static void detach(Element& result, const Element& out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (result[i].data() == out[i].data()) continue;
      for (std::size_t place = 0; place < out.size(); ++place) {
        if (!lies_in(result[i], out[place].data(), out[place].nbytes())) continue;
        result[i] = result[i].clone();
        break;
      }
    }
  }

  void apply(std::span<WorkItem*> items, const Spec& input, const Spec& output,
             WorkContext& context) const {
    if (context.cancelled()) throw WorkContext::cancelled_status().error();
    Element in = make_rows(input, input.names(), items.size(), context);
    Element out = make_rows(output, output.names(), items.size(), context);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (const std::string what = input.mismatch(items[i]->element); !what.empty()) {
        throw Error(ErrorCode::mismatch, "'" + name_ + "' got unlike elements: " + what);
      }
      for (std::size_t c = 0; c < in.size(); ++c) {
        const Tensor& value = items[i]->element[c];
        value.copy_to(in[c].mutable_data() + value.nbytes() * i);
      }
    }
    apply(in, out);
    for (std::size_t i = 0; i < items.size(); ++i) {
      Element& element = items[i]->element;
      element.reset(out.names());
      for (std::size_t c = 0; c < out.size(); ++c) {
        element[c] = out[c][static_cast<std::int64_t>(i)];
      }
    }
  }

  BatchFn fn_;
  std::string name_;
  std::optional<Spec> output_;
  bool blocking_;
};

}  // namespace

WorkOpPtr make_batch_fn_op(BatchFn fn, MapOptions options) {
  if (!fn) {
    throw Error(ErrorCode::invalid_argument, "the callable of '" + options.name + "' is empty");
  }
  require_resolved(options);
  return std::make_shared<BatchFnOp>(std::move(fn), std::move(options));
}

}  // namespace penstock
