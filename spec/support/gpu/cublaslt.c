/* cuBLASLt of the stand-in: descriptors are checked by the documentation of
 * cublasLtMatmul, and the product is computed in double precision from the given
 * column-major layouts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cublasLt.h>

#include "numbers.h"
#include "stand_in.h"

typedef struct layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t leading, stride;
  int32_t batch;
} layout;

typedef struct operation {
  cublasComputeType_t compute;
  cudaDataType scale;
  int32_t first, second;
  int8_t fast;
} operation;

/* Alignments of A, B, C and D in bytes, as the attributes are numbered. */
typedef struct preference {
  uint64_t workspace;
  uint32_t alignment[4];
} preference;

_Static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "layout");
_Static_assert(sizeof(operation) <= sizeof(cublasLtMatmulDescOpaque_t), "operation");

static int handles, objects;
static const char magic[] = "algorithm";

static void __attribute__((destructor)) leftovers(void) {
  if (handles == 0 && objects != 0)
    ett_stand_in_abort("cuBLASLt: %d descriptors are still held", objects);
}

size_t cublasLtGetVersion(void) {
  return 130000;
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED   ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == CUBLAS_STATUS_ALLOC_FAILED  ? "CUBLAS_STATUS_ALLOC_FAILED"
         : status == CUBLAS_STATUS_SUCCESS       ? "CUBLAS_STATUS_SUCCESS"
                                                 : "CUBLAS_STATUS_EXECUTION_FAILED";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  if (ett_stand_in_status() != CUDA_SUCCESS)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  handles++;
  *handle = (cublasLtHandle_t)&handles;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle != (cublasLtHandle_t)&handles || handles == 0)
    ett_stand_in_abort("cublasLtDestroy: no such handle");
  handles--;
  return CUBLAS_STATUS_SUCCESS;
}

static void *make(size_t bytes) {
  void *made = calloc(1, bytes);
  objects += made != NULL;
  return made;
}

static cublasStatus_t drop(const void *object) {
  if (!object)
    return CUBLAS_STATUS_INVALID_VALUE;
  objects--;
  free((void *)object);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  operation *o = make(sizeof(cublasLtMatmulDescOpaque_t));
  if (!o)
    return CUBLAS_STATUS_ALLOC_FAILED;
  o->compute = compute;
  o->scale = scale;
  *made = (cublasLtMatmulDesc_t)(void *)o;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t o) {
  return drop(o);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t bytes) {
  operation *o = (operation *)(void *)handle;
  void *field = name == CUBLASLT_MATMUL_DESC_TRANSA       ? (void *)&o->first
                : name == CUBLASLT_MATMUL_DESC_TRANSB     ? (void *)&o->second
                : name == CUBLASLT_MATMUL_DESC_FAST_ACCUM ? (void *)&o->fast
                                                          : NULL;
  if (!field)
    ett_stand_in_abort("cublasLtMatmulDescSetAttribute: attribute %d is not known here",
                       name);
  if (bytes != (name == CUBLASLT_MATMUL_DESC_FAST_ACCUM ? 1u : 4u))
    return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type,
                                          uint64_t rows, uint64_t columns,
                                          int64_t leading) {
  layout *l = make(sizeof(cublasLtMatrixLayoutOpaque_t));
  if (!l)
    return CUBLAS_STATUS_ALLOC_FAILED;
  *l = (layout){type, rows, columns, leading, 0, 1};
  *made = (cublasLtMatrixLayout_t)(void *)l;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  return drop(l);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void *value, size_t bytes) {
  layout *l = (layout *)(void *)handle;
  if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == 4)
    memcpy(&l->batch, value, 4);
  else if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == 8)
    memcpy(&l->stride, value, 8);
  else
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made) {
  preference *p = make(sizeof(cublasLtMatmulPreferenceOpaque_t));
  for (int i = 0; p && i < 4; i++)
    p->alignment[i] = 256; /* the default */
  *made = (cublasLtMatmulPreference_t)(void *)p;
  return p ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return drop(p);
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                     cublasLtMatmulPreferenceAttributes_t name,
                                     const void *value, size_t bytes) {
  preference *p = (preference *)(void *)handle;
  const int operand = (int)name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == 8)
    memcpy(&p->workspace, value, 8);
  else if (operand >= 0 && operand < 4 && bytes == 4)
    memcpy(&p->alignment[operand], value, 4);
  else
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

