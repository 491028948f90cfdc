/* cuDNN's backend API of the stand-in: every attribute is checked against the documented
 * name, type and count, and a descriptor is complete before it is finalized. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "descriptors.h"

typedef struct rule {
  cudnnBackendDescriptorType_t descriptor;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t least, most;
  int needed;
} rule;

#define RULE(descriptor, attribute, type, least, most, needed)                           \
  {                                                                                      \
    CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##attribute, CUDNN_TYPE_##type,  \
        least, most, needed                                                              \
  }
#define NEEDS(descriptor, attribute)                                                     \
  RULE(descriptor, attribute, BACKEND_DESCRIPTOR, 1, 1, 1)
#define TAKES(descriptor, attribute)                                                     \
  RULE(descriptor, attribute, BACKEND_DESCRIPTOR, 1, 1, 0)

static const rule rules[] = {
    RULE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, 1, 1),
    RULE(TENSOR, TENSOR_DIMENSIONS, INT64, 1, 8, 1),
    RULE(TENSOR, TENSOR_STRIDES, INT64, 1, 8, 1),
    RULE(TENSOR, TENSOR_UNIQUE_ID, INT64, 1, 1, 1),
    RULE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, 1, 1),
    RULE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, 1, 1, 0),
    RULE(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, 1, 1, 0),
    RULE(TENSOR, TENSOR_REORDERING_MODE, TENSOR_REORDERING_MODE, 1, 1, 0),
    RULE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, 1, 1),
    RULE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, 1, 1),
    RULE(POINTWISE, POINTWISE_AXIS, INT64, 1, 1, 0),
    NEEDS(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR),
    NEEDS(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC),
    TAKES(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC),
    TAKES(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC),
    NEEDS(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC),
    RULE(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1, 1, 1),
    NEEDS(OPERATION_MATMUL, OPERATION_MATMUL_ADESC),
    NEEDS(OPERATION_MATMUL, OPERATION_MATMUL_BDESC),
    NEEDS(OPERATION_MATMUL, OPERATION_MATMUL_CDESC),
    NEEDS(OPERATION_MATMUL, OPERATION_MATMUL_DESC),
    RULE(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, 1, 1),
    RULE(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1, 1, 1),
    NEEDS(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC),
    NEEDS(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC),
    NEEDS(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC),
    NEEDS(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC),
    NEEDS(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC),
    RULE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 1, 1, 1),
    RULE(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, MAX_OPERATIONS, 1),
    NEEDS(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH),
    RULE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, 1, 1),
    RULE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 1, 1, 1),
    NEEDS(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG),
    RULE(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, 1, 64, 1),
    RULE(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 1, 64, 1),
    RULE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, 1, 0),
};

enum { RULES = sizeof rules / sizeof *rules, WORKSPACE_BYTES = 1 << 16 };

struct cudnnContext {
  CUstream stream;
};

static int descriptors, handles;

static void __attribute__((destructor)) leftovers(void) {
  if (handles == 0 && descriptors != 0)
    ett_stand_in_abort("cuDNN: %d descriptors are still held", descriptors);
}

size_t cudnnGetVersion(void) {
  const char *version = getenv("ETT_GPU_CUDNN_VERSION");
  return version ? (size_t)atoll(version) : CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == CUDNN_STATUS_BAD_PARAM     ? "CUDNN_STATUS_BAD_PARAM"
                                                : "CUDNN_STATUS_EXECUTION_FAILED";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  if (ett_stand_in_status() != CUDA_SUCCESS)
    return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = calloc(1, sizeof **handle);
  if (!*handle)
    return CUDNN_STATUS_ALLOC_FAILED;
  handles++;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  handles--;
  free(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = (CUstream)stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *made) {
  int known = type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
  for (int i = 0; i < RULES; i++)
    known = known || rules[i].descriptor == type;
  if (!known)
    ett_stand_in_abort("cudnnBackendCreateDescriptor: type %d is not known here", type);
  descriptor *d = calloc(1, sizeof *d);
  if (!d)
    return CUDNN_STATUS_ALLOC_FAILED;
  d->type = type;
  descriptors++;
  *made = d;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  descriptor *d = handle;
  for (int i = 0; i < d->attribute_count; i++)
    free(d->attributes[i].values);
  free(d);
  descriptors--;
  return CUDNN_STATUS_SUCCESS;
}

static size_t type_bytes(cudnnBackendAttributeType_t type) {
  switch ((int)type) {
  case CUDNN_TYPE_BOOLEAN:
    return sizeof(bool);
  case CUDNN_TYPE_INT64:
    return 8;
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    return sizeof(void *);
  default: /* enumerations and float */
    return 4;
  }
}

