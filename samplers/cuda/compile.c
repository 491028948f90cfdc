#include "samplers/cuda/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "samplers/cuda/libraries.h"

/* Conversions are implemented here, so that kernels compile without the toolkit's
 * headers. bf16 rounds to nearest even; NaN stays a quiet NaN. */
static const char prelude[] =
    "#if ETT_DTYPE == 0\n"
    "struct T { unsigned short bits; };\n"
    "static __device__ __forceinline__ float load(const T *p, long long i) {\n"
    "  float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(p[i].bits)); return f; "
    "}\n"
    "static __device__ __forceinline__ void store(T *p, long long i, float f) {\n"
    "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(p[i].bits) : \"f\"(f)); }\n"
    "#elif ETT_DTYPE == 1\n"
    "struct T { unsigned short bits; };\n"
    "static __device__ __forceinline__ float load(const T *p, long long i) {\n"
    "  return __uint_as_float((unsigned)p[i].bits << 16); }\n"
    "static __device__ __forceinline__ void store(T *p, long long i, float f) {\n"
    "  unsigned u = __float_as_uint(f);\n"
    "  p[i].bits = f != f ? 0x7fc0 : (u + 0x7fff + ((u >> 16) & 1)) >> 16; }\n"
    "#else\n"
    "typedef float T;\n"
    "static __device__ __forceinline__ float load(const T *p, long long i) {\n"
    "  return p[i]; }\n"
    "static __device__ __forceinline__ void store(T *p, long long i, float f) {\n"
    "  p[i] = f; }\n"
    "#endif\n"
    "#define each_element(i, n) \\\n"
    "  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (n); \\\n"
    "       i += (long long)gridDim.x * blockDim.x)\n"
    "#define each_column(j, cols) \\\n"
    "  for (long long j = threadIdx.x; j < (cols); j += blockDim.x)\n"
    "static __device__ float block_sum(float v) {\n"
    "  __shared__ float partial[33];\n"
    "  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);\n"
    "  __syncthreads();\n"
    "  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;\n"
    "  __syncthreads();\n"
    "  if (threadIdx.x < 32) {\n"
    "    v = threadIdx.x < (blockDim.x + 31) / 32 ? partial[threadIdx.x] : 0.0f;\n"
    "    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);\n"
    "    if (threadIdx.x == 0) partial[32] = v;\n"
    "  }\n"
    "  __syncthreads();\n"
    "  return partial[32];\n"
    "}\n"
    "static __device__ float block_max(float v) {\n"
    "  __shared__ float partial[33];\n"
    "  for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));\n"
    "  __syncthreads();\n"
    "  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;\n"
    "  __syncthreads();\n"
    "  if (threadIdx.x < 32) {\n"
    "    v = threadIdx.x < (blockDim.x + 31) / 32 ? partial[threadIdx.x] : -3.4e38f;\n"
    "    for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));\n"
    "    if (threadIdx.x == 0) partial[32] = v;\n"
    "  }\n"
    "  __syncthreads();\n"
    "  return partial[32];\n"
    "}\n";

size_t ett_cuda_dtype_bytes(ett_cuda_dtype dtype) {
  static const size_t bytes[] = {[ETT_CUDA_FP16] = 2,
                                 [ETT_CUDA_BF16] = 2,
                                 [ETT_CUDA_FP32] = 4,
                                 [ETT_CUDA_FP8] = 1,
                                 [ETT_CUDA_INT64] = 8};
  return bytes[dtype];
}

/* The compiler's log, or NULL; free() it. */
static char *read_log(const ett_cuda_nvrtc *nvrtc, nvrtcProgram program) {
  size_t bytes = 0;
  if (nvrtc->nvrtcGetProgramLogSize(program, &bytes) != NVRTC_SUCCESS || bytes < 2)
    return NULL;
  char *log = malloc(bytes);
  if (log && nvrtc->nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS) {
    free(log);
    return NULL;
  }
  return log;
}

static int compile(const ett_cuda_nvrtc *nvrtc, nvrtcProgram program, const char *label,
                   ett_cuda_dtype dtype, int capability, void **cubin, size_t *bytes,
                   char **log, ett_err *err) {
  char arch[32], element[32];
  int kernel_dtype = dtype == ETT_CUDA_FP8 ? ETT_CUDA_BF16 : (int)dtype;
  snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d", capability);
  snprintf(element, sizeof element, "-DETT_DTYPE=%d", kernel_dtype);
  const char *options[] = {arch, element, "--std=c++17", "-default-device",
                           "--diag-suppress=177"};
  nvrtcResult status = nvrtc->nvrtcCompileProgram(program, 5, options);
  if (status != NVRTC_SUCCESS) {
    char *text = read_log(nvrtc, program);
    const char *why = text ? text : nvrtc->nvrtcGetErrorString(status);
    ett_err_set(err, ETT_ERR_FORMAT, "%s: the kernel does not compile for sm_%d: %.*s",
                label, capability, (int)strcspn(why, "\n"), why);
    if (log)
      *log = text;
    else
      free(text);
    return -1;
  }
  if (nvrtc->nvrtcGetCUBINSize(program, bytes) != NVRTC_SUCCESS || *bytes == 0)
    return ett_err_set(err, ETT_ERR_INTERNAL, "%s: the compiler gave no code for sm_%d",
                       label, capability);
  char *code = malloc(*bytes);
  if (!code)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a compiled kernel");
  if (nvrtc->nvrtcGetCUBIN(program, code) != NVRTC_SUCCESS) {
    free(code);
    return ett_err_set(err, ETT_ERR_INTERNAL, "%s: cannot read the compiled kernel",
                       label);
  }
  *cubin = code;
  return 0;
}

int ett_cuda_compile(const char *source, const char *label, int first_line,
                     ett_cuda_dtype dtype, int capability, void **cubin, size_t *bytes,
                     char **log, ett_err *err) {
  const ett_cuda_nvrtc *nvrtc = ett_cuda_nvrtc_open(err);
  *cubin = NULL;
  *bytes = 0;
  if (log)
    *log = NULL;
  if (!nvrtc)
    return -1;
  size_t room = sizeof prelude + strlen(source) + 32;
  char *text = malloc(room);
  if (!text)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a kernel's source");
  snprintf(text, room, "%s#line %d\n%s", prelude, first_line, source);
  nvrtcProgram program;
  nvrtcResult status = nvrtc->nvrtcCreateProgram(&program, text, label, 0, NULL, NULL);
  free(text);
  if (status != NVRTC_SUCCESS)
    return ett_err_set(err, ETT_ERR_INTERNAL, "%s: %s", label,
                       nvrtc->nvrtcGetErrorString(status));
  int result = compile(nvrtc, program, label, dtype, capability, cubin, bytes, log, err);
  nvrtc->nvrtcDestroyProgram(&program);
  return result;
}
