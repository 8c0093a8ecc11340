// Variables and checkpoints of the trainer.
#include <cstring>

#include <penstock/error.h>

#include "tests/fuzz/support.h"
#include "towers/checkpoint/safetensors.h"

namespace penstock::fuzz {
namespace {

using towers::NamedTensor;

std::string with_length(const std::string& header) {
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof(length));
  return file + header;
}

}  // namespace

/// With option 0 the header's length is made right: all up to the last '}' is the header.
void run_safetensors(Bytes bytes) {
  const Input input(bytes);
  std::string file = input.file;
  if (input.option(0)) {
    const std::size_t end = file.rfind('}');
    const std::size_t header = end == std::string::npos ? file.size() : end + 1;
    file = with_length(file.substr(0, header)) + file.substr(header);
  }
  try {
    const towers::SafeTensors read(file);
    for (const NamedTensor& tensor : read.tensors()) {
      require(tensor.bytes.size() ==
                  static_cast<std::size_t>(tensor.shape.volume()) * size_of(tensor.dtype),
              "a tensor whose bytes do not fit its shape");
      require(read.at(tensor.name).bytes.data() == tensor.bytes.data(), "a name of another tensor");
      unsigned sum = 0;  // every byte is there
      for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
      require(sum <= 255 * tensor.bytes.size(), "bytes");
    }
    const std::string again = towers::encode_safetensors(read.tensors(), read.metadata());
    const towers::SafeTensors back(again);
    require(back.tensors().size() == read.tensors().size() && back.metadata() == read.metadata(),
            "what was written is read as something else");
  } catch (const Error& error) {
    require_answer(error);
  }
}

std::vector<std::string> safetensors_seeds() {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const auto of = [&](const char* name, const Shape& shape) {
    return NamedTensor{
        name, DType::f32, shape,
        std::as_bytes(std::span(values).first(static_cast<std::size_t>(shape.volume())))};
  };
  const std::vector<NamedTensor> two{of("conv1/weights", {2, 3}), of("conv1/biases", {2})};
  const std::vector<NamedTensor> empty{of("none", {0, 3}), of("one", Shape())};
  return {"",
          with_options(0, towers::encode_safetensors(two, {{"format", "penstock variables 1"}})),
          with_options(0, towers::encode_safetensors(empty, {})),
          with_options(1, R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}12345678)"),
          with_options(1, R"({"a":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]},)"
                          R"("b":{"dtype":"U8","shape":[],"data_offsets":[2,3]}}abc)"),
          with_options(1, R"({"a":{"dtype":"I64","shape":[9223372036854775807,3],)"
                          R"("data_offsets":[0,18446744073709551615]}})")};
}

}  // namespace penstock::fuzz
