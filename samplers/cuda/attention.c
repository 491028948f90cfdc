/* Fused attention by cuDNN's unified SDPA operation, through the backend API.
 *
 * The unified operation of cuDNN 9.19's headers has no mask: a causal request is refused
 * with that reason, never measured without its mask. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "samplers/cuda/work.h"

#ifndef ETT_HAVE_CUDNN

int ett_cuda_work_attention(ett_cuda_work *work, const ett_cuda_attention *attention,
                            ett_err *err) {
  (void)work;
  (void)attention;
  return ett_err_set(err, ETT_ERR_MISSING,
                     "this ett was built without cuDNN; install its headers and rebuild");
}

#else

typedef cudnnBackendDescriptor_t descriptor;

enum { MAX_DESCRIPTORS = 64, MAX_TENSORS = 12 };

typedef struct attention_launch {
  ett_cuda_launch base;
  ett_cuda_device *device;
  const ett_cuda_dnn *dnn;
  descriptor owned[MAX_DESCRIPTORS];
  int owned_count;
  descriptor plan, pack;
  int64_t ids[MAX_TENSORS];
  void *pointers[MAX_TENSORS];
  int tensor_count;
  CUdeviceptr workspace;
  float scale;
  cudnnStatus_t status; /* the first failure while building */
} attention_launch;

static int fail(const attention_launch *launch, cudnnStatus_t status, const char *doing,
                ett_err *err) {
  return ett_err_set(err,
                     status == CUDNN_STATUS_ALLOC_FAILED ? ETT_ERR_MEMORY : ETT_ERR_IO,
                     "cuDNN %zu: %s: %s", launch->dnn->cudnnGetVersion(), doing,
                     launch->dnn->cudnnGetErrorString(status));
}

static int run_attention(ett_cuda_launch *base, ett_err *err) {
  attention_launch *launch = (attention_launch *)base;
  cudnnStatus_t status =
      launch->dnn->cudnnBackendExecute(launch->device->dnn, launch->plan, launch->pack);
  return status == CUDNN_STATUS_SUCCESS ? 0 : fail(launch, status, "attention", err);
}

static void free_attention(ett_cuda_launch *base) {
  attention_launch *launch = (attention_launch *)base;
  for (int i = launch->owned_count - 1; i >= 0; i--)
    launch->dnn->cudnnBackendDestroyDescriptor(launch->owned[i]);
  if (launch->workspace && launch->device->driver)
    launch->device->driver->cuMemFree(launch->workspace);
  free(launch);
}

/* The building functions below do nothing after the first failure, so that a graph reads
 * as a list; the status is looked at once, at its end. */
static descriptor make(attention_launch *launch, cudnnBackendDescriptorType_t type) {
  descriptor made = NULL;
  if (launch->status != CUDNN_STATUS_SUCCESS)
    return NULL;
  if (launch->owned_count == MAX_DESCRIPTORS) {
    launch->status = CUDNN_STATUS_INTERNAL_ERROR;
    return NULL;
  }
  launch->status = launch->dnn->cudnnBackendCreateDescriptor(type, &made);
  if (launch->status == CUDNN_STATUS_SUCCESS)
    launch->owned[launch->owned_count++] = made;
  return made;
}

static void set(attention_launch *launch, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *value) {
  if (launch->status == CUDNN_STATUS_SUCCESS)
    launch->status = launch->dnn->cudnnBackendSetAttribute(d, name, type, count, value);
}

