// The functions of NVIDIA's libraries that towers call, as tables that tests replace. They are
// declared here by their ABI, so that everything except the kernels compiles without CUDA. If
// NVIDIA's headers are available, towers/cuda/abi.cpp compares these declarations with them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::towers {

/// cuDNN's classic API: a part of cudnn_ops.h and cudnn_cnn.h. Status 0 means success.
struct Cudnn {
  static constexpr int kFloat = 0, kBf16 = 9;
  static constexpr int kNchw = 0, kNhwc = 1;
  static constexpr int kCrossCorrelation = 1;
  static constexpr int kDefaultMath = 0, kTensorMath = 1, kTensorMathConverting = 2, kFmaMath = 3;
  static constexpr int kDeterministic = 1;
  static constexpr int kAverage = 2;  // excludes padding
  static constexpr int kRelu = 1, kPropagateNan = 1;
  /// cudnnConvolutionFwdAlgoPerf_t and its two counterparts.
  struct Algorithm {
    int algorithm, status;
    float time;
    std::size_t memory;
    int determinism, math;
    int reserved[3];
  };

  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*set_stream)(void*, void*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  /// Describes the calling thread's last error in words.
  void (*last_error)(char*, std::size_t) = nullptr;
  int (*create_tensor)(void**) = nullptr;
  int (*destroy_tensor)(void*) = nullptr;
  int (*set_tensor)(void*, int format, int type, int n, int c, int h, int w) = nullptr;
  int (*create_filter)(void**) = nullptr;
  int (*destroy_filter)(void*) = nullptr;
  int (*set_filter)(void*, int type, int format, int out, int in, int h, int w) = nullptr;
  int (*create_convolution)(void**) = nullptr;
  int (*destroy_convolution)(void*) = nullptr;
  int (*set_convolution)(void*, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                         int dilation_w, int mode, int compute) = nullptr;
  int (*set_math)(void*, int) = nullptr;
  /// Handle, then: x, w, convolution, y; w, dy, convolution, dx; x, dy, convolution, dw.
  using Choose = int (*)(void*, void*, void*, void*, void*, int wanted, int* got, Algorithm*);
  Choose choose_forward = nullptr, choose_data = nullptr, choose_filter = nullptr;
  using Room = int (*)(void*, void*, void*, void*, void*, int algorithm, std::size_t*);
  Room room_forward = nullptr, room_data = nullptr, room_filter = nullptr;
  /// Handle, alpha, two operands with their descriptors, convolution, algorithm, workspace, beta,
  /// the result with its descriptor.
  using Convolve = int (*)(void*, const void*, void*, const void*, void*, const void*, void*, int,
                           void*, std::size_t, const void*, void*, void*);
  Convolve forward = nullptr, data = nullptr, filter = nullptr;
  int (*create_pooling)(void**) = nullptr;
  int (*destroy_pooling)(void*) = nullptr;
  int (*set_pooling)(void*, int mode, int nan, int height, int width, int pad_h, int pad_w,
                     int stride_h, int stride_w) = nullptr;
  int (*create_activation)(void**) = nullptr;
  int (*destroy_activation)(void*) = nullptr;
  int (*set_activation)(void*, int mode, int nan, double limit) = nullptr;
  /// Handle, the operation's descriptor, alpha, x with its descriptor, beta, y with its descriptor.
  using Apply = int (*)(void*, void*, const void*, void*, const void*, const void*, void*, void*);
  Apply pool = nullptr, activate = nullptr;
  /// Handle, the operation's descriptor, alpha, y, dy, x, beta, dx.
  using Return = int (*)(void*, void*, const void*, void*, const void*, void*, const void*, void*,
                         const void*, const void*, void*, void*);
  Return pool_back = nullptr, activate_back = nullptr;
  /// Computes c = alpha * a + beta * c, where a has extent 1 in some dimensions.
  int (*add)(void*, const void* alpha, void* a_desc, const void* a, const void* beta, void* c_desc,
             void* c) = nullptr;
};

/// A part of cublasLt.h, column-major.
struct CublasLt {
  static constexpr int kF32 = 0, kBf16 = 14;                   // cudaDataType
  static constexpr int kCompute32 = 68, kComputeTf32 = 77;     // cublasComputeType_t
  static constexpr int kTransposeA = 3, kTransposeB = 4;       // cublasLtMatmulDescAttributes_t
  static constexpr std::int32_t kAsItIs = 0, kTransposed = 1;  // cublasOperation_t

  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create_matmul)(void**, int compute, int scale) = nullptr;
  int (*destroy_matmul)(void*) = nullptr;
  int (*set_attribute)(void*, int attribute, const void*, std::size_t) = nullptr;
  int (*create_layout)(void**, int type, std::uint64_t rows, std::uint64_t columns,
                       std::int64_t leading) = nullptr;
  int (*destroy_layout)(void*) = nullptr;
  int (*matmul)(void*, void* form, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
                void* d_layout, const void* algorithm, void* workspace, std::size_t bytes,
                void* stream) = nullptr;
};

/// A part of nccl.h.
struct Nccl {
  static constexpr int kFloat = 7, kSum = 0;
  static constexpr int kSuccess = 0, kInProgress = 7;

  struct UniqueId {
    char bytes[128];
  };

  int (*init_all)(void** communicators, int count, const int* devices) = nullptr;
  int (*unique_id)(UniqueId*) = nullptr;
  int (*init_rank)(void** communicator, int count, UniqueId id, int rank) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*abort)(void*) = nullptr;
  int (*async_error)(void*, int*) = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t count, int type, int op, void* communicator,
                    void* stream) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  const char* (*error_string)(int) = nullptr;
};

}  // namespace penstock::towers
