/* Compiles CUDA C to a cubin at run time, by NVRTC. Needs no device and no driver. */
#ifndef ETT_CUDA_COMPILE_H
#define ETT_CUDA_COMPILE_H

#include <stddef.h>

#include "base/err.h"

/* Element types of tensors. fp8 (e4m3) is for operands of products; kernels use bf16. */
typedef enum ett_cuda_dtype {
  ETT_CUDA_FP16,
  ETT_CUDA_BF16,
  ETT_CUDA_FP32,
  ETT_CUDA_FP8,
  ETT_CUDA_INT64,
} ett_cuda_dtype;

size_t ett_cuda_dtype_bytes(ett_cuda_dtype dtype);

/* Compiles an operator's CUDA C for compute capability major*10+minor, such as 90;
 * `label` names it in messages. A prelude before the source defines the element type T
 * (from dtype), `float load(const T *, long long)`, `void store(T *, long long, float)`,
 * block_sum(), block_max(), and the loops each_element(i, n) of a grid and each_column(j,
 * cols) of a block. Line numbers in messages are those of the operator's file. On success
 * *cubin (free() it) holds *bytes bytes. On failure err holds the first line of the
 * compiler's log; *log (free() it; log may be NULL) holds all of it. */
int ett_cuda_compile(const char *source, const char *label, int first_line,
                     ett_cuda_dtype dtype, int capability, void **cubin, size_t *bytes,
                     char **log, ett_err *err);

#endif
