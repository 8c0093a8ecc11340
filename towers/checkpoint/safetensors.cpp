#include "towers/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/error.h>
#include <penstock/internal/other_format.h>

namespace penstock::towers {
namespace {

using Json = nlohmann::json;
constexpr std::uint64_t kMostHeader = 100'000'000;
constexpr std::size_t kLengthBytes = 8;

constexpr std::array<std::pair<DType, std::string_view>, 13> kTypeNames{{{DType::f64, "F64"},
                                                                         {DType::f32, "F32"},
                                                                         {DType::f16, "F16"},
                                                                         {DType::bf16, "BF16"},
                                                                         {DType::i64, "I64"},
                                                                         {DType::i32, "I32"},
                                                                         {DType::i16, "I16"},
                                                                         {DType::i8, "I8"},
                                                                         {DType::u64, "U64"},
                                                                         {DType::u32, "U32"},
                                                                         {DType::u16, "U16"},
                                                                         {DType::u8, "U8"},
                                                                         {DType::boolean, "BOOL"}}};

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::data_loss, "safetensors: " + why);
}

std::string_view text_of(DType dtype) {
  for (const auto& [type, text] : kTypeNames)
    if (type == dtype) return text;
  throw Error(ErrorCode::invalid_argument,
              "safetensors have no type for " + std::string(name_of(dtype)));
}

DType dtype_of_text(const std::string& text) {
  for (const auto& [type, name] : kTypeNames)
    if (name == text) return type;
  refuse("an unknown dtype");
}

/// Refuses a header that is not JSON, is nested deeply, or has objects with duplicate names, which
/// the parsed result does not show. (A callback of Json::parse could detect them, but then the time
/// for each value grows with the number of values before it.)
class HeaderCheck final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(std::string& name) override {
    if (!names_.back().insert(name).second) refuse("its header has a name twice");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    refuse("its header is not JSON");
  }

 private:
  bool enter() {
    if (names_.size() > 4) refuse("its header is nested too deeply");
    names_.emplace_back();
    return true;
  }
  bool leave() {
    names_.pop_back();
    return true;
  }

  // One for each open object or array.
  std::vector<std::set<std::string>> names_;
};

Json parse_header(std::string_view text) {
  HeaderCheck check;
  Json::sax_parse(text, &check);
  Json header = Json::parse(text);
  if (!header.is_object()) refuse("its header is not an object");
  return header;
}

std::uint64_t whole(const Json& value) {
  if (!value.is_number_unsigned()) refuse("a size is not an integer");
  return value.get<std::uint64_t>();
}

/// Returns the size of the values in bytes; checks for overflow.
std::uint64_t bytes_of(DType dtype, const std::vector<std::int64_t>& dims) {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t dim : dims)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes))
      refuse("a shape is too large");
  return bytes;
}

NamedTensor parse_tensor(const std::string& name, const Json& entry, std::string_view data) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
    refuse("an entry is incomplete");
  NamedTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype_of_text(entry["dtype"].get<std::string>());
  if (entry["shape"].size() > kMaxRank) refuse("a shape has too many dimensions");
  std::vector<std::int64_t> dims;
  for (const Json& dim : entry["shape"]) {
    if (whole(dim) > INT64_MAX) refuse("a dimension is too large");
    dims.push_back(dim.get<std::int64_t>());
  }
  const std::uint64_t begin = whole(entry["data_offsets"][0]);
  const std::uint64_t end = whole(entry["data_offsets"][1]);
  if (begin > end || end > data.size()) refuse("an entry lies outside of the file");
  if (bytes_of(tensor.dtype, dims) != end - begin) refuse("a shape does not fit its bytes");
  tensor.shape = Shape(std::span<const std::int64_t>(dims));
  tensor.bytes = std::as_bytes(std::span<const char>(data.data() + begin, end - begin));
  return tensor;
}

}  // namespace

