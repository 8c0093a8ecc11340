/* The part of libnvjpeg that bench/peers/jpeg_decoders.py calls, on the host by libjpeg: its calls can be tried without a GPU.
 * Two back ends fail: HYBRID crashes, and GPU_HYBRID hangs. With NVIDIA's header (-DNVIDIA) the compiler checks these
 * prototypes, and `main` prints the values that Python repeats. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jpeglib.h>

#ifdef NVIDIA
#include <nvjpeg.h>
#else
typedef int nvjpegStatus_t, nvjpegBackend_t, nvjpegOutputFormat_t, libraryPropertyType;
typedef struct {
  unsigned char* channel[4];
  size_t pitch[4];
} nvjpegImage_t;
typedef struct nvjpegHandle* nvjpegHandle_t;
typedef struct nvjpegJpegState* nvjpegJpegState_t;
typedef struct CUstream_st* cudaStream_t;
typedef void nvjpegDevAllocator_t, nvjpegPinnedAllocator_t;
#define NVJPEGAPI
enum { NVJPEG_STATUS_SUCCESS = 0, NVJPEG_STATUS_INVALID_PARAMETER = 2, NVJPEG_OUTPUT_RGB = 3 };
#endif

struct nvjpegHandle {
  int backend;
};
struct nvjpegJpegState {
  int batch;
};

nvjpegStatus_t NVJPEGAPI nvjpegGetProperty(libraryPropertyType type, int* value) {
  *value = 90 + (int)type;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t NVJPEGAPI nvjpegCreateEx(nvjpegBackend_t backend, nvjpegDevAllocator_t* device, nvjpegPinnedAllocator_t* pinned,
                                        unsigned int flags, nvjpegHandle_t* handle) {
  if (device != NULL || pinned != NULL || flags != 0 || (int)backend < 1 || (int)backend > 5) return NVJPEG_STATUS_INVALID_PARAMETER;
  *handle = malloc(sizeof(**handle));
  (*handle)->backend = (int)backend;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t NVJPEGAPI nvjpegGetHardwareDecoderInfo(nvjpegHandle_t handle, unsigned int* engines, unsigned int* cores) {
  *engines = (unsigned)handle->backend;
  *cores = 1;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t NVJPEGAPI nvjpegJpegStateCreate(nvjpegHandle_t handle, nvjpegJpegState_t* state) {
  if (handle->backend < 1) return NVJPEG_STATUS_INVALID_PARAMETER;
  *state = calloc(1, sizeof(**state));
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t NVJPEGAPI nvjpegJpegStateDestroy(nvjpegJpegState_t state) {
  free(state);
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t NVJPEGAPI nvjpegDecodeBatchedInitialize(nvjpegHandle_t handle, nvjpegJpegState_t state, int batch, int threads,
                                                       nvjpegOutputFormat_t format) {
  if (handle->backend < 1 || threads != 1 || format != NVJPEG_OUTPUT_RGB) return NVJPEG_STATUS_INVALID_PARAMETER;
  state->batch = batch;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t NVJPEGAPI nvjpegDecodeBatched(nvjpegHandle_t handle, nvjpegJpegState_t state, const unsigned char* const* data,
                                             const size_t* lengths, nvjpegImage_t* images, cudaStream_t stream) {
  if (handle->backend == 1) abort();
  if (handle->backend == 2) pause();
  if (handle->backend < 1 || stream != NULL) return NVJPEG_STATUS_INVALID_PARAMETER;
  for (int i = 0; i < state->batch; ++i) {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, (unsigned char*)data[i], lengths[i]);
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = JCS_RGB;
    jpeg_start_decompress(&jpeg);
    unsigned char* row = malloc(3 * (size_t)jpeg.output_width);
    while (jpeg.output_scanline < jpeg.output_height) {
      const size_t y = jpeg.output_scanline;
      jpeg_read_scanlines(&jpeg, &row, 1);
      for (size_t x = 0; x < jpeg.output_width; ++x)
        for (int c = 0; c < 3; ++c) images[i].channel[c][y * images[i].pitch[c] + x] = row[3 * x + (size_t)c];
    }
    free(row);
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
  }
  return NVJPEG_STATUS_SUCCESS;
}

/* An image to decode. */
int write_jpeg(const char* path, int width, int height) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) return 1;
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_stdio_dest(&jpeg, file);
  jpeg.image_width = (JDIMENSION)width;
  jpeg.image_height = (JDIMENSION)height;
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  unsigned char* row = malloc(3 * (size_t)width);
  while (jpeg.next_scanline < jpeg.image_height) {
    for (int i = 0; i < 3 * width; ++i) row[i] = (unsigned char)(i * (1 + i % 3) + 5 * (int)jpeg.next_scanline);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  free(row);
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  return fclose(file);
}

#ifdef NVIDIA
int main(void) {
  printf("{\"hybrid\": %d, \"gpu_hybrid\": %d, \"hardware\": %d, \"gpu_hybrid_device\": %d, \"hardware_device\": %d, \"rgb\": %d,\n",
         NVJPEG_BACKEND_HYBRID, NVJPEG_BACKEND_GPU_HYBRID, NVJPEG_BACKEND_HARDWARE, NVJPEG_BACKEND_GPU_HYBRID_DEVICE,
         NVJPEG_BACKEND_HARDWARE_DEVICE, NVJPEG_OUTPUT_RGB);
  printf(" \"success\": %d, \"major\": %d, \"size\": %zu, \"pitch\": %zu, \"enum\": %zu}\n", NVJPEG_STATUS_SUCCESS, MAJOR_VERSION,
         sizeof(nvjpegImage_t), offsetof(nvjpegImage_t, pitch), sizeof(nvjpegBackend_t));
  return 0;
}
#endif
