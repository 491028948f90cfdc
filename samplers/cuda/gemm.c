/* GEMMs by cuBLASLt. cuBLAS is column-major: a row-major C = A·B is its C' = B'·A', so
 * the operands change places and nothing is transposed in memory. */
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

static int fail(const ett_cuda_blas *blas, cublasStatus_t status, const char *doing,
                ett_err *err) {
  return ett_err_set(err,
                     status == CUBLAS_STATUS_ALLOC_FAILED ? ETT_ERR_MEMORY : ETT_ERR_IO,
                     "cuBLASLt: %s: %s", doing, blas->cublasLtGetStatusString(status));
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
  return status == CUBLAS_STATUS_SUCCESS ? 0
                                         : fail(launch->blas, status, "multiplying", err);
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
  switch (dtype) {
  case ETT_CUDA_FP16:
    return CUDA_R_16F;
  case ETT_CUDA_BF16:
    return CUDA_R_16BF;
  case ETT_CUDA_FP8:
    return CUDA_R_8F_E4M3;
  default:
    return CUDA_R_32F;
  }
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
  cublasStatus_t status =
      blas->cublasLtMatmulDescCreate(&launch->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas->cublasLtMatmulDescSetAttribute(
        launch->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas->cublasLtMatmulDescSetAttribute(
        launch->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
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

/* Milliseconds of one algorithm: the best of three runs after one, or -1. */
static float time_algorithm(gemm_launch *launch, const cublasLtMatmulAlgo_t *algorithm) {
  const ett_cuda_driver *driver = launch->device->driver;
  CUstream stream = launch->device->stream;
  CUevent start = NULL, stop = NULL;
  float best = -1;
  if (driver->cuEventCreate(&start, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
      driver->cuEventCreate(&stop, CU_EVENT_DEFAULT) == CUDA_SUCCESS) {
    for (int i = 0; i < 4; i++) {
      float elapsed;
      driver->cuEventRecord(start, stream);
      if (multiply(launch, algorithm) != CUBLAS_STATUS_SUCCESS)
        break;
      driver->cuEventRecord(stop, stream);
      if (driver->cuStreamSynchronize(stream) != CUDA_SUCCESS ||
          driver->cuEventElapsedTime(&elapsed, start, stop) != CUDA_SUCCESS)
        break;
      if (i > 0 && (best < 0 || elapsed < best))
        best = elapsed;
    }
  }
  if (start)
    driver->cuEventDestroy(start);
  if (stop)
    driver->cuEventDestroy(stop);
  return best;
}

static int choose(gemm_launch *launch, int autotune, ett_err *err) {
  const ett_cuda_blas *blas = launch->blas;
  cublasLtMatmulPreference_t preference = NULL;
  uint64_t workspace = ETT_CUDA_WORKSPACE_BYTES;
  cublasLtMatmulHeuristicResult_t candidates[CANDIDATES];
  int found = 0;
  cublasStatus_t status = blas->cublasLtMatmulPreferenceCreate(&preference);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas->cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
        sizeof workspace);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas->cublasLtMatmulAlgoGetHeuristic(
        launch->device->blas, launch->operation, launch->first, launch->second,
        launch->result, launch->result, preference, autotune ? CANDIDATES : 1, candidates,
        &found);
  if (preference)
    blas->cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0)
    return fail(blas,
                status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status,
                "choosing an algorithm for this shape and precision", err);
  launch->algorithm = candidates[0].algo;
  float best = -1;
  for (int i = 0; autotune && i < found; i++) {
    float elapsed = time_algorithm(launch, &candidates[i].algo);
    if (elapsed >= 0 && (best < 0 || elapsed < best)) {
      best = elapsed;
      launch->algorithm = candidates[i].algo;
    }
  }
  return 0;
}

static int check_counts(const ett_cuda_work *work, const ett_cuda_gemm *gemm,
                        ett_err *err) {
  if (gemm->m <= 0 || gemm->n <= 0 || gemm->k <= 0 || gemm->batch <= 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "gemm: m, n, k and batch must be positive, got %lld, %lld, %lld, "
                       "%lld",
                       gemm->m, gemm->n, gemm->k, gemm->batch);
  const struct {
    const char *name;
    int tensor;
    long long wanted;
  } operands[] = {{"a", gemm->a, gemm->m * gemm->k * gemm->batch},
                  {"b", gemm->b, gemm->k * gemm->n * gemm->batch},
                  {"c", gemm->c, gemm->m * gemm->n * gemm->batch}};
  for (int i = 0; i < 3; i++) {
    long long count = ett_cuda_work_count(work, operands[i].tensor);
    if (count < operands[i].wanted)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "gemm: %s needs %lld elements, the tensor has %lld",
                         operands[i].name, operands[i].wanted, count);
  }
  return 0;
}

int ett_cuda_work_gemm(ett_cuda_work *work, const ett_cuda_gemm *gemm, int autotune,
                       ett_err *err) {
  ett_cuda_device *device = ett_cuda_work_device(work);
  const ett_cuda_blas *blas = ett_cuda_blas_open(err);
  if (!blas || check_counts(work, gemm, err) != 0 || ett_cuda_workspace(device, err) != 0)
    return -1;
  if (!device->blas) {
    cublasStatus_t status = blas->cublasLtCreate(&device->blas);
    if (status != CUBLAS_STATUS_SUCCESS)
      return fail(blas, status, "starting", err);
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
    free_gemm(&launch->base);
    return fail(blas, status, "describing the product", err);
  }
  if (choose(launch, autotune, err) != 0) {
    free_gemm(&launch->base);
    return -1;
  }
  return ett_cuda_work_add(work, &launch->base, err);
}
