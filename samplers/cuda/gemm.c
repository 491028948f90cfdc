/* Products by cuBLASLt. cuBLAS is column-major, where a row-major C = A·B is C' = B'·A'.
 * So the operands are swapped and nothing is transposed. */
#include <stdlib.h>
#include <string.h>

#include "samplers/cuda/work.h"

typedef struct gemm_launch {
  ett_cuda_launch base;
  ett_cuda_device *device;
  const ett_cuda_blas *blas;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t first, second, result; /* B, A, C of the row-major problem */
  cublasLtMatmulAlgo_t algorithm;
  CUdeviceptr a, b, c;
  float alpha, beta;
} gemm_launch;

#define CANDIDATES 16

static int fail(ett_cuda_device *device, const ett_cuda_blas *blas, cublasStatus_t status,
                const char *doing, ett_err *err) {
  return ett_cuda_library_fail(
      device, status == CUBLAS_STATUS_ALLOC_FAILED ? ETT_ERR_MEMORY : ETT_ERR_IO, doing,
      blas->cublasLtGetStatusString(status), err);
}

static cublasStatus_t multiply(gemm_launch *launch,
                               const cublasLtMatmulAlgo_t *algorithm) {
  return launch->blas->cublasLtMatmul(
      launch->device->blas, launch->operation, &launch->alpha, (const void *)launch->b,
      launch->first, (const void *)launch->a, launch->second, &launch->beta,
      (const void *)launch->c, launch->result, (void *)launch->c, launch->result,
      algorithm, (void *)launch->device->workspace, ETT_CUDA_WORKSPACE_BYTES,
      (cudaStream_t)launch->device->stream);
}

static int run_gemm(ett_cuda_launch *base, ett_err *err) {
  gemm_launch *launch = (gemm_launch *)base;
  cublasStatus_t status = multiply(launch, &launch->algorithm);
  return status == CUBLAS_STATUS_SUCCESS
             ? 0
             : fail(launch->device, launch->blas, status, "cuBLASLt: multiplying", err);
}

static void free_gemm(ett_cuda_launch *base) {
  gemm_launch *launch = (gemm_launch *)base;
  const ett_cuda_blas *blas = launch->blas;
  if (launch->first)
    blas->cublasLtMatrixLayoutDestroy(launch->first);
  if (launch->second)
    blas->cublasLtMatrixLayoutDestroy(launch->second);
  if (launch->result)
    blas->cublasLtMatrixLayoutDestroy(launch->result);
  if (launch->operation)
    blas->cublasLtMatmulDescDestroy(launch->operation);
  free(launch);
}

static cudaDataType_t data_type(ett_cuda_dtype dtype) {
  return dtype == ETT_CUDA_FP16   ? CUDA_R_16F
         : dtype == ETT_CUDA_BF16 ? CUDA_R_16BF
         : dtype == ETT_CUDA_FP8  ? CUDA_R_8F_E4M3
                                  : CUDA_R_32F;
}

