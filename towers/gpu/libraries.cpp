#include "towers/gpu/libraries.h"

#include <dlfcn.h>

#include <filesystem>
#include <initializer_list>
#include <string>

#include <penstock/error.h>

namespace penstock::towers {
namespace {

constexpr const char* kModule = "libpenstock_towers_cuda.so";

/// The first of these files that can be opened. It is never closed.
class Library {
 public:
  Library(std::string name, const std::initializer_list<std::string>& files)
      : name_(std::move(name)) {
    std::string why;
    for (const std::string& file : files) {
      handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      const char* said = dlerror();
      if (why.empty() && said != nullptr) why = said;
    }
    throw Error(ErrorCode::not_found, "training on cuda devices needs " + name_ + ": " + why);
  }

  template <typename F>
  void find(F& function, const char* symbol) const {
    function = reinterpret_cast<F>(dlsym(handle_, symbol));
    if (function == nullptr)
      throw Error(ErrorCode::not_found, name_ + " here has no " + std::string(symbol));
  }

 private:
  const std::string name_;
  void* handle_ = nullptr;
};

Cudnn open_cudnn() {
  const Library library("cuDNN 9", {"libcudnn.so.9"});
  Cudnn t;
  library.find(t.create, "cudnnCreate");
  library.find(t.destroy, "cudnnDestroy");
  library.find(t.set_stream, "cudnnSetStream");
  library.find(t.error_string, "cudnnGetErrorString");
  library.find(t.last_error, "cudnnGetLastErrorString");
  library.find(t.create_tensor, "cudnnCreateTensorDescriptor");
  library.find(t.destroy_tensor, "cudnnDestroyTensorDescriptor");
  library.find(t.set_tensor, "cudnnSetTensor4dDescriptor");
  library.find(t.create_filter, "cudnnCreateFilterDescriptor");
  library.find(t.destroy_filter, "cudnnDestroyFilterDescriptor");
  library.find(t.set_filter, "cudnnSetFilter4dDescriptor");
  library.find(t.create_convolution, "cudnnCreateConvolutionDescriptor");
  library.find(t.destroy_convolution, "cudnnDestroyConvolutionDescriptor");
  library.find(t.set_convolution, "cudnnSetConvolution2dDescriptor");
  library.find(t.set_math, "cudnnSetConvolutionMathType");
  library.find(t.choose_forward, "cudnnGetConvolutionForwardAlgorithm_v7");
  library.find(t.choose_data, "cudnnGetConvolutionBackwardDataAlgorithm_v7");
  library.find(t.choose_filter, "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  library.find(t.room_forward, "cudnnGetConvolutionForwardWorkspaceSize");
  library.find(t.room_data, "cudnnGetConvolutionBackwardDataWorkspaceSize");
  library.find(t.room_filter, "cudnnGetConvolutionBackwardFilterWorkspaceSize");
  library.find(t.forward, "cudnnConvolutionForward");
  library.find(t.data, "cudnnConvolutionBackwardData");
  library.find(t.filter, "cudnnConvolutionBackwardFilter");
  library.find(t.create_pooling, "cudnnCreatePoolingDescriptor");
  library.find(t.destroy_pooling, "cudnnDestroyPoolingDescriptor");
  library.find(t.set_pooling, "cudnnSetPooling2dDescriptor");
  library.find(t.create_activation, "cudnnCreateActivationDescriptor");
  library.find(t.destroy_activation, "cudnnDestroyActivationDescriptor");
  library.find(t.set_activation, "cudnnSetActivationDescriptor");
  library.find(t.pool, "cudnnPoolingForward");
  library.find(t.pool_back, "cudnnPoolingBackward");
  library.find(t.activate, "cudnnActivationForward");
  library.find(t.activate_back, "cudnnActivationBackward");
  library.find(t.add, "cudnnAddTensor");
  return t;
}

CublasLt open_blas() {
  const Library library("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"});
  CublasLt t;
  library.find(t.create, "cublasLtCreate");
  library.find(t.destroy, "cublasLtDestroy");
  library.find(t.error_string, "cublasLtGetStatusString");
  library.find(t.create_matmul, "cublasLtMatmulDescCreate");
  library.find(t.destroy_matmul, "cublasLtMatmulDescDestroy");
  library.find(t.set_attribute, "cublasLtMatmulDescSetAttribute");
  library.find(t.create_layout, "cublasLtMatrixLayoutCreate");
  library.find(t.destroy_layout, "cublasLtMatrixLayoutDestroy");
  library.find(t.matmul, "cublasLtMatmul");
  return t;
}

Nccl open_nccl() {
  const Library library("NCCL", {"libnccl.so.2"});
  Nccl t;
  library.find(t.init_all, "ncclCommInitAll");
  library.find(t.unique_id, "ncclGetUniqueId");
  library.find(t.init_rank, "ncclCommInitRank");
  library.find(t.destroy, "ncclCommDestroy");
  library.find(t.abort, "ncclCommAbort");
  library.find(t.async_error, "ncclCommGetAsyncError");
  library.find(t.all_reduce, "ncclAllReduce");
  library.find(t.group_start, "ncclGroupStart");
  library.find(t.group_end, "ncclGroupEnd");
  library.find(t.error_string, "ncclGetErrorString");
  return t;
}

const Nccl& nccl() {
  static const Nccl opened = open_nccl();
  return opened;
}

Kernels open_kernels() {
  std::error_code ignored;
  const std::string folder =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
  const Library library("Penstock's kernels",
                        {folder + "/" + kModule, folder + "/../lib/" + kModule,
                         folder + "/../lib/x86_64-linux-gnu/" + kModule, kModule});
  KernelsFn function = nullptr;
  library.find(function, kKernelsSymbol);
  const Kernels& kernels = *function();
  if (kernels.version != Kernels::kVersion)
    throw Error(ErrorCode::not_found, std::string(kModule) + " is not of this version");
  return kernels;
}

}  // namespace

const GpuLibraries& gpu_libraries() {
  static const GpuLibraries libraries{open_cudnn(), open_blas(), &nccl, open_kernels()};
  return libraries;
}

}  // namespace penstock::towers