static void set_descriptor(attention_launch *launch, descriptor d,
                           cudnnBackendAttributeName_t name, descriptor value) {
  set(launch, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(attention_launch *launch, descriptor d) {
  if (launch->status == CUDNN_STATUS_SUCCESS)
    launch->status = launch->dnn->cudnnBackendFinalize(d);
}

/* A dense 4-dimensional tensor and its place in the variant pack. `pointer` is a device
 * address, or a host address when the tensor passes by value. */
static descriptor tensor(attention_launch *launch, const int64_t dims[4],
                         cudnnDataType_t type, void *pointer, int by_value) {
  int64_t id = launch->tensor_count + 1, alignment = by_value ? 4 : 16;
  int64_t strides[4] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
  _Bool value = by_value;
  descriptor d = make(launch, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(launch, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set(launch, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(launch, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  set(launch, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
  set(launch, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
  set(launch, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &value);
  finalize(launch, d);
  launch->ids[launch->tensor_count] = id;
  launch->pointers[launch->tensor_count++] = pointer;
  return d;
}

static cudnnDataType_t data_type(ett_cuda_dtype dtype) {
  return dtype == ETT_CUDA_FP16   ? CUDNN_DATA_HALF
         : dtype == ETT_CUDA_FP32 ? CUDNN_DATA_FLOAT
                                  : CUDNN_DATA_BFLOAT16;
}

static descriptor operand(attention_launch *launch, const ett_cuda_work *work, int index,
                          long long batch, long long heads, long long seq,
                          long long width) {
  int64_t dims[4] = {batch, heads, seq, width};
  return tensor(launch, dims, data_type(ett_cuda_work_tensor_dtype(work, index)),
                (void *)ett_cuda_work_address(work, index), 0);
}

static descriptor forward_operation(attention_launch *launch, const ett_cuda_work *work,
                                    const ett_cuda_attention *a, descriptor scale) {
  descriptor q = operand(launch, work, a->q, a->batch, a->heads, a->seq_q, a->head_dim);
  descriptor k =
      operand(launch, work, a->k, a->batch, a->kv_heads, a->seq_k, a->head_dim);
  descriptor v =
      operand(launch, work, a->v, a->batch, a->kv_heads, a->seq_k, a->head_dim);
  descriptor o = operand(launch, work, a->out, a->batch, a->heads, a->seq_q, a->head_dim);
  descriptor stats = operand(launch, work, a->stats, a->batch, a->heads, a->seq_q, 1);
  descriptor operation = make(launch, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, o);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, stats);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale);
  finalize(launch, operation);
  return operation;
}

static descriptor backward_operation(attention_launch *launch, const ett_cuda_work *work,
                                     const ett_cuda_attention *a, descriptor scale) {
  long long b = a->batch, h = a->heads, g = a->kv_heads, d = a->head_dim;
  descriptor q = operand(launch, work, a->q, b, h, a->seq_q, d);
  descriptor k = operand(launch, work, a->k, b, g, a->seq_k, d);
  descriptor v = operand(launch, work, a->v, b, g, a->seq_k, d);
  descriptor o = operand(launch, work, a->out, b, h, a->seq_q, d);
  descriptor dout = operand(launch, work, a->dout, b, h, a->seq_q, d);
  descriptor stats = operand(launch, work, a->stats, b, h, a->seq_q, 1);
  descriptor dq = operand(launch, work, a->dq, b, h, a->seq_q, d);
  descriptor dk = operand(launch, work, a->dk, b, g, a->seq_k, d);
  descriptor dv = operand(launch, work, a->dv, b, g, a->seq_k, d);
  descriptor operation = make(launch, CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, q);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC, k);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC, v);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC, o);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC, stats);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC, scale);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, dout);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, dq);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC, dk);
  set_descriptor(launch, operation, CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, dv);
  finalize(launch, operation);
  return operation;
}