/* A row-major rows×columns matrix is a column-major columns×rows one. */
static cublasStatus_t make_layout(const ett_cuda_blas *blas,
                                  cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                  long long rows, long long columns, long long batch) {
  cublasStatus_t status = blas->cublasLtMatrixLayoutCreate(
      layout, type, (uint64_t)columns, (uint64_t)rows, columns);
  int32_t count = (int32_t)batch;
  int64_t stride = (int64_t)rows * columns;
  if (status == CUBLAS_STATUS_SUCCESS && batch > 1)
    status = blas->cublasLtMatrixLayoutSetAttribute(
        *layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  if (status == CUBLAS_STATUS_SUCCESS && batch > 1)
    status = blas->cublasLtMatrixLayoutSetAttribute(
        *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return status;
}

static cublasStatus_t describe(gemm_launch *launch, const ett_cuda_gemm *gemm,
                               cudaDataType_t operand, cudaDataType_t result) {
  const ett_cuda_blas *blas = launch->blas;
  /* The transposes of the swapped operands: B comes first. */
  int32_t first = gemm->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  int32_t second = gemm->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  int8_t fast = gemm->fast != 0;
  cublasStatus_t status =
      blas->cublasLtMatmulDescCreate(&launch->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas->cublasLtMatmulDescSetAttribute(
        launch->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas->cublasLtMatmulDescSetAttribute(
        launch->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  if (status == CUBLAS_STATUS_SUCCESS && fast)
    status = blas->cublasLtMatmulDescSetAttribute(
        launch->operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = make_layout(blas, &launch->first, operand, gemm->trans_b ? gemm->n : gemm->k,
                         gemm->trans_b ? gemm->k : gemm->n, gemm->batch);
  if (status == CUBLAS_STATUS_SUCCESS)
    status =
        make_layout(blas, &launch->second, operand, gemm->trans_a ? gemm->k : gemm->m,
                    gemm->trans_a ? gemm->m : gemm->k, gemm->batch);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = make_layout(blas, &launch->result, result, gemm->m, gemm->n, gemm->batch);
  return status;
}

/* Milliseconds of one algorithm: the best of three runs after a warm-up, or -1. */
static float time_algorithm(gemm_launch *launch, const cublasLtMatmulAlgo_t *algorithm) {
  const ett_cuda_driver *driver = launch->device->driver;
  CUstream stream = launch->device->stream;
  const CUevent *events = ett_cuda_device_events(launch->device, 2, NULL);
  float best = -1;
  for (int i = 0; events && i < 4; i++) {
    float elapsed;
    if (driver->cuEventRecord(events[0], stream) != CUDA_SUCCESS ||
        multiply(launch, algorithm) != CUBLAS_STATUS_SUCCESS ||
        driver->cuEventRecord(events[1], stream) != CUDA_SUCCESS ||
        ett_cuda_device_wait(launch->device, 60, 0, NULL) != 0 ||
        driver->cuEventElapsedTime(&elapsed, events[0], events[1]) != CUDA_SUCCESS)
      break;
    if (i > 0 && (best < 0 || elapsed < best))
      best = elapsed;
  }
  return best;
}

/* The largest power of two, up to 256, that divides an address. */
static uint32_t alignment_of(CUdeviceptr address) {
  uint32_t alignment = 256;
  while (address % alignment != 0)
    alignment /= 2;
  return alignment;
}

/* Limits of the algorithm: the workspace, and the alignment of the operands, of which
 * views may have less than the 256 bytes that are the default. */
static cublasStatus_t prefer(const gemm_launch *launch,
                             cublasLtMatmulPreference_t preference) {
  const ett_cuda_blas *blas = launch->blas;
  const uint64_t workspace = ETT_CUDA_WORKSPACE_BYTES;
  const struct {
    cublasLtMatmulPreferenceAttributes_t name;
    CUdeviceptr address; /* in the order of the swapped operands */
  } operands[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, launch->b},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, launch->a},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, launch->c},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, launch->c}};
  cublasStatus_t status = blas->cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
  for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++) {
    const uint32_t bytes = alignment_of(operands[i].address);
    status = blas->cublasLtMatmulPreferenceSetAttribute(preference, operands[i].name,
                                                        &bytes, sizeof bytes);
  }
  return status;
}

static int choose(gemm_launch *launch, int autotune, ett_err *err) {
  const ett_cuda_blas *blas = launch->blas;
  cublasLtMatmulPreference_t preference = NULL;
  cublasLtMatmulHeuristicResult_t candidates[CANDIDATES];
  int found = 0;
  cublasStatus_t status = blas->cublasLtMatmulPreferenceCreate(&preference);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = prefer(launch, preference);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas->cublasLtMatmulAlgoGetHeuristic(
        launch->device->blas, launch->operation, launch->first, launch->second,
        launch->result, launch->result, preference, autotune ? CANDIDATES : 4, candidates,
        &found);
  if (preference)
    blas->cublasLtMatmulPreferenceDestroy(preference);
  /* A proposed algorithm may not be runnable. */
  float best = -1;
  int chosen = -1;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; i++) {
    if (candidates[i].state != CUBLAS_STATUS_SUCCESS)
      continue;
    if (!autotune) {
      chosen = i;
      break;
    }
    float elapsed = time_algorithm(launch, &candidates[i].algo);
    if (elapsed >= 0 && (chosen < 0 || elapsed < best)) {
      best = elapsed;
      chosen = i;
    }
  }
  if (chosen < 0)
    return fail(launch->device, blas,
                status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status,
                "cuBLASLt has no algorithm for this shape and precision", err);
  launch->algorithm = candidates[chosen].algo;
  return 0;
}

