/* Computes an operation graph of cuDNN: each operation in double precision, in the
 * given order, on rank-four tensors. Slow; only for small shapes. */
#include <float.h>
#include <stdlib.h>

#include "descriptors.h"
#include "numbers.h"

enum { RANK = 4, MAX_TENSORS = 64 };

typedef struct tensor {
  const descriptor *from;
  int64_t id, dims[RANK], strides[RANK], room;
  int virtual, by_value;
  cudnnDataType_t type;
  double *values; /* laid out by the strides */
  char *bound;
} tensor;

typedef struct computation {
  tensor tensors[MAX_TENSORS];
  int count;
} computation;

static cudaDataType_t cuda_type(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT  ? CUDA_R_32F
         : type == CUDNN_DATA_HALF ? CUDA_R_16F
                                   : CUDA_R_16BF;
}

static void describe(tensor *t, const descriptor *from) {
  const attribute *dims = ett_stand_in_attribute(from, CUDNN_ATTR_TENSOR_DIMENSIONS);
  const attribute *strides = ett_stand_in_attribute(from, CUDNN_ATTR_TENSOR_STRIDES);
  if (dims->count != RANK)
    ett_stand_in_abort("cuDNN: a tensor of rank %lld", (long long)dims->count);
  t->from = from;
  t->id = ett_stand_in_integer(from, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  t->virtual = (int)ett_stand_in_integer(from, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0);
  t->by_value = (int)ett_stand_in_integer(from, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0);
  t->type = (cudnnDataType_t)ett_stand_in_integer(from, CUDNN_ATTR_TENSOR_DATA_TYPE, 0);
  t->room = 1;
  for (int i = 0; i < RANK; i++) {
    t->dims[i] = ((int64_t *)dims->values)[i];
    t->strides[i] = ((int64_t *)strides->values)[i];
    t->room += (t->dims[i] - 1) * t->strides[i];
  }
}

static int64_t offset(const tensor *t, const int64_t *index) {
  int64_t at = 0;
  for (int i = 0; i < RANK; i++)
    at += (t->dims[i] == 1 ? 0 : index[i]) * t->strides[i];
  return at;
}

/* Calls body with every index of dims. */
#define EACH_INDEX(dims, index)                                                          \
  for (int64_t index[RANK] = {0, 0, 0, 0}; index[0] < (dims)[0]; index[0]++)             \
    for (index[1] = 0; index[1] < (dims)[1]; index[1]++)                                 \
      for (index[2] = 0; index[2] < (dims)[2]; index[2]++)                               \
        for (index[3] = 0; index[3] < (dims)[3]; index[3]++)

/* --- matching tensors ------------------------------------------------------------- */

static int broadcasts(const tensor *small, const tensor *large) {
  for (int i = 0; i < RANK; i++)
    if (small->dims[i] != large->dims[i] && small->dims[i] != 1)
      return 0;
  return 1;
}

static int product_fits(const tensor *a, const tensor *b, const tensor *c) {
  return a->dims[3] == b->dims[2] && a->dims[2] == c->dims[2] &&
         b->dims[3] == c->dims[3] && a->dims[0] == c->dims[0] &&
         b->dims[0] == c->dims[0] && a->dims[1] == c->dims[1] &&
         c->dims[1] % b->dims[1] == 0;
}

static tensor part(const descriptor *operation, cudnnBackendAttributeName_t name) {
  tensor t = {0};
  const descriptor *d = ett_stand_in_part(operation, name);
  if (d)
    describe(&t, d);
  return t;
}

cudnnStatus_t ett_stand_in_operation_fits(const descriptor *o) {
  int fits;
  if (o->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    tensor a = part(o, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    tensor b = part(o, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    tensor c = part(o, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    fits = product_fits(&a, &b, &c);
  } else if (o->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
    tensor x = part(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    tensor b = part(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    tensor t = part(o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    tensor y = part(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    int mode = (int)ett_stand_in_integer(
        ett_stand_in_part(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
        CUDNN_ATTR_POINTWISE_MODE, -1);
    int binary = mode == CUDNN_POINTWISE_ADD || mode == CUDNN_POINTWISE_SUB ||
                 mode == CUDNN_POINTWISE_MUL || mode == CUDNN_POINTWISE_DIV ||
                 mode == CUDNN_POINTWISE_CMP_GE || mode == CUDNN_POINTWISE_BINARY_SELECT;
    fits = broadcasts(&x, &y) && (b.from != NULL) == binary &&
           (!b.from || broadcasts(&b, &y)) &&
           (t.from != NULL) == (mode == CUDNN_POINTWISE_BINARY_SELECT) &&
           (!t.from || (broadcasts(&t, &y) && t.type == CUDNN_DATA_BOOLEAN));
  } else if (o->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    tensor x = part(o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    tensor y = part(o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    fits = 1;
    for (int i = 0; i < RANK; i++) /* grouped queries: several heads share one */
      fits = fits && (i == 1 ? x.dims[i] % y.dims[i] == 0
                             : x.dims[i] == y.dims[i] || y.dims[i] == 1);
  } else {
    tensor x = part(o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    tensor y = part(o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    fits = x.room == y.room;
  }
  return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* The fused attention engines: half precisions, head sizes that are multiples of 8 and at
 * most 128. */
cudnnStatus_t ett_stand_in_graph_supported(const descriptor *graph) {
  const attribute *operations =
      ett_stand_in_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  for (int64_t i = 0; i < operations->count; i++) {
    const descriptor *o = ((descriptor **)operations->values)[i];
    if (o->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
      continue;
    const cudnnBackendAttributeName_t names[] = {CUDNN_ATTR_OPERATION_MATMUL_ADESC,
                                                 CUDNN_ATTR_OPERATION_MATMUL_BDESC};
    for (int j = 0; j < 2; j++) {
      tensor t = part(o, names[j]);
      if (!t.virtual &&
          (t.type == CUDNN_DATA_FLOAT || (j == 0 && (t.dims[3] % 8 || t.dims[3] > 128))))
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
  }
  return ett_stand_in_capability() >= 80 ? CUDNN_STATUS_SUCCESS
                                         : CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH;
}

/* --- computing ------------------------------------------------------------------- */

static tensor *bring(computation *c, const descriptor *from, const int64_t *ids,
                     void *const *pointers, int64_t count) {
  if (!from)
    return NULL;
  int64_t id = ett_stand_in_integer(from, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  for (int i = 0; i < c->count; i++)
    if (c->tensors[i].id == id) {
      if (c->tensors[i].from != from)
        ett_stand_in_abort("cuDNN: two tensors have the id %lld", (long long)id);
      return &c->tensors[i];
    }
  if (c->count == MAX_TENSORS)
    ett_stand_in_abort("cuDNN: too many tensors");
  tensor *t = &c->tensors[c->count++];
  describe(t, from);
  t->values = calloc((size_t)t->room, sizeof *t->values);
  for (int64_t i = 0; i < count; i++)
    if (ids[i] == id)
      t->bound = pointers[i];
  if (t->virtual != (t->bound == NULL))
    ett_stand_in_abort("cuDNN: tensor %lld is %s", (long long)id,
                       t->virtual ? "virtual, yet bound to memory"
                                  : "bound to no memory");
  if (t->by_value) {
    float value;
    memcpy(&value, t->bound, sizeof value);
    t->values[0] = value;
  } else if (t->bound) {
    cudaDataType_t type = cuda_type(t->type);
    if ((uintptr_t)t->bound % (uintptr_t)ett_stand_in_integer(
                                  from, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1) !=
            0 ||
        !ett_stand_in_holds((CUdeviceptr)t->bound,
                            (size_t)t->room * ett_stand_in_bytes(type)))
      ett_stand_in_abort("cuDNN: tensor %lld leaves its allocation", (long long)id);
    for (int64_t i = 0; i < t->room; i++)
      t->values[i] = ett_stand_in_get(t->bound, (size_t)i, type);
  }
  return t;
}

static void write_back(tensor *t) {
  if (t->bound)
    for (int64_t i = 0; i < t->room; i++)
      ett_stand_in_put(t->bound, (size_t)i, cuda_type(t->type), t->values[i]);
}

static double pointwise(int mode, double x, double b, double t, int64_t axis,
                        const int64_t *index) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_EXP:
    return exp(x);
  case CUDNN_POINTWISE_LOG:
    return log(x);
  case CUDNN_POINTWISE_IDENTITY:
    return x;
  case CUDNN_POINTWISE_GEN_INDEX:
    return (double)index[axis];
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_BINARY_SELECT: /* t chooses x over b */
    return t != 0 ? x : b;
  default:
    ett_stand_in_abort("cuDNN: pointwise mode %d is not known here", mode);
  }
}

static void compute(const descriptor *o, computation *c, const int64_t *ids,
                    void *const *pointers, int64_t count) {
#define BRING(name) bring(c, ett_stand_in_part(o, name), ids, pointers, count)
  if (o->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    tensor *a = BRING(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    tensor *b = BRING(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    tensor *y = BRING(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    EACH_INDEX(y->dims, i) {
      double sum = 0;
      for (int64_t k = 0; k < a->dims[3]; k++) {
        int64_t ia[] = {i[0], i[1], i[2], k};
        int64_t ib[] = {i[0], i[1] / (y->dims[1] / b->dims[1]), k, i[3]};
        sum += a->values[offset(a, ia)] * b->values[offset(b, ib)];
      }
      y->values[offset(y, i)] = sum;
    }
    write_back(y);
  } else if (o->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
    const descriptor *how =
        ett_stand_in_part(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    int mode = (int)ett_stand_in_integer(how, CUDNN_ATTR_POINTWISE_MODE, -1);
    int64_t axis = ett_stand_in_integer(how, CUDNN_ATTR_POINTWISE_AXIS, 0);
    tensor *x = BRING(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    tensor *b = BRING(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    tensor *t = BRING(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    tensor *y = BRING(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    EACH_INDEX(y->dims, i)
    y->values[offset(y, i)] =
        pointwise(mode, x->values[offset(x, i)], b ? b->values[offset(b, i)] : 0,
                  t ? t->values[offset(t, i)] : 0, axis, i);
    write_back(y);
  } else if (o->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    int greatest = ett_stand_in_integer(
                       ett_stand_in_part(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC),
                       CUDNN_ATTR_REDUCTION_OPERATOR, -1) == CUDNN_REDUCE_TENSOR_MAX;
    tensor *x = BRING(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    tensor *y = BRING(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    for (int64_t i = 0; i < y->room; i++)
      y->values[i] = greatest ? -DBL_MAX : 0;
    EACH_INDEX(x->dims, i) {
      int64_t to[] = {i[0], i[1] / (x->dims[1] / y->dims[1]), i[2], i[3]};
      double *sum = &y->values[offset(y, to)], value = x->values[offset(x, i)];
      *sum = greatest ? fmax(*sum, value) : *sum + value;
    }
    write_back(y);
  } else {
    tensor *x = BRING(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    tensor *y = BRING(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    memcpy(y->values, x->values, (size_t)y->room * sizeof *y->values);
    write_back(y);
  }
#undef BRING
}

void ett_stand_in_compute(const descriptor *graph, const int64_t *ids,
                          void *const *pointers, int64_t count) {
  const attribute *operations =
      ett_stand_in_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  computation *c = calloc(1, sizeof *c);
  double work = 0;
  for (int64_t i = 0; i < operations->count; i++) {
    const descriptor *o = ((descriptor **)operations->values)[i];
    if (o->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
      tensor a = part(o, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
      tensor y = part(o, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
      work += (double)y.dims[0] * (double)y.dims[1] * (double)y.dims[2] *
              (double)y.dims[3] * (double)a.dims[3];
    }
  }
  for (int64_t i = 0; i < operations->count && work < 2e7; i++)
    compute(((descriptor **)operations->values)[i], c, ids, pointers, count);
  for (int i = 0; i < c->count; i++)
    free(c->tensors[i].values);
  free(c);
}