const attribute *ett_stand_in_attribute(const descriptor *d,
                                        cudnnBackendAttributeName_t name) {
  for (int i = 0; i < d->attribute_count; i++)
    if (d->attributes[i].name == name)
      return &d->attributes[i];
  return NULL;
}

descriptor *ett_stand_in_part(const descriptor *d, cudnnBackendAttributeName_t name) {
  const attribute *a = ett_stand_in_attribute(d, name);
  return a ? *(descriptor **)a->values : NULL;
}

int64_t ett_stand_in_integer(const descriptor *d, cudnnBackendAttributeName_t name,
                             int64_t fallback) {
  const attribute *a = ett_stand_in_attribute(d, name);
  if (!a)
    return fallback;
  switch (type_bytes(a->type)) {
  case 1:
    return *(bool *)a->values;
  case 4:
    return *(int32_t *)a->values;
  default:
    return *(int64_t *)a->values;
  }
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
  descriptor *d = handle;
  ett_stand_in_count("cudnnBackendSetAttribute");
  if (!d || !values)
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (d->finalized)
    return CUDNN_STATUS_NOT_INITIALIZED;
  const rule *r = NULL;
  for (int i = 0; i < RULES && !r; i++)
    if (rules[i].descriptor == d->type && rules[i].name == name)
      r = &rules[i];
  if (!r)
    ett_stand_in_abort(
        "cudnnBackendSetAttribute: a descriptor of type %d has no attribute %d", d->type,
        name);
  if (type != r->type || count < r->least || count > r->most)
    ett_stand_in_abort(
        "cudnnBackendSetAttribute: attribute %d has type %d and %lld values, got type %d "
        "and %lld",
        name, r->type, (long long)r->most, type, (long long)count);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (int64_t i = 0; i < count; i++)
      if (!((descriptor *const *)values)[i] ||
          !((descriptor *const *)values)[i]->finalized)
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (ett_stand_in_attribute(d, name))
    ett_stand_in_abort("cudnnBackendSetAttribute: attribute %d is set twice", name);
  attribute *a = &d->attributes[d->attribute_count];
  *a = (attribute){name, type, count, malloc((size_t)count * type_bytes(type))};
  if (!a->values)
    return CUDNN_STATUS_ALLOC_FAILED;
  memcpy(a->values, values, (size_t)count * type_bytes(type));
  d->attribute_count++;
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_tensor(const descriptor *d) {
  const attribute *dims = ett_stand_in_attribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
  const attribute *strides = ett_stand_in_attribute(d, CUDNN_ATTR_TENSOR_STRIDES);
  int64_t alignment = ett_stand_in_integer(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
  if (dims->count != strides->count || alignment <= 0 || alignment & (alignment - 1))
    return CUDNN_STATUS_BAD_PARAM;
  for (int64_t i = 0; i < dims->count; i++)
    if (((int64_t *)dims->values)[i] <= 0 || ((int64_t *)strides->values)[i] <= 0)
      return CUDNN_STATUS_BAD_PARAM;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  descriptor *d = handle;
  ett_stand_in_count("cudnnBackendFinalize");
  if (!d)
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (d->finalized)
    ett_stand_in_abort("cudnnBackendFinalize: a descriptor of type %d is finalized twice",
                       d->type);
  for (int i = 0; i < RULES; i++)
    if (rules[i].descriptor == d->type && rules[i].needed &&
        !ett_stand_in_attribute(d, rules[i].name))
      return CUDNN_STATUS_BAD_PARAM;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  switch ((int)d->type) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    status = check_tensor(d);
    break;
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    status = ett_stand_in_operation_fits(d);
    break;
  case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    ett_stand_in_abort("an engine configuration of a heuristic is finalized by it");
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
    /* The first proposal of the heuristic cannot be built, as can happen with cuDNN. */
    const descriptor *configuration =
        ett_stand_in_part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    status = ett_stand_in_integer(configuration, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0) == 0
                 ? CUDNN_STATUS_NOT_SUPPORTED
                 : CUDNN_STATUS_SUCCESS;
    break;
  }
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    if (ett_stand_in_attribute(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->count !=
        ett_stand_in_attribute(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->count)
      status = CUDNN_STATUS_BAD_PARAM;
    break;
  default:
    break;
  }
  d->finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

static cudnnStatus_t propose(const descriptor *heuristic, int64_t room, int64_t *count,
                             descriptor **configurations) {
  descriptor *graph = ett_stand_in_part(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  cudnnStatus_t status = ett_stand_in_graph_supported(graph);
  *count = 0;
  if (status != CUDNN_STATUS_SUCCESS)
    return CUDNN_STATUS_SUCCESS; /* no engine: an empty list */
  for (int64_t i = 0; i < room && i < 3; i++, (*count)++) {
    descriptor *c = configurations[i];
    if (!c || c->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
      return CUDNN_STATUS_BAD_PARAM;
    c->attributes[0] =
        (attribute){CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, malloc(8)};
    c->attributes[1] =
        (attribute){CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    malloc(sizeof graph)};
    memcpy(c->attributes[0].values, &i, 8);
    memcpy(c->attributes[1].values, &graph, sizeof graph);
    c->attribute_count = 2;
    c->finalized = 1;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room,
                                       int64_t *count, void *values) {
  descriptor *d = handle;
  if (!d || !d->finalized)
    return CUDNN_STATUS_NOT_INITIALIZED;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    return propose(d, room, count, values);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 &&
      room == 1) {
    *(int64_t *)values = WORKSPACE_BYTES;
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  ett_stand_in_abort(
      "cudnnBackendGetAttribute: attribute %d of type %d is not known here", name, type);
}

typedef struct run_data {
  const descriptor *graph, *pack;
} run_data;

static void run(void *data) {
  const run_data *r = data;
  const attribute *ids =
      ett_stand_in_attribute(r->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const attribute *pointers =
      ett_stand_in_attribute(r->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (getenv("ETT_GPU_EXECUTE"))
    ett_stand_in_compute(r->graph, ids->values, pointers->values, ids->count);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan_handle,
                                  cudnnBackendDescriptor_t pack_handle) {
  descriptor *plan = plan_handle, *pack = pack_handle;
  ett_stand_in_count("cudnnBackendExecute");
  if (ett_stand_in_status() != CUDA_SUCCESS)
    return CUDNN_STATUS_EXECUTION_FAILED;
  if (!plan || !pack || !plan->finalized || !pack->finalized)
    return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const attribute *workspace =
      ett_stand_in_attribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (!workspace ||
      !ett_stand_in_holds(*(CUdeviceptr *)workspace->values, WORKSPACE_BYTES))
    ett_stand_in_abort("cudnnBackendExecute: the workspace of %d bytes is missing",
                       WORKSPACE_BYTES);
  const descriptor *configuration =
      ett_stand_in_part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  run_data data = {ett_stand_in_part(configuration, CUDNN_ATTR_ENGINE_OPERATION_GRAPH),
                   pack};
  ett_stand_in_work work = {"stand_in_attention", 2e-5, run, &data, sizeof data};
  return ett_stand_in_enqueue(handle->stream, &work) == CUDA_SUCCESS
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}