/* Whether an operand has a*b*batch elements, computed without overflow. */
static int holds(long long count, long long a, long long b, long long batch) {
  long long wanted;
  return !__builtin_mul_overflow(a, b, &wanted) &&
         !__builtin_mul_overflow(wanted, batch, &wanted) && count >= wanted;
}

static int check(const ett_cuda_work *work, const ett_cuda_gemm *gemm, ett_err *err) {
  if (gemm->m <= 0 || gemm->n <= 0 || gemm->k <= 0 || gemm->batch <= 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "gemm: m, n, k and batch must be positive, got %lld, %lld, %lld, "
                       "%lld",
                       gemm->m, gemm->n, gemm->k, gemm->batch);
  if (gemm->batch > INT32_MAX)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "gemm: a batch of %lld is too large",
                       gemm->batch);
  const struct {
    const char *name;
    int tensor;
    long long rows, columns;
  } operands[] = {{"a", gemm->a, gemm->m, gemm->k},
                  {"b", gemm->b, gemm->k, gemm->n},
                  {"c", gemm->c, gemm->m, gemm->n}};
  for (int i = 0; i < 3; i++) {
    long long count = ett_cuda_work_count(work, operands[i].tensor);
    if (!holds(count, operands[i].rows, operands[i].columns, gemm->batch))
      return ett_err_set(
          err, ETT_ERR_ARGUMENT,
          "gemm: %s needs %lld x %lld x %lld elements, the tensor has %lld",
          operands[i].name, gemm->batch, operands[i].rows, operands[i].columns, count);
  }
  ett_cuda_dtype a = ett_cuda_work_tensor_dtype(work, gemm->a);
  ett_cuda_dtype c = ett_cuda_work_tensor_dtype(work, gemm->c);
  if (a != ett_cuda_work_tensor_dtype(work, gemm->b) || a == ETT_CUDA_INT64 ||
      c == ETT_CUDA_INT64 || c == ETT_CUDA_FP8)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "gemm: a and b must have the same type, fp8, fp16, bf16 or fp32, "
                       "and c fp16, bf16 or fp32");
  if (a == ETT_CUDA_FP8 &&
      (gemm->k % 16 != 0 || gemm->n % 16 != 0 || gemm->trans_a || !gemm->trans_b))
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "gemm: fp8 products need k and n in multiples of 16 (and k innermost "
        "in both operands), got k %lld and n %lld",
        gemm->k, gemm->n);
  return 0;
}

int ett_cuda_work_gemm(ett_cuda_work *work, const ett_cuda_gemm *gemm, int autotune,
                       ett_err *err) {
  ett_cuda_device *device = work->device;
  const ett_cuda_blas *blas = ett_cuda_blas_open(err);
  if (!blas || check(work, gemm, err) != 0 || ett_cuda_device_use(device, err) != 0 ||
      ett_cuda_workspace(device, err) != 0)
    return -1;
  if (!device->blas) {
    cublasStatus_t status = blas->cublasLtCreate(&device->blas);
    if (status != CUBLAS_STATUS_SUCCESS)
      return fail(device, blas, status, "cuBLASLt: starting", err);
  }
  gemm_launch *launch = calloc(1, sizeof *launch);
  if (!launch)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a launch");
  launch->base.run = run_gemm;
  launch->base.free = free_gemm;
  launch->device = device;
  launch->blas = blas;
  launch->a = ett_cuda_work_address(work, gemm->a);
  launch->b = ett_cuda_work_address(work, gemm->b);
  launch->c = ett_cuda_work_address(work, gemm->c);
  launch->alpha = 1;
  launch->beta = gemm->accumulate ? 1 : 0;
  cublasStatus_t status =
      describe(launch, gemm, data_type(ett_cuda_work_tensor_dtype(work, gemm->a)),
               data_type(ett_cuda_work_tensor_dtype(work, gemm->c)));
  if (status != CUBLAS_STATUS_SUCCESS) {
    fail(device, blas, status, "cuBLASLt: describing the product", err);
    free_gemm(&launch->base);
    return -1;
  }
  if (choose(launch, autotune, err) != 0) {
    free_gemm(&launch->base);
    return -1;
  }
  return ett_cuda_work_add(work, &launch->base, err);
}
