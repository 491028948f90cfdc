#include "samplers/cuda/dnn.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef ETT_HAVE_CUDNN

typedef ett_cuda_descriptor descriptor;

static int fail(ett_cuda_graph *graph, cudnnStatus_t status, const char *doing,
                ett_err *err) {
  char text[160];
  snprintf(text, sizeof text, "%s (cuDNN %zu)", graph->dnn->cudnnGetErrorString(status),
           graph->dnn->cudnnGetVersion());
  return ett_cuda_library_fail(
      graph->device, status == CUDNN_STATUS_ALLOC_FAILED ? ETT_ERR_MEMORY : ETT_ERR_IO,
      doing, text, err);
}

static int run(ett_cuda_launch *base, ett_err *err) {
  ett_cuda_graph *graph = (ett_cuda_graph *)base;
  cudnnStatus_t status =
      graph->dnn->cudnnBackendExecute(graph->device->dnn, graph->plan, graph->pack);
  return status == CUDNN_STATUS_SUCCESS ? 0 : fail(graph, status, "cuDNN: running", err);
}

static void free_graph(ett_cuda_launch *base) {
  ett_cuda_graph *graph = (ett_cuda_graph *)base;
  const ett_cuda_driver *driver = graph->device->driver;
  int alive = driver && graph->device->death == ETT_CUDA_ALIVE;
  for (int i = graph->owned_count - 1; i >= 0; i--)
    graph->dnn->cudnnBackendDestroyDescriptor(graph->owned[i]);
  for (int i = 0; alive && i < graph->kept_count; i++)
    driver->cuMemFree(graph->kept[i]);
  if (alive && graph->workspace)
    driver->cuMemFree(graph->workspace);
  free(graph);
}

static int start(ett_cuda_device *device, const ett_cuda_dnn *dnn, ett_err *err) {
  if (device->dnn)
    return 0;
  cudnnHandle_t handle;
  cudnnStatus_t status = dnn->cudnnCreate(&handle);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = dnn->cudnnSetStream(handle, (cudaStream_t)device->stream);
    if (status == CUDNN_STATUS_SUCCESS) {
      device->dnn = handle;
      return 0;
    }
    dnn->cudnnDestroy(handle);
  }
  return ett_cuda_library_fail(
      device, status == CUDNN_STATUS_ALLOC_FAILED ? ETT_ERR_MEMORY : ETT_ERR_IO,
      "cuDNN: starting", dnn->cudnnGetErrorString(status), err);
}

ett_cuda_graph *ett_cuda_dnn_graph(ett_cuda_device *device, ett_err *err) {
  const ett_cuda_dnn *dnn = ett_cuda_dnn_open(err);
  if (!dnn || ett_cuda_device_use(device, err) != 0 || start(device, dnn, err) != 0)
    return NULL;
  ett_cuda_graph *graph = calloc(1, sizeof *graph);
  if (!graph) {
    ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a graph of cuDNN");
    return NULL;
  }
  graph->base.run = run;
  graph->base.free = free_graph;
  graph->device = device;
  graph->dnn = dnn;
  graph->status = CUDNN_STATUS_SUCCESS;
  graph->next_id = 1;
  return graph;
}

/* --- descriptors ----------------------------------------------------------------- */

static int broken(const ett_cuda_graph *graph) {
  return graph->status != CUDNN_STATUS_SUCCESS || graph->failure.code != ETT_OK;
}

static descriptor make(ett_cuda_graph *graph, cudnnBackendDescriptorType_t type) {
  descriptor made = NULL;
  if (broken(graph))
    return NULL;
  if (graph->owned_count == ETT_CUDA_DNN_DESCRIPTORS) {
    ett_err_set(&graph->failure, ETT_ERR_INTERNAL, "a graph of too many descriptors");
    return NULL;
  }
  graph->status = graph->dnn->cudnnBackendCreateDescriptor(type, &made);
  if (graph->status == CUDNN_STATUS_SUCCESS)
    graph->owned[graph->owned_count++] = made;
  return made;
}

static void set(ett_cuda_graph *graph, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values) {
  if (!broken(graph))
    graph->status = graph->dnn->cudnnBackendSetAttribute(d, name, type, count, values);
}