std::vector<float> f32_values(const NamedTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / size_of(tensor.dtype));
  const auto convert = [&]<typename T>(T, const auto& to_float) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      T value{};
      std::memcpy(&value, tensor.bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = to_float(value);
    }
  };
  switch (tensor.dtype) {
    case DType::f32:
      convert(float(), [](float value) { return value; });
      break;
    case DType::f16:
      convert(Half(), float_from_half);
      break;
    case DType::bf16:
      convert(BFloat16(), float_from_bfloat16);
      break;
    case DType::f64:
      convert(double(), [&](double value) {
        if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max())
          throw Error(ErrorCode::invalid_argument,
                      tensor.name + " has a number beyond the range of f32");
        return static_cast<float>(value);
      });
      break;
    default:
      throw Error(
          ErrorCode::invalid_argument,
          tensor.name + " is " + std::string(name_of(tensor.dtype)) + ", not floating point");
  }
  return values;
}

std::string encode_safetensors(std::span<const NamedTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
  using Ordered = nlohmann::ordered_json;
  const auto dumped = [](const Ordered& json) {
    return json.dump(-1, ' ', false, Ordered::error_handler_t::replace);
  };
  std::string text = "{";
  const auto add = [&](const std::string& name, const Ordered& entry) {
    if (text.size() > 1) text += ',';
    text += dumped(name) + ':' + dumped(entry);
  };
  if (!metadata.empty()) add("__metadata__", metadata);
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.bytes.size();
    const std::span<const std::int64_t> dims = tensor.shape.dims();
    add(tensor.name, {{"dtype", text_of(tensor.dtype)},
                      {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())},
                      {"data_offsets", {offset, end}}});
    offset = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string file;
  file.reserve(kLengthBytes + text.size() + offset);
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    file.push_back(static_cast<char>(text.size() >> (8 * i) & 0xff));
  file += text;
  for (const NamedTensor& tensor : tensors)
    file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return file;
}

SafeTensors::SafeTensors(std::string file) : file_(std::move(file)) {
  if (file_.size() < kLengthBytes) refuse("the file is too short");
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(file_[i]);
  const auto refuse_start = [&](const char* what) {
    const auto head =
        std::as_bytes(std::span(file_)).first(std::min(file_.size(), kOtherFormatHead));
    const OtherFormat* const other = find_other_format(head, file_.size());
    refuse(other != nullptr ? "this is " + other->text() : what);
  };
  if (length > kMostHeader || length > file_.size() - kLengthBytes)
    refuse_start("its header is longer than the file or than 100 MB");
  const std::string_view text = std::string_view(file_).substr(kLengthBytes, length);
  if (!text.starts_with('{')) refuse_start("its header does not begin with {");
  const std::string_view data = std::string_view(file_).substr(kLengthBytes + length);
  const Json header = parse_header(text);
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      tensors_.push_back(parse_tensor(name, entry, data));
      continue;
    }
    if (!entry.is_object()) refuse("its metadata are not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) refuse("its metadata are not all text");
      metadata_.emplace(key, value.get<std::string>());
    }
  }
  // An empty tensor comes before another one that begins at the same place.
  std::ranges::stable_sort(tensors_, {}, [](const NamedTensor& tensor) {
    return std::pair(tensor.bytes.data(), tensor.bytes.size());
  });
  const std::byte* at = std::as_bytes(std::span<const char>(data)).data();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].bytes.data() != at) refuse("tensors overlap or leave a gap");
    at += tensors_[i].bytes.size();
    places_.emplace(tensors_[i].name, i);
  }
  if (at != std::as_bytes(std::span<const char>(data)).data() + data.size())
    refuse("there are bytes behind the last tensor");
}

const NamedTensor& SafeTensors::at(std::string_view name) const {
  const auto place = places_.find(name);
  if (place != places_.end()) return tensors_[place->second];
  throw Error(ErrorCode::not_found, "safetensors: no tensor " + std::string(name));
}

}  // namespace penstock::towers
