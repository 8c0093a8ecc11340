#include "tools/penstock/shards/describe_element.h"

#include <algorithm>
#include <vector>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "tools/penstock/shards/example_view.h"

namespace penstock::tool {
namespace {

constexpr std::int64_t kMostValues = 6;
constexpr std::size_t kMostText = 60;

unsigned big16(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]) * 256U + static_cast<unsigned char>(bytes[at + 1]);
}

std::string size_text(unsigned height, unsigned width) {
  return std::to_string(height) + "x" + std::to_string(width);
}

bool is_frame(unsigned marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

std::string jpeg_size(std::string_view bytes) {
  for (std::size_t at = 2; at + 9 <= bytes.size() && bytes[at] == '\xff';) {
    const unsigned marker = static_cast<unsigned char>(bytes[at + 1]);
    if (is_frame(marker)) return size_text(big16(bytes, at + 5), big16(bytes, at + 7));
    at += marker == 0xff ? 1 : 2 + big16(bytes, at + 2);
  }
  return "";
}

bool is_text(std::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

std::string number_text(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

template <typename T>
std::string values_text(const Tensor& tensor) {
  std::string text;
  const std::vector<T> values = tensor.to_vector<T>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    if constexpr (std::is_floating_point_v<T>)
      text += number_text(values[i]);
    else
      text += std::to_string(values[i]);
  }
  return values.size() == 1 && tensor.rank() == 0 ? text : "[" + text + "]";
}

std::string describe_features(const std::vector<FeatureView>& features) {
  std::string text = "{";
  for (std::size_t i = 0; i < features.size(); ++i) {
    const FeatureView& feature = features[i];
    text += (i > 0 ? ", " : "") + printable(feature.key) + ": ";
    if (feature.kind == 'b')
      text += feature.count == 0 ? "bytes []" : describe_bytes(feature.bytes);
    if (feature.kind == 'f' || feature.kind == 'i')
      text += (feature.kind == 'f' ? "f32 " : "i64 ") +
              (feature.count == 0 ? std::string("[]") : number_text(feature.number));
    if (feature.kind == '?') text += "nothing";
    if (feature.count > 1) text += " and " + grouped(feature.count - 1) + " more";
  }
  return text + "}";
}

std::string describe_sequences(const std::vector<SequenceView>& sequences) {
  std::string text = "{";
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const SequenceView& sequence = sequences[i];
    const char* const kind = sequence.kind == 'b'   ? "bytes"
                             : sequence.kind == 'f' ? "f32"
                             : sequence.kind == 'i' ? "i64"
                                                    : "nothing";
    text += (i > 0 ? ", " : "") + printable(sequence.key) + ": " + kind + " in " +
            plural(sequence.steps, "step", "steps");
    if (sequence.count != sequence.steps)
      text += " of " + plural(sequence.count, "value", "values");
  }
  return text + "}";
}

std::string describe_example(std::string_view record) {
  if (const auto features = view_example(record))
    return "tf.Example " + describe_features(*features);
  const auto view = view_sequence_example(record);
  if (!view) return "";
  return "tf.SequenceExample " + describe_features(view->context) + " with sequences " +
         describe_sequences(view->sequences);
}

std::string describe_tensor(const Tensor& tensor) {
  if (tensor.dtype() == DType::bytes && tensor.rank() == 0)
    return describe_bytes(tensor.bytes_at());
  if (tensor.volume() <= kMostValues) {
    switch (tensor.dtype()) {
      case DType::i64:
        return values_text<std::int64_t>(tensor);
      case DType::i32:
        return values_text<std::int32_t>(tensor);
      case DType::u8:
        return values_text<std::uint8_t>(tensor);
      case DType::f32:
        return values_text<float>(tensor);
      case DType::f64:
        return values_text<double>(tensor);
      default:
        break;
    }
  }
  return std::string(name_of(tensor.dtype())) + " " + tensor.shape().to_string();
}

}  // namespace

std::string image_size(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return jpeg_size(bytes);
  if (bytes.starts_with("\x89PNG\r\n\x1a\n") && bytes.size() >= 24) {
    const auto big32 = [&](std::size_t at) {
      return big16(bytes, at) << 16 | big16(bytes, at + 2);
    };
    return size_text(big32(20), big32(16));
  }
  return "";
}

std::string describe_bytes(std::string_view bytes) {
  const std::string size = human_bytes(static_cast<double>(bytes.size()));
  if (bytes.starts_with("\xff\xd8\xff")) return size + " JPEG " + image_size(bytes);
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return size + " PNG " + image_size(bytes);
  if (bytes.size() <= kMostText && is_text(bytes)) return in_quotes(bytes);
  const std::string example = describe_example(bytes);
  return example.empty() ? size : size + " " + example;
}

std::string describe_element(const Element& element) {
  std::string text;
  for (std::size_t i = 0; i < element.size(); ++i)
    text += (i > 0 ? ", " : "") + printable(element.name(i)) + ": " + describe_tensor(element[i]);
  return text;
}

}  // namespace penstock::tool
