#include "pipeline/sources/feature_list.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <penstock/error.h>

namespace penstock::example {
namespace {

std::vector<std::int64_t> with_steps(const Shape& step, std::int64_t steps) {
  std::vector<std::int64_t> dims{steps};
  const auto of_step = step.dims();
  dims.insert(dims.end(), of_step.begin(), of_step.end());
  return dims;
}

Tensor allocated(DType dtype, const Shape& shape, std::size_t bytes, ReadContext& context) {
  if (bytes <= Tensor::kInlineBytes && dtype != DType::bytes) return Tensor::allocate(dtype, shape);
  const BufferPtr buffer = context.allocate(bytes);
  return Tensor(dtype, shape, buffer->data(), buffer);
}

template <typename T>
Tensor numbers(const std::vector<T>& values, const Shape& shape, ReadContext& context) {
  const std::size_t bytes = values.size() * sizeof(T);
  Tensor out = allocated(dtype_of<T>, shape, bytes, context);
  if (bytes > 0) std::memcpy(out.mutable_data(), values.data(), bytes);
  return out;
}

/// One buffer holds the tensor's views and the text.
Tensor strings(const std::vector<std::string_view>& texts, const Shape& shape,
               ReadContext& context) {
  if (texts.empty()) return Tensor(DType::bytes, shape, nullptr, BufferPtr());
  std::size_t bytes = texts.size() * sizeof(std::string_view);
  for (const std::string_view text : texts) bytes += text.size();
  Tensor out = allocated(DType::bytes, shape, bytes, context);
  std::byte* view = out.mutable_data();
  std::byte* copy = view + texts.size() * sizeof(std::string_view);
  for (const std::string_view text : texts) {
    if (!text.empty()) std::memcpy(copy, text.data(), text.size());
    ::new (static_cast<void*>(view))
        std::string_view(reinterpret_cast<const char*>(copy), text.size());
    view += sizeof(std::string_view);
    copy += text.size();
  }
  return out;
}

}  // namespace

void check(const SequenceSpec& sequence) {
  const auto require = [&](bool holds, const char* what) {
    if (!holds)
      throw Error(ErrorCode::invalid_argument,
                  "parse_sequence_example: sequence '" + sequence.key + "' " + what);
  };
  const DType dtype = sequence.dtype;
  require(dtype == DType::bytes || dtype == DType::f32 || dtype == DType::i64,
          "must be bytes, f32 or i64");
  require(!sequence.step || (sequence.step->is_static() && sequence.step->rank() < kMaxRank),
          "must have steps of a fixed shape, or of any number of values");
}

void add_components(const SequenceSpec& sequence, std::vector<ComponentSpec>& components) {
  const Shape shape(with_steps(sequence.step.value_or(Shape()), Shape::kUnknown));
  components.push_back({sequence.component, sequence.dtype, shape});
  if (!sequence.step)
    components.push_back({sequence.component + ".step_splits", DType::i64, Shape({-1})});
}

void SequenceReader::read_steps(const SequenceSpec& sequence, std::span<const std::byte> list,
                                int max_nesting) {
  const FeatureSpec any{.key = sequence.key, .dtype = sequence.dtype, .shape = Shape({-1})};
  const std::int64_t wanted = sequence.step ? sequence.step->volume() : -1;
  wire::Fields steps(list, max_nesting);
  while (const auto step = steps.next()) {
    if (step->number != 1 || step->type != wire::Type::bytes) continue;
    const auto fail = [&](const std::string& what) {
      throw Error(ErrorCode::data_loss, "step " + std::to_string(splits_.size() - 1) + ": " + what);
    };
    const Values values(step->payload, max_nesting);
    try {
      if (values.present()) values.read(any, texts_, floats_, integers_);
    } catch (const Error& error) {
      fail(std::string(error.cause()));
    }
    const auto end = static_cast<std::int64_t>(texts_.size() + floats_.size() + integers_.size());
    const std::int64_t count = end - splits_.back();
    if (wanted >= 0 && count != wanted)
      fail("its " + std::to_string(count) + " values do not make the shape " +
           sequence.step->to_string() + "; a sequence without a shape has any number in each step");
    splits_.push_back(end);
  }
}

Tensor SequenceReader::values(DType dtype, const Shape& shape, ReadContext& context) const {
  if (dtype == DType::bytes) return strings(texts_, shape, context);
  return dtype == DType::f32 ? numbers(floats_, shape, context)
                             : numbers(integers_, shape, context);
}

void SequenceReader::read(const SequenceSpec& sequence,
                          std::optional<std::span<const std::byte>> list, int max_nesting,
                          ReadContext& context, Element& out) try {
  texts_.clear();
  floats_.clear();
  integers_.clear();
  splits_.assign(1, 0);
  if (list) {
    read_steps(sequence, *list, max_nesting);
  } else if (sequence.step && !sequence.allow_missing) {
    throw Error(ErrorCode::data_loss, "it is missing");
  }
  const auto steps = static_cast<std::int64_t>(splits_.size()) - 1;
  const Shape shape(sequence.step ? with_steps(*sequence.step, steps)
                                  : std::vector<std::int64_t>{splits_.back()});
  out.append(values(sequence.dtype, shape, context));
  if (!sequence.step) out.append(numbers(splits_, Shape({steps + 1}), context));
} catch (const Error& error) {
  throw Error(error.code(), "sequence '" + sequence.key + "': " + std::string(error.cause()));
}

std::string missing_text(std::string_view record, std::string_view key, int max_nesting) {
  std::string text = "it is missing and has no default";
  bool sequences = false;
  bool found = false;
  try {
    for_each_feature_list(std::as_bytes(std::span(record)), max_nesting,
                          [&](std::string_view name, std::span<const std::byte>) {
                            sequences = true;
                            found = found || name == key;
                          });
  } catch (const Error&) {  // it is no SequenceExample
    return text;
  }
  if (found)
    return text +
           "; the record is a tf.SequenceExample, in which it is a feature list: read it by "
           "--sequence (parse_sequence_example)";
  return sequences ? text + "; the record is a tf.SequenceExample, whose context lacks it" : text;
}

}  // namespace penstock::example
