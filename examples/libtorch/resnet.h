// ResNet-18 in libtorch's words, with the names that torchvision gives its parts. Source: He et
// al., 2016.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <torch/nn.h>

inline torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                     std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(register_module("conv1", convolution(in, out, 3, stride))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(out))),
        conv2(register_module("conv2", convolution(out, out, 3, 1))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(out))) {
    if (stride == 1 && in == out) return;
    downsample = register_module(
        "downsample",
        torch::nn::Sequential(convolution(in, out, 1, stride), torch::nn::BatchNorm2d(out)));
  }
  torch::Tensor forward(const torch::Tensor& in) {
    const torch::Tensor body = bn2(conv2(torch::relu(bn1(conv1(in)))));
    return torch::relu(body + (downsample ? downsample->forward(in) : in));
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(Block);

struct ResNetImpl : torch::nn::Module {
  explicit ResNetImpl(std::int64_t classes)
      : conv1(register_module("conv1", convolution(3, 64, 7, 2))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(64))) {
    std::int64_t in = 64;
    for (const std::int64_t out : {64, 128, 256, 512}) {
      layers.push_back(register_module(
          "layer" + std::to_string(layers.size() + 1),
          torch::nn::Sequential(Block(in, out, out == 64 ? 1 : 2), Block(out, out, 1))));
      in = out;
    }
    fc = register_module("fc", torch::nn::Linear(512, classes));
  }
  torch::Tensor forward(const torch::Tensor& image) {
    torch::Tensor x = torch::relu(bn1(conv1(image)));
    x = torch::max_pool2d(x, 3, 2, 1);
    for (torch::nn::Sequential& layer : layers) x = layer->forward(x);
    return fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  std::vector<torch::nn::Sequential> layers;
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(ResNet);

/// Values of all parameters, in their order, as f64 one behind the other.
inline void read_parameters(ResNet& model, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const torch::NoGradGuard no_gradients;
  for (torch::Tensor parameter : model->parameters()) {
    torch::Tensor values = torch::empty(parameter.sizes(), torch::kDouble);
    file.read(static_cast<char*>(values.data_ptr()), static_cast<std::streamsize>(values.nbytes()));
    TORCH_CHECK(file, path, " ends too soon");
    parameter.copy_(values);
  }
}