/* The first engine configuration of the heuristic that makes a plan. */
static void plan_graph(attention_launch *launch, descriptor operation) {
  enum { CONFIGURATIONS = 8 };
  cudnnHandle_t handle = launch->device->dnn;
  cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  descriptor configurations[CONFIGURATIONS];
  int64_t found = 0;
  descriptor graph = make(launch, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(launch, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  set_descriptor(launch, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  finalize(launch, graph);
  descriptor heuristic = make(launch, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_descriptor(launch, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(launch, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  finalize(launch, heuristic);
  for (int i = 0; i < CONFIGURATIONS; i++)
    configurations[i] = make(launch, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (launch->status == CUDNN_STATUS_SUCCESS)
    launch->status = launch->dnn->cudnnBackendGetAttribute(
        heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        CONFIGURATIONS, &found, configurations);
  if (launch->status != CUDNN_STATUS_SUCCESS)
    return;
  cudnnStatus_t last = CUDNN_STATUS_NOT_SUPPORTED;
  for (int64_t i = 0; i < found && !launch->plan; i++) {
    descriptor plan = make(launch, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(launch, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_descriptor(launch, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                   configurations[i]);
    if (launch->status != CUDNN_STATUS_SUCCESS)
      return;
    last = launch->dnn->cudnnBackendFinalize(plan);
    if (last == CUDNN_STATUS_SUCCESS)
      launch->plan = plan;
  }
  if (!launch->plan)
    launch->status = last;
}

static int pack(attention_launch *launch, ett_err *err) {
  const ett_cuda_driver *driver = launch->device->driver;
  int64_t bytes = 0, count = 0;
  launch->status = launch->dnn->cudnnBackendGetAttribute(
      launch->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
      &bytes);
  if (launch->status == CUDNN_STATUS_SUCCESS && bytes > 0) {
    CUresult status = driver->cuMemAlloc(&launch->workspace, (size_t)bytes);
    if (status != CUDA_SUCCESS)
      return ett_cuda_fail(driver, status, "allocating attention's workspace", err);
  }
  void *workspace = (void *)launch->workspace;
  launch->pack = make(launch, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(launch, launch->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
      launch->tensor_count, launch->ids);
  set(launch, launch->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
      launch->tensor_count, launch->pointers);
  set(launch, launch->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
      &workspace);
  finalize(launch, launch->pack);
  return launch->status == CUDNN_STATUS_SUCCESS
             ? 0
             : fail(launch, launch->status, "binding attention's tensors", err);
}

static int check(const ett_cuda_work *work, const ett_cuda_attention *a, ett_err *err) {
  if (a->causal)
    return ett_err_set(err, ETT_ERR_MISSING,
                       "cuDNN's unified attention of the version ett was built with (%d) "
                       "has no causal mask; sample with causal = false, or build with a "
                       "cuDNN whose unified operation takes a mask",
                       (int)CUDNN_VERSION);
  if (a->batch <= 0 || a->heads <= 0 || a->kv_heads <= 0 || a->seq_q <= 0 ||
      a->seq_k <= 0 || a->head_dim <= 0 || a->heads % a->kv_heads != 0)
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "attention: sizes must be positive and kv_heads (%lld) must divide "
        "heads (%lld)",
        a->kv_heads, a->heads);
  long long queries = a->batch * a->heads * a->seq_q * a->head_dim;
  long long keys = a->batch * a->kv_heads * a->seq_k * a->head_dim;
  const struct {
    const char *name;
    int tensor, used;
    long long wanted;
  } operands[] = {
      {"q", a->q, 1, queries},
      {"k", a->k, 1, keys},
      {"v", a->v, 1, keys},
      {"out", a->out, 1, queries},
      {"stats", a->stats, 1, a->batch * a->heads * a->seq_q},
      {"dout", a->dout, a->backward, queries},
      {"dq", a->dq, a->backward, queries},
      {"dk", a->dk, a->backward, keys},
      {"dv", a->dv, a->backward, keys},
  };
  for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
    if (operands[i].used &&
        ett_cuda_work_count(work, operands[i].tensor) < operands[i].wanted)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "attention: %s needs %lld elements, the tensor has %lld",
                         operands[i].name, operands[i].wanted,
                         ett_cuda_work_count(work, operands[i].tensor));
  return 0;
}

static int start(ett_cuda_device *device, const ett_cuda_dnn *dnn, ett_err *err) {
  if (device->dnn)
    return 0;
  cudnnHandle_t handle;
  cudnnStatus_t status = dnn->cudnnCreate(&handle);
  if (status != CUDNN_STATUS_SUCCESS)
    return ett_err_set(err, ETT_ERR_IO, "cuDNN: starting: %s",
                       dnn->cudnnGetErrorString(status));
  dnn->cudnnSetStream(handle, (cudaStream_t)device->stream);
  device->dnn = handle;
  return 0;
}

int ett_cuda_work_attention(ett_cuda_work *work, const ett_cuda_attention *attention,
                            ett_err *err) {
  ett_cuda_device *device = ett_cuda_work_device(work);
  const ett_cuda_dnn *dnn = ett_cuda_dnn_open(err);
  if (!dnn || check(work, attention, err) != 0 || start(device, dnn, err) != 0)
    return -1;
  attention_launch *launch = calloc(1, sizeof *launch);
  if (!launch)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a launch");
  launch->base.run = run_attention;
  launch->base.free = free_attention;
  launch->device = device;
  launch->dnn = dnn;
  launch->status = CUDNN_STATUS_SUCCESS;
  launch->scale = 1.0f / sqrtf((float)attention->head_dim);
  const int64_t one[4] = {1, 1, 1, 1};
  descriptor scale = tensor(launch, one, CUDNN_DATA_FLOAT, &launch->scale, 1);
  descriptor operation = attention->backward
                             ? backward_operation(launch, work, attention, scale)
                             : forward_operation(launch, work, attention, scale);
  plan_graph(launch, operation);
  int result = launch->status == CUDNN_STATUS_SUCCESS
                   ? pack(launch, err)
                   : fail(launch, launch->status, "planning attention", err);
  if (result != 0) {
    free_attention(&launch->base);
    return -1;
  }
  return ett_cuda_work_add(work, &launch->base, err);
}

#endif