static void set_part(ett_cuda_graph *graph, descriptor d,
                     cudnnBackendAttributeName_t name, descriptor part) {
  set(graph, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void finalize(ett_cuda_graph *graph, descriptor d) {
  if (!broken(graph))
    graph->status = graph->dnn->cudnnBackendFinalize(d);
}

/* --- tensors --------------------------------------------------------------------- */

static ett_cuda_operand operand(ett_cuda_graph *graph, const int64_t dims[4],
                                const int64_t strides[4], cudnnDataType_t type,
                                void *address, bool by_value) {
  ett_cuda_operand made;
  int64_t id = graph->next_id++, alignment = ETT_CUDA_DNN_ALIGNMENT;
  bool is_virtual = address == NULL;
  memcpy(made.dims, dims, sizeof made.dims);
  memcpy(made.strides, strides, sizeof made.strides);
  descriptor d = make(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.descriptor = d;
  set(graph, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set(graph, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(graph, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  set(graph, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
  set(graph, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
  set(graph, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  set(graph, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  finalize(graph, d);
  if (is_virtual || broken(graph))
    return made;
  if (graph->bound_count == ETT_CUDA_DNN_BOUND) {
    ett_err_set(&graph->failure, ETT_ERR_INTERNAL, "a graph of too many tensors");
    return made;
  }
  graph->ids[graph->bound_count] = id;
  graph->pointers[graph->bound_count++] = address;
  return made;
}

static void dense(const int64_t dims[4], int64_t strides[4]) {
  strides[3] = 1;
  for (int i = 2; i >= 0; i--)
    strides[i] = strides[i + 1] * dims[i + 1];
}

ett_cuda_operand ett_cuda_dnn_bound(ett_cuda_graph *graph, const int64_t dims[4],
                                    const int64_t strides[4], cudnnDataType_t type,
                                    void *address) {
  return operand(graph, dims, strides, type, address, false);
}

ett_cuda_operand ett_cuda_dnn_kept(ett_cuda_graph *graph, const int64_t dims[4]) {
  int64_t strides[4];
  dense(dims, strides);
  CUdeviceptr *place = &graph->kept[graph->kept_count];
  if (!broken(graph) && ett_cuda_device_allocate(
                            graph->device, sizeof(float) * (size_t)(dims[0] * strides[0]),
                            "attention's buffer", place, &graph->failure) == 0)
    graph->kept_count++;
  return operand(graph, dims, strides, CUDNN_DATA_FLOAT, (void *)*place, false);
}

ett_cuda_operand ett_cuda_dnn_virtual(ett_cuda_graph *graph, const int64_t dims[4],
                                      cudnnDataType_t type) {
  int64_t strides[4];
  dense(dims, strides);
  return operand(graph, dims, strides, type, NULL, false);
}

ett_cuda_operand ett_cuda_dnn_scalar(ett_cuda_graph *graph, float value) {
  static const int64_t one[4] = {1, 1, 1, 1};
  float *place = &graph->scalars[graph->scalar_count++];
  *place = value;
  return operand(graph, one, one, CUDNN_DATA_FLOAT, place, true);
}

/* --- operations ------------------------------------------------------------------ */

static void add(ett_cuda_graph *graph, descriptor operation) {
  finalize(graph, operation);
  if (broken(graph))
    return;
  if (graph->operation_count == ETT_CUDA_DNN_OPERATIONS)
    ett_err_set(&graph->failure, ETT_ERR_INTERNAL, "a graph of too many operations");
  else
    graph->operations[graph->operation_count++] = operation;
}

static void pointwise(ett_cuda_graph *graph, cudnnPointwiseMode_t mode,
                      cudnnDataType_t compute, const int64_t *axis,
                      const ett_cuda_operand *x, const ett_cuda_operand *b,
                      const ett_cuda_operand *t, const ett_cuda_operand *y) {
  descriptor how = make(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(graph, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set(graph, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  if (axis)
    set(graph, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, axis);
  finalize(graph, how);
  descriptor d = make(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_part(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  set_part(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x->descriptor);
  if (b)
    set_part(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor);
  if (t)
    set_part(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t->descriptor);
  set_part(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y->descriptor);
  add(graph, d);
}

void ett_cuda_dnn_pointwise(ett_cuda_graph *graph, cudnnPointwiseMode_t mode,
                            cudnnDataType_t compute, const ett_cuda_operand *x,
                            const ett_cuda_operand *b, const ett_cuda_operand *t,
                            const ett_cuda_operand *y) {
  pointwise(graph, mode, compute, NULL, x, b, t, y);
}

void ett_cuda_dnn_index(ett_cuda_graph *graph, int64_t axis, const ett_cuda_operand *x,
                        const ett_cuda_operand *y) {
  pointwise(graph, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, &axis, x, NULL, NULL, y);
}

void ett_cuda_dnn_matmul(ett_cuda_graph *graph, const ett_cuda_operand *a,
                         const ett_cuda_operand *b, const ett_cuda_operand *c) {
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  descriptor how = make(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(graph, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  finalize(graph, how);
  descriptor d = make(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_part(graph, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a->descriptor);
  set_part(graph, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b->descriptor);
  set_part(graph, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c->descriptor);
  set_part(graph, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  add(graph, d);
}

void ett_cuda_dnn_reduce(ett_cuda_graph *graph, cudnnReduceTensorOp_t mode,
                         const ett_cuda_operand *x, const ett_cuda_operand *y) {
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  descriptor how = make(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(graph, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
      &mode);
  set(graph, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  finalize(graph, how);
  descriptor d = make(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set_part(graph, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x->descriptor);
  set_part(graph, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y->descriptor);
  set_part(graph, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  add(graph, d);
}

ett_cuda_operand ett_cuda_dnn_transposed(ett_cuda_graph *graph, const ett_cuda_operand *x,
                                         cudnnDataType_t type) {
  const int64_t dims[4] = {x->dims[0], x->dims[1], x->dims[3], x->dims[2]};
  const int64_t strides[4] = {x->strides[0], x->strides[1], x->strides[3], x->strides[2]};
  ett_cuda_operand y = operand(graph, dims, strides, type, NULL, false);
  descriptor d = make(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set_part(graph, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x->descriptor);
  set_part(graph, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
  add(graph, d);
  return y;
}

/* --- planning -------------------------------------------------------------------- */

/* Plans the graph with the first engine configuration of the heuristic that supports
 * it. */
static void plan_graph(ett_cuda_graph *graph) {
  enum { CONFIGURATIONS = 8 };
  cudnnHandle_t handle = graph->device->dnn;
  cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  descriptor configurations[CONFIGURATIONS];
  int64_t found = 0;
  descriptor whole = make(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(graph, whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  set(graph, whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      graph->operation_count, graph->operations);
  finalize(graph, whole);
  descriptor heuristic = make(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_part(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole);
  set(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  finalize(graph, heuristic);
  for (int i = 0; i < CONFIGURATIONS; i++)
    configurations[i] = make(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (broken(graph))
    return;
  graph->status = graph->dnn->cudnnBackendGetAttribute(
      heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      CONFIGURATIONS, &found, configurations);
  cudnnStatus_t last = CUDNN_STATUS_NOT_SUPPORTED;
  for (int64_t i = 0; i < found && i < CONFIGURATIONS && !graph->plan; i++) {
    descriptor plan = make(graph, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_part(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configurations[i]);
    if (broken(graph))
      return;
    last = graph->dnn->cudnnBackendFinalize(plan);
    if (last == CUDNN_STATUS_SUCCESS)
      graph->plan = plan;
  }
  if (!graph->plan && !broken(graph))
    graph->status = last;
}

static void bind(ett_cuda_graph *graph) {
  int64_t bytes = 0, count = 0;
  if (broken(graph))
    return;
  graph->status = graph->dnn->cudnnBackendGetAttribute(
      graph->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
      &bytes);
  if (!broken(graph) && bytes > 0)
    ett_cuda_device_allocate(graph->device, (size_t)bytes, "attention's workspace",
                             &graph->workspace, &graph->failure);
  void *workspace = (void *)graph->workspace;
  graph->pack = make(graph, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(graph, graph->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
      graph->bound_count, graph->ids);
  set(graph, graph->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
      graph->bound_count, graph->pointers);
  set(graph, graph->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
      &workspace);
  finalize(graph, graph->pack);
}

int ett_cuda_dnn_finish(ett_cuda_graph *graph, const char *what, ett_err *err) {
  plan_graph(graph);
  bind(graph);
  if (!broken(graph))
    return 0;
  if (graph->failure.code != ETT_OK)
    ett_err_set(err, graph->failure.code, "%s", graph->failure.message);
  else
    fail(graph, graph->status, what, err);
  free_graph(&graph->base);
  return -1;
}

#endif