/* --- valid products -------------------------------------------------------------- */

static int fits(const layout *a, const layout *b, const layout *c, const layout *d,
                const operation *o) {
  uint64_t m = o->first == CUBLAS_OP_T ? a->columns : a->rows;
  uint64_t k = o->first == CUBLAS_OP_T ? a->rows : a->columns;
  uint64_t kb = o->second == CUBLAS_OP_T ? b->columns : b->rows;
  uint64_t n = o->second == CUBLAS_OP_T ? b->rows : b->columns;
  const layout *all[] = {a, b, c, d};
  for (int i = 0; i < 4; i++)
    if (all[i]->leading < (int64_t)all[i]->rows || all[i]->batch != a->batch ||
        all[i]->batch < 1 || (all[i]->batch > 1 && i < 2 && all[i]->stride < 0))
      return 0;
  return k == kb && m == d->rows && n == d->columns && c->rows == d->rows &&
         c->columns == d->columns && m && n && k;
}

/* The table of types under cublasLtMatmul(), and under it the conditions of the fp8
 * kernels. */
static cublasStatus_t supported(const layout *a, const layout *b, const layout *c,
                                const layout *d, const operation *o) {
  if (!fits(a, b, c, d, o))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (o->compute != CUBLAS_COMPUTE_32F || o->scale != CUDA_R_32F || a->type != b->type ||
      c->type != d->type)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  switch ((int)a->type) {
  case CUDA_R_32F:
    return d->type == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  case CUDA_R_16F:
  case CUDA_R_16BF:
    return d->type == a->type || d->type == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS
                                                       : CUBLAS_STATUS_NOT_SUPPORTED;
  case CUDA_R_8F_E4M3: {
    int capability = ett_stand_in_capability();
    if (capability < 89)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    if (d->type != CUDA_R_16BF && d->type != CUDA_R_32F && d->type != CUDA_R_16F)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    /* "A must be transposed and B non-transposed (The "TN" format)" before Blackwell;
     * "all dimensions
     * ... must be multiples of 16 bytes" */
    if (capability < 100 && (o->first != CUBLAS_OP_T || o->second != CUBLAS_OP_N))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    const layout *all[] = {a, b};
    for (int i = 0; i < 2; i++)
      if (all[i]->leading % 16 || all[i]->rows % 16)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (d->leading * (int64_t)ett_stand_in_bytes(d->type) % 16)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
  }
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t o,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t p, int wanted,
                               cublasLtMatmulHeuristicResult_t *results, int *found) {
  ett_stand_in_count("cublasLtMatmulAlgoGetHeuristic");
  *found = 0;
  if (handle != (cublasLtHandle_t)&handles || wanted < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status =
      supported((layout *)(void *)a, (layout *)(void *)b, (layout *)(void *)c,
                (layout *)(void *)d, (operation *)(void *)o);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  for (int i = 0; i < wanted && i < 5; i++) {
    memset(&results[i], 0, sizeof results[i]);
    memcpy(&results[i].algo, magic, sizeof magic);
    results[i].algo.data[7] = (uint64_t)i;
    memcpy(&results[i].algo.data[2], ((preference *)(void *)p)->alignment,
           sizeof(uint32_t[4]));
    /* The fourth needs a workspace larger than any preference: its state says that it is
     * no algorithm. */
    results[i].state = i == 3 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    results[i].workspaceSize = ((preference *)(void *)p)->workspace;
    (*found)++;
  }
  return CUBLAS_STATUS_SUCCESS;
}

typedef struct product {
  layout a, b, c, d;
  operation o;
  float alpha, beta;
  const char *pa, *pb, *pc;
  char *pd;
} product;

static double at(const layout *l, const char *data, uint64_t row, uint64_t column,
                 int transposed) {
  uint64_t index = transposed ? row * (uint64_t)l->leading + column
                              : column * (uint64_t)l->leading + row;
  return ett_stand_in_get(data, (size_t)index, l->type);
}

static void multiply(void *data) {
  const product *p = data;
  if (!getenv("ETT_GPU_EXECUTE"))
    return;
  uint64_t k = p->o.first == CUBLAS_OP_T ? p->a.rows : p->a.columns;
  if ((double)p->d.rows * (double)p->d.columns * (double)k * p->a.batch > 4e6)
    return; /* only results of small shapes are read */
  for (int i = 0; i < p->a.batch; i++) {
    const char *a = p->pa + (size_t)(i * p->a.stride) * ett_stand_in_bytes(p->a.type);
    const char *b = p->pb + (size_t)(i * p->b.stride) * ett_stand_in_bytes(p->b.type);
    size_t out = (size_t)(i * p->d.stride) * ett_stand_in_bytes(p->d.type);
    for (uint64_t row = 0; row < p->d.rows; row++)
      for (uint64_t column = 0; column < p->d.columns; column++) {
        double sum = 0;
        for (uint64_t j = 0; j < k; j++)
          sum += at(&p->a, a, row, j, p->o.first == CUBLAS_OP_T) *
                 at(&p->b, b, j, column, p->o.second == CUBLAS_OP_T);
        size_t index = column * (uint64_t)p->d.leading + row;
        double before =
            p->beta != 0 ? ett_stand_in_get(p->pc + out, index, p->c.type) : 0;
        ett_stand_in_put(p->pd + out, index, p->d.type,
                         p->alpha * sum + p->beta * before);
      }
  }
}

static int inside(const layout *l, const void *data) {
  size_t last = (l->columns - 1) * (size_t)l->leading + l->rows +
                (size_t)(l->batch - 1) * (size_t)l->stride;
  return ett_stand_in_holds((CUdeviceptr)data, last * ett_stand_in_bytes(l->type));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t o,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t la,
                              const void *b, cublasLtMatrixLayout_t lb, const void *beta,
                              const void *c, cublasLtMatrixLayout_t lc, void *d,
                              cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t bytes, cudaStream_t stream) {
  ett_stand_in_count("cublasLtMatmul");
  if (ett_stand_in_status() != CUDA_SUCCESS)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  product p = {.a = *(layout *)(void *)la,
               .b = *(layout *)(void *)lb,
               .c = *(layout *)(void *)lc,
               .d = *(layout *)(void *)ld,
               .o = *(operation *)(void *)o,
               .alpha = *(const float *)alpha,
               .beta = *(const float *)beta,
               .pa = a,
               .pb = b,
               .pc = c,
               .pd = d};
  if (handle != (cublasLtHandle_t)&handles)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  cublasStatus_t status = supported(&p.a, &p.b, &p.c, &p.d, &p.o);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (algorithm && memcmp(algorithm, magic, sizeof magic) != 0)
    ett_stand_in_abort("cublasLtMatmul: the algorithm is none of the heuristic's");
  if (algorithm && algorithm->data[7] == 3)
    ett_stand_in_abort("cublasLtMatmul: the heuristic said that this is no algorithm");
  if (bytes &&
      ((uintptr_t)workspace & 255 || !ett_stand_in_holds((CUdeviceptr)workspace, bytes)))
    ett_stand_in_abort(
        "cublasLtMatmul: the workspace is not %zu aligned bytes of the device", bytes);
  const void *operands[] = {a, b, c, d};
  for (int i = 0; algorithm && i < 4; i++) {
    const uint32_t *alignment = (const uint32_t *)&algorithm->data[2];
    if ((uintptr_t)operands[i] % alignment[i])
      ett_stand_in_abort("cublasLtMatmul: operand %d is not aligned to the %u bytes that "
                         "the heuristic was told",
                         i, alignment[i]);
  }
  if (!inside(&p.a, a) || !inside(&p.b, b) || !inside(&p.c, c) || !inside(&p.d, d))
    ett_stand_in_abort("cublasLtMatmul: an operand leaves its allocation");
  uint64_t k = p.o.first == CUBLAS_OP_T ? p.a.rows : p.a.columns;
  double flops = 2.0 * (double)p.d.rows * (double)p.d.columns * (double)k * p.a.batch;
  double slow = algorithm ? 1.0 + 0.1 * (double)((algorithm->data[7] + 4) % 5) : 1.0;
  ett_stand_in_work work = {"stand_in_gemm", 3e-6 + slow * flops / 4e14, multiply, &p,
                            sizeof p};
  return ett_stand_in_enqueue((CUstream)stream, &work) == CUDA_SUCCESS
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
