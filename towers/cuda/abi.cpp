// Compares towers/gpu/tables.h with NVIDIA's headers. It is only compiled, never run.
#include <cublasLt.h>
#include <cudnn.h>
#include <nccl.h>

#include <type_traits>
#include <utility>

#include "towers/gpu/tables.h"

namespace penstock::towers {
namespace {

/// The type by which a parameter is passed: enumerations as int, pointers to objects as any
/// pointer.
template <typename T>
struct Passed {
  using type = std::conditional_t<std::is_enum_v<T> && sizeof(T) == sizeof(int), int, T>;
};
template <typename T>
struct Passed<T*> {
  using type = void*;
};

template <typename F>
struct Form;
template <typename R, typename... A>
struct Form<R (*)(A...)> {
  using type = typename Passed<R>::type (*)(typename Passed<std::remove_cv_t<A>>::type...);
};

template <typename Ours, auto Theirs>
constexpr bool kAlike =
    std::is_same_v<typename Form<Ours>::type, typename Form<decltype(Theirs)>::type>;

#define PENSTOCK_SAME(table, member, function) \
  static_assert(kAlike<decltype(std::declval<table>().member), &function>, #function)

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
PENSTOCK_SAME(Cudnn, create, cudnnCreate);
PENSTOCK_SAME(Cudnn, destroy, cudnnDestroy);
PENSTOCK_SAME(Cudnn, set_stream, cudnnSetStream);
PENSTOCK_SAME(Cudnn, error_string, cudnnGetErrorString);
PENSTOCK_SAME(Cudnn, last_error, cudnnGetLastErrorString);
PENSTOCK_SAME(Cudnn, create_tensor, cudnnCreateTensorDescriptor);
PENSTOCK_SAME(Cudnn, destroy_tensor, cudnnDestroyTensorDescriptor);
PENSTOCK_SAME(Cudnn, set_tensor, cudnnSetTensor4dDescriptor);
PENSTOCK_SAME(Cudnn, create_filter, cudnnCreateFilterDescriptor);
PENSTOCK_SAME(Cudnn, destroy_filter, cudnnDestroyFilterDescriptor);
PENSTOCK_SAME(Cudnn, set_filter, cudnnSetFilter4dDescriptor);
PENSTOCK_SAME(Cudnn, create_convolution, cudnnCreateConvolutionDescriptor);
PENSTOCK_SAME(Cudnn, destroy_convolution, cudnnDestroyConvolutionDescriptor);
PENSTOCK_SAME(Cudnn, set_convolution, cudnnSetConvolution2dDescriptor);
PENSTOCK_SAME(Cudnn, set_math, cudnnSetConvolutionMathType);
PENSTOCK_SAME(Cudnn, choose_forward, cudnnGetConvolutionForwardAlgorithm_v7);
PENSTOCK_SAME(Cudnn, choose_data, cudnnGetConvolutionBackwardDataAlgorithm_v7);
PENSTOCK_SAME(Cudnn, choose_filter, cudnnGetConvolutionBackwardFilterAlgorithm_v7);
PENSTOCK_SAME(Cudnn, room_forward, cudnnGetConvolutionForwardWorkspaceSize);
PENSTOCK_SAME(Cudnn, room_data, cudnnGetConvolutionBackwardDataWorkspaceSize);
PENSTOCK_SAME(Cudnn, room_filter, cudnnGetConvolutionBackwardFilterWorkspaceSize);
PENSTOCK_SAME(Cudnn, data, cudnnConvolutionBackwardData);
PENSTOCK_SAME(Cudnn, forward, cudnnConvolutionForward);
PENSTOCK_SAME(Cudnn, filter, cudnnConvolutionBackwardFilter);
PENSTOCK_SAME(Cudnn, create_pooling, cudnnCreatePoolingDescriptor);
PENSTOCK_SAME(Cudnn, destroy_pooling, cudnnDestroyPoolingDescriptor);
PENSTOCK_SAME(Cudnn, set_pooling, cudnnSetPooling2dDescriptor);
PENSTOCK_SAME(Cudnn, create_activation, cudnnCreateActivationDescriptor);
PENSTOCK_SAME(Cudnn, destroy_activation, cudnnDestroyActivationDescriptor);
PENSTOCK_SAME(Cudnn, set_activation, cudnnSetActivationDescriptor);
PENSTOCK_SAME(Cudnn, pool, cudnnPoolingForward);
PENSTOCK_SAME(Cudnn, pool_back, cudnnPoolingBackward);
PENSTOCK_SAME(Cudnn, activate, cudnnActivationForward);
PENSTOCK_SAME(Cudnn, activate_back, cudnnActivationBackward);
PENSTOCK_SAME(Cudnn, add, cudnnAddTensor);
static_assert(Cudnn::kFloat == CUDNN_DATA_FLOAT && Cudnn::kBf16 == CUDNN_DATA_BFLOAT16);
static_assert(Cudnn::kNchw == CUDNN_TENSOR_NCHW && Cudnn::kNhwc == CUDNN_TENSOR_NHWC);
static_assert(Cudnn::kCrossCorrelation == CUDNN_CROSS_CORRELATION);
static_assert(Cudnn::kDefaultMath == CUDNN_DEFAULT_MATH &&
              Cudnn::kTensorMath == CUDNN_TENSOR_OP_MATH &&
              Cudnn::kTensorMathConverting == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION &&
              Cudnn::kFmaMath == CUDNN_FMA_MATH);
static_assert(Cudnn::kDeterministic == CUDNN_DETERMINISTIC);
static_assert(Cudnn::kAverage == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING);
static_assert(Cudnn::kRelu == CUDNN_ACTIVATION_RELU && Cudnn::kPropagateNan == CUDNN_PROPAGATE_NAN);
template <typename T>
constexpr bool kAlgorithm = sizeof(Cudnn::Algorithm) == sizeof(T) &&
                            offsetof(Cudnn::Algorithm, memory) == offsetof(T, memory) &&
                            offsetof(Cudnn::Algorithm, determinism) == offsetof(T, determinism) &&
                            offsetof(Cudnn::Algorithm, math) == offsetof(T, mathType);
static_assert(kAlgorithm<cudnnConvolutionFwdAlgoPerf_t> &&
              kAlgorithm<cudnnConvolutionBwdDataAlgoPerf_t> &&
              kAlgorithm<cudnnConvolutionBwdFilterAlgoPerf_t>);

PENSTOCK_SAME(CublasLt, create, cublasLtCreate);
PENSTOCK_SAME(CublasLt, destroy, cublasLtDestroy);
PENSTOCK_SAME(CublasLt, error_string, cublasLtGetStatusString);
PENSTOCK_SAME(CublasLt, create_matmul, cublasLtMatmulDescCreate);
PENSTOCK_SAME(CublasLt, destroy_matmul, cublasLtMatmulDescDestroy);
PENSTOCK_SAME(CublasLt, set_attribute, cublasLtMatmulDescSetAttribute);
PENSTOCK_SAME(CublasLt, create_layout, cublasLtMatrixLayoutCreate);
PENSTOCK_SAME(CublasLt, destroy_layout, cublasLtMatrixLayoutDestroy);
PENSTOCK_SAME(CublasLt, matmul, cublasLtMatmul);
static_assert(CublasLt::kF32 == CUDA_R_32F && CublasLt::kBf16 == CUDA_R_16BF);
static_assert(CublasLt::kCompute32 == CUBLAS_COMPUTE_32F &&
              CublasLt::kComputeTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(CublasLt::kTransposeA == CUBLASLT_MATMUL_DESC_TRANSA &&
              CublasLt::kTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(CublasLt::kAsItIs == CUBLAS_OP_N && CublasLt::kTransposed == CUBLAS_OP_T);

PENSTOCK_SAME(Nccl, init_all, ncclCommInitAll);
PENSTOCK_SAME(Nccl, unique_id, ncclGetUniqueId);
// The types that are passed by value must have the same size.
static_assert(sizeof(Nccl::UniqueId) == sizeof(ncclUniqueId) &&
              alignof(Nccl::UniqueId) == alignof(ncclUniqueId));
static_assert(std::is_same_v<decltype(&ncclCommInitRank),
                             ncclResult_t (*)(ncclComm_t*, int, ncclUniqueId, int)>);
PENSTOCK_SAME(Nccl, destroy, ncclCommDestroy);
PENSTOCK_SAME(Nccl, abort, ncclCommAbort);
PENSTOCK_SAME(Nccl, async_error, ncclCommGetAsyncError);
PENSTOCK_SAME(Nccl, all_reduce, ncclAllReduce);
PENSTOCK_SAME(Nccl, group_start, ncclGroupStart);
PENSTOCK_SAME(Nccl, group_end, ncclGroupEnd);
PENSTOCK_SAME(Nccl, error_string, ncclGetErrorString);
static_assert(Nccl::kFloat == ncclFloat32 && Nccl::kSum == ncclSum);
static_assert(Nccl::kSuccess == ncclSuccess && Nccl::kInProgress == ncclInProgress);

}  // namespace
}  // namespace penstock::towers
